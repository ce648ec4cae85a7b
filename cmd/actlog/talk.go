package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/view/chat"
	"github.com/actlog/actlog/internal/view/words"
)

const (
	// maxQuote and maxQuoteLines bound what is shown of a message or of a result, in characters and lines. --json has
	// all of it.
	maxQuote      = 2_000
	maxQuoteLines = 20
	// maxArguments bounds what is shown of the arguments of a tool call, in characters.
	maxArguments = 300
)

// name is what a step of a plan is called, see [tree.StepName].
func (st *stepView) name(of *planView) (name string, isNode bool) {
	return tree.StepName(of.Executor, st.AgentName, st.AgentDescription, st.StepIndex)
}

// step draws a step of a plan with its cycles as a talk, and its tool calls.
func (v *view) step(st *stepView, of *planView) {
	name, _ := st.name(of)
	v.line("", v.bold(cmp.Or(name, st.StepID)), v.stateBelow(st.State), v.figures(st.Figures), st.number(),
		v.copy(st.copied))
	v.pastAttempts("", st.attempted)
	v.quote("", "asked", st.AgentRequest)

	var before *cycleView
	for _, c := range st.ThinkActSteps {
		v.line("")
		v.cycle(st, c, before)
		before = c
	}

	v.failure("", "error: ", st.ErrorMessage, maxQuote)
	if answer := tree.Answer(st.Result); answer != "" {
		v.line("")
		v.quote("", "result", answer)
	}
}

// cycle draws what a model was asked beyond the cycle before, what it answered, and what came of its tool calls.
func (v *view) cycle(st *stepView, c, before *cycleView) {
	v.line("", v.bold("cycle "+strconv.Itoa(c.Seq+1)), v.stateBelow(c.State), words.Clean(c.ModelName),
		words.Took(c.ThinkStartTime, c.ThinkEndTime),
		words.Tokens(c.InputTokens, c.OutputTokens), words.Clean(c.FinishReason), c.number(),
		v.copy(c.copied))
	v.line("  ", v.faint("at "+cycleAt(st.StepID, c.Seq)))
	v.pastAttempts("  ", c.attempted)
	for _, other := range words.Fallbacks(c.FallbackFrom) {
		v.line("  ", v.faint("in place of "+words.Shorten(other.Model, 50)), words.Clean(other.ErrorKind),
			v.red(words.Shorten(other.Error, 200)))
	}

	asked, earlier := chat.ParseMessages(c.ThinkInput), int64(0)
	known := make([]bool, len(asked))
	if before != nil {
		known = chat.Known(asked, chat.ParseMessages(before.ThinkInput), chat.Reply(before.message(), before.ThinkOutput))
	}
	for i := range asked {
		if m := &asked[i]; known[i] || before != nil && before.shows(m) {
			earlier++
		} else {
			v.message(m, nil)
		}
	}

	if earlier > 0 {
		v.line("  ", v.faint("("+words.Plural(earlier, "message")+" from before)"))
	}
	for _, m := range chat.Reply(c.message(), c.ThinkOutput) {
		v.message(&m, c.ActToolInfoList)
	}

	v.failure("  ", "", c.ErrorMessage, maxQuote)
	for _, t := range c.ActToolInfoList {
		v.toolCall(t)
	}
}

// message draws a message of a talk, without those calls that are among the tool calls.
func (v *view) message(m *chat.Message, calls []*toolCallView) {
	who := cmp.Or(words.Shorten(m.Role, 20), "input")
	says := slices.ContainsFunc(m.Parts, func(p chat.Part) bool { return p.Kind != chat.Other })
	for _, p := range m.Parts {
		isShown := func(t *toolCallView) bool { return t.is(p.ID) || p.ID == "" && t.Name == p.Name }
		switch {
		case p.Kind == chat.Other && says: // what a provider adds, such as its own form of the same
		case p.Kind == chat.Call && slices.ContainsFunc(calls, isShown):
		case p.Kind == chat.Call:
			v.line("  ", "→ "+v.bold(p.Name), words.Shorten(p.Text, maxArguments))
		case p.Kind == chat.Thought:
			v.quote("  ", "thought", p.Text)
		case p.Kind == chat.Result:
			v.quote("  ", "result", p.Text)
		default:
			v.quote("  ", who, p.Text)
		}
	}
}

func (v *view) toolCall(t *toolCallView) {
	v.line("  ", "→ "+v.bold(t.Name), words.Shorten(t.Parameters, maxArguments), v.stateBelow(t.State),
		words.Took(t.StartTime, t.EndTime), t.number(), v.copy(t.copied))
	v.pastAttempts("    ", t.attempted)
	v.failure("    ", "", t.ErrorMessage, maxQuote)
	if t.ErrorMessage == "" {
		v.quote("    ", "", tree.Answer(t.Result))
	}
}

// quote prints a message with its label, wrapped and indented, cut at maxQuote characters and maxQuoteLines lines.
func (v *view) quote(prefix, label, text string) {
	text = strings.Trim(strings.ReplaceAll(terminal.Plain(text), "\t", "    "), "\n")
	if strings.TrimSpace(text) == "" {
		return
	}
	if label != "" {
		label += ": "
	}

	runes := []rune(text)
	hidden := max(len(runes)-maxQuote, 0)
	lines := strings.Split(string(runes[:len(runes)-hidden]), "\n")
	if len(lines) > maxQuoteLines {
		hidden += len([]rune(strings.Join(lines[maxQuoteLines:], "\n")))
		lines = lines[:maxQuoteLines]
	}

	margin := strings.Repeat(" ", columns(label))
	for _, line := range lines {
		content := strings.TrimLeft(line, " ")
		if content == "" {
			v.line("")
			continue
		}

		indent := strings.Repeat(" ", min(len(line)-len(content), maxQuoteIndent))
		v.hanging(prefix, margin+indent, strings.TrimRight(label+indent+content, " "))
		label = margin // the label is on the first line only
	}

	if hidden > 0 {
		v.line(prefix+margin, v.faint("… "+words.Plural(int64(hidden), "character")+" more; --json has all"))
	}
}

// maxQuoteIndent bounds how far to the right a line of a message begins.
const maxQuoteIndent = 40

// shows reports whether everything in a message was already shown with this cycle: at least one of its tool calls or
// results, and otherwise only thoughts and the model's answer.
func (c *cycleView) shows(m *chat.Message) bool {
	isOurs := func(p chat.Part) bool {
		return slices.ContainsFunc(c.ActToolInfoList, func(t *toolCallView) bool { return t.is(p.ID) })
	}

	ours := false
	for _, p := range m.Parts {
		switch {
		case (p.Kind == chat.Call || p.Kind == chat.Result) && isOurs(p):
			ours = true
		case p.Kind == chat.Thought, p.Kind == chat.Text && strings.Contains(c.ThinkOutput, strings.TrimSpace(p.Text)):
		default:
			return false
		}
	}
	return ours
}

// is reports whether a tool call has an id, which may be that of the provider.
func (t *toolCallView) is(id string) bool { return id != "" && (t.ID == id || t.ProviderCallID == id) }

// message is the message of the model, if it is on record as one.
func (c *cycleView) message() string {
	if string(c.Message) == "null" {
		return ""
	}
	return string(c.Message)
}
