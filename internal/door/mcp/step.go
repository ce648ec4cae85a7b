package mcp

import (
	"cmp"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/view/chat"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/record"
)

type stepArguments struct {
	PlanID string `json:"planId" jsonschema:"the id of the run that the step is in, or of a sub-plan"`
	Root   string `json:"root,omitempty" jsonschema:"the id of the root plan, if several runs have a plan of this id"`
	At     string `json:"at" jsonschema:"the address of a step (step:...), or of one of its cycles (cycle:...) to begin with"`
	Limit  int    `json:"limit,omitempty" jsonschema:"the most cycles to return"`
	Chars  int    `json:"chars,omitempty" jsonschema:"the most characters of each text"`
	Cursor string `json:"cursor,omitempty" jsonschema:"the nextCursor of the answer before, with the same arguments"`
}

var stepBounds = map[string]limits{
	"at": {max: maxAddress}, "limit": {1, 25, 10}, "chars": {100, store.BriefChars, 1_000},
	"cursor": {max: 2 * maxAddress},
}

type readStep struct {
	PlanID     string `json:"planId"`
	RootPlanID string `json:"rootPlanId"`
	place
	span
	figures
	Path        []place `json:"path"`
	Request     string  `json:"request,omitempty"`
	Result      string  `json:"result,omitempty"`
	Error       string  `json:"error,omitempty"`
	TotalCycles int     `json:"totalCycles"`
	Cycles      []cycle `json:"cycles"`
	NextCursor  *string `json:"nextCursor,omitempty"`
	// OtherRows are sub-plans and waits of the step that no tool call of it has.
	OtherRows []place `json:"otherRows,omitempty"`
}

// cycle is a model call and the tool calls that it asked for.
type cycle struct {
	place
	Seq int64 `json:"seq"`
	span
	figures
	Model        string `json:"model,omitempty"`
	FinishReason string `json:"finishReason,omitempty"`
	Error        string `json:"error,omitempty"`
	// KnownMessages is how many messages of the input the cycle before had, too. NewInput are the others.
	KnownMessages int       `json:"knownMessages,omitempty"`
	NewInput      []message `json:"newInput,omitempty"`
	Output        string    `json:"output,omitempty"`
	Calls         []call    `json:"calls,omitempty"`
}

type message struct {
	Role string `json:"role,omitempty"`
	Text string `json:"text"`
}

type call struct {
	place
	span
	Arguments string  `json:"arguments,omitempty"`
	Result    string  `json:"result,omitempty"`
	Error     string  `json:"error,omitempty"`
	Below     []place `json:"below,omitempty"` // sub-plans that it started, and waits
}

const (
	// stepCursors are the cursors of the cycles of a step.
	stepCursors = "cycles"
	// maxMessages is how many messages of the input of a cycle are shown: the last ones.
	maxMessages = 20
)

// readStep reads the cycles of a step, with the beginnings of their texts.
func (s *Server) readStep(c echo.Context, in stepArguments) (any, error) {
	from, err := cursorOf(in.Cursor, stepCursors)
	if err != nil {
		return nil, err
	}

	o, err := s.outline(c, in.PlanID, in.Root)
	if err != nil {
		return nil, err
	}
	at, err := findRow(o, "at", in.At)
	if err != nil {
		return nil, err
	}

	first := -1
	if o.Rows[at].Cycle != nil {
		first, at = at, o.Rows[at].Parent
	}
	if o.Rows[at].Step == nil {
		return nil, httpd.BadField("at", "must be the address of a step or of a cycle; read_row reads other rows")
	}
	if from != nil {
		if first, err = findRow(o, "cursor", from.ID); err != nil {
			return nil, err
		}
	}

	left := room(maxItems)
	out, err := s.stepOf(c, o, at, in.Chars, &left)
	if err != nil {
		return nil, err
	}

	for _, i := range o.Children(at) {
		switch r := &o.Rows[i]; {
		case r.Cycle == nil:
			if p := placeOf(r); len(out.OtherRows) < maxBelow && left.take(p) {
				out.OtherRows = append(out.OtherRows, p)
			}
			continue
		case i < first:
		case out.NextCursor != nil:
		case len(out.Cycles) == in.Limit || left < maxItems/8 && len(out.Cycles) > 0:
			out.NextCursor = new(httpd.Cursor{ID: r.At}.Format(stepCursors))
		default:
			each, err := s.cycleOf(c, o, i, in.Chars, &left)
			if err != nil {
				return nil, err
			}
			out.Cycles = append(out.Cycles, each)
		}
		out.TotalCycles++
	}
	return out, nil
}

// stepOf returns a step without its cycles.
func (s *Server) stepOf(c echo.Context, o *outline.Outline, at, chars int, left *room) (readStep, error) {
	r := &o.Rows[at]
	out := readStep{
		PlanID: o.Plan.Record.CurrentPlanID, RootPlanID: o.Plan.Record.RootPlanID, place: placeOf(r), span: spanOf(r),
		figures: figuresOf(&r.Step.Figures),
		Path:    pathTo(o, at), Cycles: []cycle{},
	}
	left.take(out)

	row, err := s.lookup.Reader(c).Detail(c.Request().Context(), r.Key())
	if err != nil {
		return out, err
	}
	if k, ok := row.Record.(*record.AgentExecution); ok {
		out.Error = clip(errorText(k.ErrorKind, k.ErrorMessage), chars, left)
		out.Request = clip(optional.Value(k.AgentRequest), chars, left)
		out.Result = clip(tree.Answer(optional.Value(k.Result)), chars, left)
	}
	return out, nil
}

func (s *Server) cycleOf(c echo.Context, o *outline.Outline, at, chars int, left *room) (out cycle, err error) {
	r := &o.Rows[at]
	row, err := s.lookup.Reader(c).Detail(c.Request().Context(), r.Key())
	if err != nil {
		return out, err
	}
	k, ok := row.Record.(*record.ThinkAct)
	if !ok {
		return out, record.ErrNotFound
	}

	out = cycle{
		place: placeOf(r), Seq: k.Seq, span: spanOf(r),
		Model: optional.Value(k.ModelName), FinishReason: optional.Value(k.FinishReason),
		figures: figures{
			InputTokens: optional.Value(k.InputTokens), OutputTokens: optional.Value(k.OutputTokens), CostUSD: k.CostUSD,
		},
	}
	left.take(out)
	out.Error = clip(errorText(k.ErrorKind, k.ErrorMessage), chars, left)
	out.Output = clip(cmp.Or(optional.Value(k.ThinkOutput), string(k.Message)), chars, left)

	texts := map[string]*record.ActTool{}
	for i := range row.Calls {
		if t, ok := row.Calls[i].Record.(*record.ActTool); ok {
			texts[t.ToolCallID] = t
		}
	}
	for _, i := range o.Children(at) {
		if o.Rows[i].Call == nil {
			continue
		}

		each := call{place: placeOf(&o.Rows[i]), span: spanOf(&o.Rows[i])}
		for _, below := range o.Children(i) {
			each.Below = append(each.Below, placeOf(&o.Rows[below]))
		}
		if len(each.Below) > maxBelow {
			each.Below = each.Below[:maxBelow]
		}

		if !left.take(each) {
			break // its address stands in read_run
		}
		if t := texts[o.Rows[i].Call.Record.ToolCallID]; t != nil {
			each.Error = clip(errorText(t.ErrorKind, t.ErrorMessage), chars, left)
			each.Arguments = clip(optional.Value(t.Parameters), chars, left)
			each.Result = clip(tree.Answer(optional.Value(t.Result)), chars, left)
		}
		out.Calls = append(out.Calls, each)
	}

	asked := chat.ParseMessages(optional.Value(k.ThinkInput))
	known := make([]bool, len(asked))
	if b := row.Before; b != nil {
		known = chat.Known(asked, chat.ParseMessages(optional.Value(b.ThinkInput)),
			chat.Reply(string(b.Message), optional.Value(b.ThinkOutput)))
	}

	for i := range asked {
		if known[i] || len(asked)-i > maxMessages && i > 0 {
			out.KnownMessages++
			continue
		}
		m := message{Role: asked[i].Role}
		if left.take(m) {
			m.Text = clip(messageText(&asked[i]), chars, left)
			out.NewInput = append(out.NewInput, m)
		}
	}
	return out, nil
}

func messageText(m *chat.Message) string {
	var parts []string
	for _, p := range m.Parts {
		text := p.Text
		if p.Kind == chat.Call {
			text = p.Name + "(" + p.Text + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n")
}
