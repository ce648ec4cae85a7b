package web

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/view/chat"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

// cycleView is a cycle as a chat: what was asked, what the model answered, and what came of the tool calls that it
// asked for.
type cycleView struct {
	before *outline.Row // the cycle before it in its step; nil: there is none
	far    bool         // the cycles before were too much to find out where messages are from
	asked  []turn
	said   []saidTurn // what people and programs said that this cycle has read
	reply  []turn
	calls  []callView
	others int // how many more there are
}

// turn is a message, or several that the cycle before had, too.
type turn struct {
	role, name string
	parts      []*passage
	known      int          // how many messages are folded here; 0: it is a message
	same       bool         // it is a message that the cycle before had
	from       *outline.Row // the cycle that had known messages first; nil: it is not known
	folds      []turn       // that are folded once more: there are many
	id         string       // of these
}

// Of more than maxFolds that follow each other, only the first and the last ones are shown at once.
const (
	maxFolds   = 6
	firstFolds = 1
	lastFolds  = 3
)

// fewFolds folds the folds at the end of the turns of a text once more if they are many.
func fewFolds(name string, all []turn) []turn {
	begin := len(all)
	for begin > 0 && all[begin-1].known > 0 {
		begin--
	}
	if len(all)-begin <= maxFolds {
		return all
	}

	middle := turn{
		id: textID(name + "/folds/" + strconv.Itoa(begin)), folds: slices.Clone(all[begin+firstFolds : len(all)-lastFolds]),
	}
	for i := range middle.folds {
		middle.known += middle.folds[i].known
	}
	return slices.Replace(all, begin+firstFolds, len(all)-lastFolds, middle)
}

// origins returns how many cycles the messages in the folds of a turn are from.
func (t *turn) origins() int {
	cycles := map[*outline.Row]bool{}
	for i := range t.folds {
		cycles[t.folds[i].from] = true
	}
	return len(cycles)
}

// saidTurn is what somebody said to the run.
type saidTurn struct{ by, text, at string }

// maxSaid bounds how many messages a cycle shows that say who said them.
const maxSaid = 100

// saidIn returns what a cycle has read. What is recorded may be anything.
func saidIn(r *record.ThinkAct) (all []saidTurn) {
	var read []struct {
		Text, By, CreatedAt any
	}
	if json.Unmarshal(r.Messages, &read) != nil {
		return nil
	}
	for _, m := range read[:min(len(read), maxSaid)] {
		text, _ := m.Text.(string)
		by, _ := m.By.(string)
		at, _ := m.CreatedAt.(string)
		all = append(all, saidTurn{cmp.Or(by, "somebody"), text, at})
	}
	return all
}

type callView struct {
	row    *outline.Row
	starts []*outline.Row // the sub-plans that it started
	texts  []*passage
}

// maxCalls bounds the tool calls that are shown below the reply that asked for them.
const maxCalls = 100

// readCycle reads the messages of the open row, and its tool calls.
func (s *Server) readCycle(c echo.Context, v *runView, r *record.ThinkAct) error {
	d := v.detail
	cycle := new(cycleView)
	d.called = map[string]string{}

	asked := chat.ParseMessages(optional.Value(r.ThinkInput))
	known := make([]bool, len(asked))
	if b := d.row.Before; b != nil {
		cycle.before = v.cycleRow(b.StepID, b.Seq)
		known = chat.Known(asked, chat.ParseMessages(optional.Value(b.ThinkInput)), replyOf(b))
	}

	from, found, err := s.origins(c, r, asked, known)
	if err != nil {
		return err
	}

	origins := make([]*outline.Row, len(asked))
	for i := range origins {
		if from[i] != unknownOrigin {
			origins[i] = v.cycleRow(r.StepID, from[i])
		}
	}

	cycle.far = !found
	for _, m := range slices.Concat(asked, replyOf(r)) {
		for _, p := range m.Parts {
			if p.Kind == chat.Call && p.ID != "" {
				d.called[p.ID] = p.Name
			}
		}
	}

	cycle.said = saidIn(r)
	cycle.asked = d.turns("thinkInput", asked, known, origins)
	reply := unmade(replyOf(r), d.row.Calls)
	cycle.reply = d.turns("thinkOutput", reply, make([]bool, len(reply)), make([]*outline.Row, len(reply)))

	for _, i := range v.Children(v.open) {
		switch {
		case v.Rows[i].Call == nil:
		case len(cycle.calls) == maxCalls:
			cycle.others++
		default:
			cycle.calls = append(cycle.calls, v.callOf(i))
		}
	}
	d.cycle = cycle
	return nil
}

// cycleRow returns the row of a cycle; nil: it is not in the tree that was read.
func (v *runView) cycleRow(stepID string, seq int64) *outline.Row {
	row, ok := v.Find(outline.At("cycle", stepID, strconv.FormatInt(seq, 10)))
	if !ok {
		return nil
	}
	return &v.Rows[row]
}

// replyOf returns what the model answered in a cycle.
func replyOf(r *record.ThinkAct) []chat.Message {
	return chat.Reply(string(r.Message), optional.Value(r.ThinkOutput))
}

// unmade returns messages without the tool calls that are on record: these are shown with what came of them.
func unmade(messages []chat.Message, calls []store.Row) (rest []chat.Message) {
	ids, names := map[string]bool{}, map[string]int{}
	for i := range calls {
		call := calls[i].Record.(*record.ActTool)
		ids[call.ToolCallID], ids[optional.Value(call.ProviderCallID)] = true, true
		names[optional.Value(call.Name)]++
	}
	delete(ids, "")

	for _, m := range messages {
		m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p chat.Part) bool {
			if p.Kind != chat.Call || !ids[p.ID] && names[p.Name] == 0 {
				return false
			}
			names[p.Name]--
			return true
		})
		if len(m.Parts) > 0 {
			rest = append(rest, m)
		}
	}
	return rest
}

// turns returns messages as they are shown. Those that are known are folded, unless the reader asked for them: those
// that follow each other and are from the same cycle into one.
func (d *detailView) turns(name string, messages []chat.Message, known []bool, from []*outline.Row) (all []turn) {
	for i := range messages {
		m := &messages[i]
		if known[i] && !d.earlier {
			if last := len(all) - 1; last >= 0 && all[last].known > 0 && all[last].from == from[i] {
				all[last].known++
			} else {
				all = append(all, turn{known: 1, role: m.Role, name: brief(m), from: from[i]})
			}
			continue
		}

		all = fewFolds(name, all)
		t := turn{role: m.Role, name: m.Name, same: known[i], from: from[i]}
		for j, p := range m.Parts {
			t.parts = append(t.parts, d.part(name+"/"+strconv.Itoa(i)+"/"+strconv.Itoa(j), p))
		}
		all = append(all, t)
	}
	return fewFolds(name, all)
}

func brief(m *chat.Message) string {
	for _, p := range m.Parts {
		if p.Text != "" {
			return words.Shorten(field.Shorten(p.Text, 400), 60)
		}
	}
	return ""
}

func (d *detailView) part(id string, p chat.Part) *passage {
	t := &passage{id: id, text: p.Text, about: words.Shorten(cmp.Or(p.Name, d.called[p.ID], p.ID), 200)}
	switch p.Kind {
	case chat.Thought:
		t.label, t.aside = "reasoning", true
	case chat.Call:
		t.label = ofWhat("calls", "call", t.about)
	case chat.Result:
		t.text = tree.Answer(p.Text)
		t.label, t.bad = ofWhat("result of", "result", t.about), p.Failed
		if p.Failed {
			t.label = ofWhat("error of", "error", t.about)
		}
	case chat.Other:
		t.label, t.aside = "more", true
	}
	return d.lay(t)
}

// ofWhat returns a label that is followed by what it is said of, else the one that says it alone.
func ofWhat(followed, alone, about string) string {
	if about == "" {
		return alone
	}
	return followed
}

// callOf returns a tool call of a cycle, with the beginnings of its texts.
func (v *runView) callOf(row int) callView {
	d := v.detail
	c := callView{row: &v.Rows[row]}
	for _, i := range v.Children(row) {
		if v.Rows[i].Plan != nil {
			c.starts = append(c.starts, &v.Rows[i])
		}
	}

	id := v.Rows[row].Call.Record.ToolCallID
	i := slices.IndexFunc(d.row.Calls, func(r store.Row) bool { return r.Record.(*record.ActTool).ToolCallID == id })
	if i < 0 { // it came after the tree was read, or went
		return c
	}

	call := d.row.Calls[i].Record.(*record.ActTool)
	for _, t := range []struct {
		label, text string
	}{
		{"error", optional.Value(call.ErrorMessage)},
		{"parameters", optional.Value(call.Parameters)},
		{"result", optional.Value(call.Result)},
	} {
		if t.text == "" {
			continue
		}

		p := &passage{label: t.label, text: t.text, bad: t.label == "error", at: v.path(c.row)}
		runes := []rune(t.text)
		if p.cut = len(runes) > store.BriefChars; p.cut {
			p.text = string(runes[:store.BriefChars])
		}
		p.text = tree.Readable(t.label, p.text)
		if p.shown = legible(p.text); !p.cut {
			p.shown = indent(p.shown, maxShown)
		}
		c.texts = append(c.texts, p)
	}
	return c
}

// roleWord is the role of a message as it was recorded. One without a role is in the prompt.
func roleWord(role string) string { return cmp.Or(words.Shorten(role, 40), "prompt") }

func roleClass(role string) string {
	switch role {
	case "system", "developer":
		return "from-system"
	case "assistant", "model":
		return "from-model"
	case "tool":
		return "from-tool"
	}
	return "from-user"
}
