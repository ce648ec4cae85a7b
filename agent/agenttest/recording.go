package agenttest

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/record"
)

// recording is what is on record of a run and of the runs below it.
type recording struct {
	rows map[record.Key]*field.Row
	// root is the run itself.
	root     *record.Plan
	steps    map[string]*record.AgentExecution
	cycles   map[cycleAt]*record.ThinkAct
	calls    map[string]*record.ActTool
	waits    map[string]*record.Wait
	thoughts map[string]*record.Thought
	plans    map[string]*record.Plan
}

type cycleAt struct {
	step string
	seq  int64
}

// maxLine bounds a line of an export, in bytes.
const maxLine = 256 << 20

// readRecording reads an export, whole or with contents once.
func readRecording(from io.Reader) (*recording, error) {
	r, parts := &recording{rows: map[record.Key]*field.Row{}}, contents{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		if err := r.addLine(lines.Bytes(), parts); err != nil {
			return nil, fmt.Errorf("line %d is no record of an export: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return r, r.index()
}

func (r *recording) addLine(line []byte, parts contents) error {
	change, of, err := wire.DecodeOnce(line)
	if err != nil {
		return err
	}
	if change == nil {
		return parts.add(of.Content)
	}
	if err := field.JoinTexts(change, parts.join); err != nil {
		return err
	}
	return r.add(change)
}

// add adds a change of an export.
func (r *recording) add(change record.Change) error {
	row, err := field.NewRow(change)
	if err != nil {
		return err
	}
	if known := r.rows[change.Key()]; known != nil {
		known.Learn(row)
	} else {
		r.rows[change.Key()] = row
	}
	return nil
}

// index finds the root, and sorts the rows by their kinds.
func (r *recording) index() error {
	r.steps, r.cycles = map[string]*record.AgentExecution{}, map[cycleAt]*record.ThinkAct{}
	r.calls, r.waits = map[string]*record.ActTool{}, map[string]*record.Wait{}
	r.thoughts, r.plans = map[string]*record.Thought{}, map[string]*record.Plan{}

	for _, row := range r.rows {
		switch c := row.Change.(type) {
		case *record.Plan:
			if r.plans[c.CurrentPlanID] = c; !c.IsRoot() {
				continue
			}
			if r.root != nil {
				return errors.New("there are two runs; one is replayed at a time")
			}
			r.root = c
		case *record.AgentExecution:
			r.steps[c.StepID] = c
		case *record.ThinkAct:
			r.cycles[cycleAt{c.StepID, c.Seq}] = c
		case *record.ActTool:
			r.calls[c.ToolCallID] = c
		case *record.Wait:
			r.waits[c.WaitID] = c
		case *record.Thought:
			r.thoughts[c.ThoughtID] = c
		}
	}

	if r.root == nil {
		return errors.New("there is no run in it: it is not what actlog export writes")
	}
	return nil
}

// stepsOf returns the steps of a plan, in order.
func (r *recording) stepsOf(planID string) []*record.AgentExecution {
	return inOrder(r.steps, func(s *record.AgentExecution) bool { return s.PlanID == planID },
		func(s *record.AgentExecution) (int64, string) { return optional.Value(s.StepIndex), s.StepID })
}

// cyclesOf returns the cycles of a step, in order.
func (r *recording) cyclesOf(stepID string) []*record.ThinkAct {
	return inOrder(r.cycles, func(c *record.ThinkAct) bool { return c.StepID == stepID },
		func(c *record.ThinkAct) (int64, string) { return c.Seq, "" })
}

// callsOf returns the calls of a cycle, in order.
func (r *recording) callsOf(stepID string, seq int64) []*record.ActTool {
	return inOrder(r.calls, func(c *record.ActTool) bool { return c.StepID == stepID && c.Seq == seq },
		func(c *record.ActTool) (int64, string) { return optional.Value(c.CallIndex), c.ToolCallID })
}

// made returns the last attempt of a call that was made; nil: none was.
func (r *recording) made(c *record.ActTool) *record.ActTool {
	if c.StartTime != nil {
		return c
	}
	for _, past := range slices.Backward(r.rows[c.Key()].Past) {
		if before, ok := past.Change.(*record.ActTool); ok && before.StartTime != nil {
			return before
		}
	}
	return nil
}

// subPlan returns the run that a call started, in its last attempt; nil: none.
func (r *recording) subPlan(toolCallID string) *record.Plan {
	started := inOrder(r.plans, func(p *record.Plan) bool {
		return !p.IsRoot() && optional.Value(p.ToolCallID) == toolCallID
	}, func(p *record.Plan) (int64, string) { return optional.Value(p.StartTime).UnixMicro(), p.CurrentPlanID })
	if len(started) == 0 {
		return nil
	}
	return started[len(started)-1]
}

// inOrder returns the values that are wanted, in an order.
func inOrder[K comparable, V any](of map[K]V, wanted func(V) bool, place func(V) (int64, string)) []V {
	found := slices.Collect(maps.Values(of))
	found = slices.DeleteFunc(found, func(v V) bool { return !wanted(v) })
	slices.SortFunc(found, func(a, b V) int {
		aIndex, aID := place(a)
		bIndex, bID := place(b)
		return cmp.Or(cmp.Compare(aIndex, bIndex), cmp.Compare(aID, bID))
	})
	return found
}

// contents are the parts of texts of an export with contents once.
type contents map[content.Hash]string

func (c contents) add(of content.Content) error {
	c[of.Hash] = of.Body
	if of.Pieces == nil {
		return nil
	}
	text, err := c.text("parts", of.Pieces)
	c[of.Hash] = text
	return err
}

func (c contents) join(f *field.Field, parts []content.Hash) (string, error) {
	return c.text(f.Pieces.Name, parts)
}

// maxText bounds a text: what was cut is exported one character too long.
const maxText = record.MaxTextBytes + utf8.UTFMax

// text returns what parts make together. member names them.
func (c contents) text(member string, parts []content.Hash) (string, error) {
	var text strings.Builder
	for _, hash := range parts {
		body, ok := c[hash]
		switch {
		case !ok:
			return "", fmt.Errorf("%s: %s is not in the lines before", member, hash)
		case text.Len()+len(body) > maxText:
			return "", fmt.Errorf("%s: they have over %d bytes together", member, maxText)
		}
		text.WriteString(body)
	}
	return text.String(), nil
}
