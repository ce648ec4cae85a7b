package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// The sections of a statement that reads a step, its cycles and its tool calls, each in a row. $1 is the step's id, $2
// the partition and $3 the root, as in planTree.
var (
	stepSection = fieldsql.Section{
		Kind: record.KindAgentExecution,
		Columns: append(fieldsql.Readable(record.KindAgentExecution, "a"),
			fieldsql.Column{Name: "part", Type: "date", SQL: "a.part"},
			fieldsql.Column{Name: "also_under", Type: "text[]", SQL: "(SELECT also_under FROM asked)"}),
		From: `FROM actlog.agent_execution_record AS a
WHERE a.root_plan_id = (SELECT root_plan_id FROM asked) AND a.step_id = $1::text`,
	}
	cycleSection = fieldsql.Section{
		Kind:    record.KindThinkAct,
		Columns: fieldsql.Readable(record.KindThinkAct, "c"),
		From: `FROM actlog.think_act_record AS c
WHERE c.root_plan_id = (SELECT root_plan_id FROM asked) AND c.step_id = $1::text AND c.part = $2::date`,
		Sort: []fieldsql.Column{{Name: "by_seq", Type: "integer", SQL: "c.seq"}},
	}
	// storedCycleSection reads prompts as they are stored. Their contents have a section of their own.
	storedCycleSection = fieldsql.Section{
		Kind: record.KindThinkAct, Columns: fieldsql.Stored(record.KindThinkAct, "c"), From: cycleSection.From,
		Sort: cycleSection.Sort,
	}
	onceCycleSection = fieldsql.Section{
		Kind: record.KindThinkAct, Columns: fieldsql.StoredOnce(record.KindThinkAct, "c"), From: cycleSection.From,
		Sort: cycleSection.Sort,
	}
	callSection = fieldsql.Section{
		Kind:    record.KindActTool,
		Columns: fieldsql.Readable(record.KindActTool, "t"),
		From: `FROM actlog.act_tool_info AS t
WHERE t.root_plan_id = (SELECT root_plan_id FROM asked) AND t.step_id = $1::text AND t.part = $2::date`,
		Sort: []fieldsql.Column{
			{Name: "by_seq", Type: "integer", SQL: "t.seq"},
			{Name: "by_index", Type: "integer", SQL: "t.call_index"},
			{Name: "by_start", Type: "timestamptz", SQL: "LEAST(t.start_time, actlog.first_start(t.attempts))"},
			{Name: "by_id", Type: "text", SQL: "t.tool_call_id"},
		},
	}
)

var askedStep = rootsOfID("agent_execution_record", "step_id", stepOrder)

// storedStep reads each content of a step once, onceStep for readers that put texts together themselves.
var (
	stepContents = contentSection("(SELECT root_plan_id FROM asked)", "$2::date", cycleSection.From)
	storedStep   = []fieldsql.Section{stepSection, storedCycleSection, callSection, stepContents}
	onceStep     = []fieldsql.Section{stepSection, onceCycleSection, callSection, stepContents}
)

// stepDetail reads the rows of a step in no order: sorting them would cost more than Go takes.
var (
	stepDetail     = fieldsql.Union(askedStep, storedStep...)
	stepDetailOnce = fieldsql.Union(askedStep, onceStep...)
)

// stepRows reads them in the order of [StepTaker], contents first, and stepRowsOnce in that of [OnceTaker].
// wholeStepRows is stepRows with whole prompts, for a step of more contents than can be held.
var (
	stepRows      = inStepOrder(storedStep...)
	stepRowsOnce  = inStepOrder(onceStep...)
	wholeStepRows = inStepOrder(stepSection, cycleSection, callSection)
)

func inStepOrder(sections ...fieldsql.Section) *fieldsql.Read {
	hash := ""
	if sections[len(sections)-1].Kind == kindContent {
		hash = "r.by_hash, "
	}
	return fieldsql.Sorted(askedStep, `r.by_seq NULLS FIRST, r.kind COLLATE "C" DESC, `+hash+
		`r.by_index NULLS LAST, r.by_start NULLS LAST, r.by_id COLLATE "C"`, sections...)
}

// StepDetail reads a step with its cycles and tool calls, in one statement. rootPlanID is the
// root that the step is under. If it is empty and several roots have a step of that id, one of a run
// comes first, then the newest. The error is [record.ErrNotFound] if there is no such step.
func (r *Reader) StepDetail(ctx context.Context, rootPlanID, stepID string) (*tree.Step, error) {
	n, err := r.stepNodes(ctx, stepDetail, rootPlanID, stepID)
	if err != nil {
		return nil, err
	}

	for _, c := range n.cycles {
		if err := n.texts.fill(&c.Record, r.within); err != nil {
			return nil, err
		}
	}
	return n.step(), nil
}

// StepDetailOnce is StepDetail for readers that put texts together themselves: texts that are stored in pieces are not
// there, but their pieces, and the contents of the step, each once, in the order of their hashes.
func (r *Reader) StepDetailOnce(ctx context.Context, rootPlanID, stepID string) (*tree.Step, []content.Content, error) {
	n, err := r.stepNodes(ctx, stepDetailOnce, rootPlanID, stepID)
	if err != nil {
		return nil, nil, err
	}

	st := n.step()
	for _, c := range n.cycles {
		field.HideMarks(&c.Record)
	}
	return st, n.texts.sorted(), nil
}

func (r *Reader) stepNodes(ctx context.Context, of *fieldsql.Read, rootPlanID, stepID string) (*nodes, error) {
	n, err := r.nodes(ctx, of, rootPlanID, stepID)
	if err == nil && len(n.steps) == 0 {
		err = record.ErrNotFound
	}
	return n, err
}

func (n *nodes) step() *tree.Step {
	finishStep(n.steps[0])
	for _, c := range n.cycles {
		finishCycle(c)
	}
	for _, t := range n.calls {
		finishCall(t)
	}
	tree.Nest(n.steps[:1], n.cycles, n.calls)
	return n.steps[0]
}

// The functions below set what is derived.

func finishStep(st *tree.Step) {
	st.Figures.DurationMs = tree.Duration(st.Record.StartTime, st.Record.EndTime)
	st.Truncated = field.StillCut(&st.Record, st.Truncated)
}

func finishCycle(c *tree.Cycle) { c.Truncated = field.StillCut(&c.Record, c.Truncated) }

func finishCall(t *tree.ToolCall) { t.Truncated = field.StillCut(&t.Record, t.Truncated) }

// StepTaker takes the rows of a step in their order: the step, then each of its cycles with its
// tool calls behind it. An error ends the read and is its error.
type StepTaker interface {
	TakeStep(st *tree.Step) error
	TakeCycle(c *tree.Cycle) error
	TakeToolCall(t *tree.ToolCall) error
}

// OnceTaker takes the rows of a step whose texts stay as they are stored. All contents of the step come
// before the step itself, each once, in the order of their hashes.
type OnceTaker interface {
	StepTaker
	TakeContent(c content.Content) error
}

// StepRows reads a step as [Reader.StepDetail] does, and gives away each row as it comes. No
// other row is held meanwhile, and at most 8 MiB of contents, so a step may be of any size.
func (r *Reader) StepRows(ctx context.Context, rootPlanID, stepID string, to StepTaker) error {
	return r.readStep(ctx, rootPlanID, stepID, stepReading{to: to})
}

// StepRowsOnce reads a step as [Reader.StepDetailOnce] does, and gives away each row as it comes. No other
// row is held meanwhile.
func (r *Reader) StepRowsOnce(ctx context.Context, rootPlanID, stepID string, to OnceTaker) error {
	return r.readStep(ctx, rootPlanID, stepID, stepReading{to: to, once: to.TakeContent})
}

func (r *Reader) readStep(ctx context.Context, rootPlanID, stepID string, s stepReading) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.partition, s.cancel = likelyPartition(cmp.Or(rootPlanID, stepID), time.Now(), r.partitionDays), cancel

	for {
		_, err := pg.Read(ctx, r.db, func() (struct{}, error) { return struct{}{}, s.read(ctx, r, rootPlanID, stepID) })
		switch {
		case s.refused != nil:
			return s.refused
		case errors.Is(err, errManyContents):
			s.whole, s.lost = true, nil
			continue
		case err != nil:
			return err
		case s.step != nil:
			return nil
		case s.elsewhere.IsZero():
			return record.ErrNotFound
		}

		s.partition, s.elsewhere = s.elsewhere, time.Time{}
	}
}

type stepReading struct {
	to        StepTaker
	once      func(content.Content) error // takes contents; nil: texts are put together
	cancel    context.CancelFunc
	partition time.Time // where its detail should be
	whole     bool      // prompts are read whole
	texts     texts

	elsewhere time.Time // where it is, if not there
	begun     bool      // something was given away
	step      *tree.Step
	seq       *int64 // of the last cycle
	refused   error  // of to
	lost      error  // why it broke off
}

// read reads the rows, unless some of them were given away before: then it returns why that
// ended.
func (s *stepReading) read(ctx context.Context, r *Reader, rootPlanID, stepID string) error {
	if s.begun {
		return s.lost
	}

	statement := stepRows
	switch {
	case s.once != nil:
		statement = stepRowsOnce
	case s.whole:
		statement = wholeStepRows
	}

	rows, err := r.Query(ctx, statement.SQL, stepID, s.partition, orNil(rootPlanID))
	if err != nil {
		return err
	}

	s.texts = texts{}
	var row any
	home := new(struct{ Part time.Time })
	var earlier earlierAttempts

	s.lost = statement.Rows(rows, func(kind record.Kind) ([]any, error) {
		switch kind {
		case record.KindAgentExecution:
			st := new(tree.Step)
			row = st
			return []any{&st.Record, st, &st.Figures, home, earlier.of(kind, &st.PastAttempts)}, nil
		case record.KindThinkAct:
			c := new(tree.Cycle)
			row = c
			return []any{&c.Record, c, earlier.of(kind, &c.PastAttempts)}, nil
		case record.KindActTool:
			t := new(tree.ToolCall)
			row = t
			return []any{&t.Record, t, earlier.of(kind, &t.PastAttempts)}, nil
		case kindContent:
			row = s.texts.next()
			return []any{row}, nil
		}
		return nil, fmt.Errorf("read a row of kind %q", kind)
	}, func() error {
		if err := earlier.read(); err != nil {
			return err
		}

		_, isContent := row.(*contentRow)
		switch {
		case isContent && s.once == nil:
			if s.texts.read(); s.texts.bytes > maxHeldContents {
				return errManyContents
			}
			return nil
		case !isContent && !home.Part.Equal(s.partition): // there are no other rows then
			s.elsewhere = home.Part
			return nil
		}

		s.begun = true
		if s.refused = s.give(row); s.refused != nil {
			s.cancel() // the rest is not read: closing the rows would read it
		}
		return s.refused
	})

	return s.lost
}

func (s *stepReading) give(row any) error {
	switch row := row.(type) {
	case *contentRow:
		c, _ := row.content()
		return s.once(c)
	case *tree.Step:
		finishStep(row)
		s.step = row
		return s.to.TakeStep(row)
	case *tree.Cycle:
		if s.once == nil {
			if err := s.texts.fill(&row.Record, nil); err != nil {
				return err
			}
		}

		finishCycle(row)
		field.HideMarks(&row.Record)
		s.seq = &row.Record.Seq
		return s.to.TakeCycle(row)
	case *tree.ToolCall:
		finishCall(row)
		if s.seq != nil && *s.seq == row.Record.Seq { // every call has one
			return s.to.TakeToolCall(row)
		}
	}
	return nil
}
