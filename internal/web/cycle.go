package web

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/actlog/actlog/internal/chat"
	"github.com/actlog/actlog/internal/outline"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/words"
	"github.com/actlog/actlog/record"
)

// cycleView is a cycle as a chat: what was asked, what the model answered, and what came of the tool calls that it asked for.
type cycleView struct {
	before *outline.Row // the cycle before it in its step; nil: there is none
	asked  []turn
	reply  []turn
	calls  []callView
	others int // how many more there are
}

// turn is a message, or several that the cycle before had, too.
type turn struct {
	role, name string
	parts      []*passage
	known      int  // how many messages are folded here; 0: it is a message
	same       bool // it is a message that the cycle before had
}

// callView is a tool call of a cycle.
type callView struct {
	row    *outline.Row
	starts []*outline.Row // the sub-plans that it started
	texts  []*passage
}

// maxCalls bounds the tool calls that are shown below the reply that asked for them.
const maxCalls = 100

// readCycle reads the messages of the open row, and its tool calls.
func (v *runView) readCycle(r *record.ThinkAct) {
	d := v.detail
	c := new(cycleView)
	d.called = map[string]string{}
	asked := chat.Read(orZero(r.ThinkInput))
	known := make([]bool, len(asked))
	if b := d.row.Before; b != nil {
		if row, ok := v.Find(outline.At("cycle", b.StepID, strconv.FormatInt(b.Seq, 10))); ok {
			c.before = &v.Rows[row]
		}
		known = chat.Known(asked, chat.Read(orZero(b.ThinkInput)), replyOf(b))
	}
	for _, m := range slices.Concat(asked, replyOf(r)) {
		for _, p := range m.Parts {
			if p.Kind == chat.Call && p.ID != "" {
				d.called[p.ID] = p.Name
			}
		}
	}
	c.asked = d.turns("thinkInput", asked, known)
	reply := unmade(replyOf(r), d.row.Calls)
	c.reply = d.turns("thinkOutput", reply, make([]bool, len(reply)))
	for _, i := range v.children(v.open) {
		switch {
		case v.Rows[i].Call == nil:
		case len(c.calls) == maxCalls:
			c.others++
		default:
			c.calls = append(c.calls, v.callOf(i))
		}
	}
	d.cycle = c
}

// replyOf returns what the model answered in a cycle. A runtime keeps the message itself, beside its text.
func replyOf(r *record.ThinkAct) []chat.Message {
	text := orZero(r.ThinkOutput)
	reply := chat.Read(string(r.Message))
	for i := range reply {
		for _, p := range reply[i].Parts {
			if p.Kind == chat.Text && strings.Contains(text, p.Text) {
				text = strings.Replace(text, p.Text, "", 1)
			}
		}
	}
	reply = append(reply, chat.Read(text)...)
	for i := range reply {
		reply[i].Role = cmp.Or(reply[i].Role, "assistant")
	}
	return reply
}

// unmade returns messages without the tool calls that are on record: these are shown with what came of them.
func unmade(messages []chat.Message, calls []store.Row) (rest []chat.Message) {
	ids, names := map[string]bool{}, map[string]int{}
	for i := range calls {
		call := calls[i].Record.(*record.ActTool)
		ids[call.ToolCallID], ids[orZero(call.ProviderCallID)] = true, true
		names[orZero(call.Name)]++
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

// turns returns messages as they are shown. Those that are known are folded, unless the reader asked for them.
func (d *detailView) turns(name string, messages []chat.Message, known []bool) (all []turn) {
	for i := range messages {
		m := &messages[i]
		if known[i] && !d.earlier {
			if last := len(all) - 1; last >= 0 && all[last].known > 0 {
				all[last].known++
			} else {
				all = append(all, turn{known: 1, role: m.Role, name: brief(m)})
			}
			continue
		}
		t := turn{role: m.Role, name: m.Name, same: known[i]}
		for j, p := range m.Parts {
			t.parts = append(t.parts, d.part(name+"/"+strconv.Itoa(i)+"/"+strconv.Itoa(j), p))
		}
		all = append(all, t)
	}
	return all
}

// brief is the beginning of what a message says.
func brief(m *chat.Message) string {
	for _, p := range m.Parts {
		if p.Text != "" {
			return words.Shorten(beginning(p.Text, 400), 60)
		}
	}
	return ""
}

// part returns a part of a message as it is shown.
func (d *detailView) part(id string, p chat.Part) *passage {
	t := &passage{id: id, text: p.Text, about: words.Shorten(cmp.Or(p.Name, d.called[p.ID], p.ID), 200)}
	switch p.Kind {
	case chat.Thought:
		t.label, t.aside = "reasoning", true
	case chat.Call:
		t.label = "calls"
	case chat.Result:
		t.label, t.bad = "result of", p.Failed
		if p.Failed {
			t.label = "error of"
		}
	case chat.Other:
		t.label, t.aside = "more", true
	}
	return d.lay(t)
}

// callOf returns a tool call of a cycle, with the beginnings of its texts.
func (v *runView) callOf(row int) callView {
	d := v.detail
	c := callView{row: &v.Rows[row]}
	for _, i := range v.children(row) {
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
	for _, p := range []*passage{
		{label: "error", text: orZero(call.ErrorMessage), bad: true}, {label: "parameters", text: orZero(call.Parameters)}, {label: "result", text: orZero(call.Result)},
	} {
		if p.text != "" {
			p.at, p.shown = v.path(c.row), p.text
			if runes := []rune(p.text); len(runes) > store.BriefChars {
				p.shown, p.cut = string(runes[:store.BriefChars]), true
			} else {
				p.shown = indent(p.text, maxShown)
			}
			c.texts = append(c.texts, p)
		}
	}
	return c
}

// roleWord is the role of a message as it was told. One that was told none is in the prompt.
func roleWord(told string) string { return cmp.Or(words.Shorten(told, 40), "prompt") }

// roleClass is the class by which a role has its look.
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
