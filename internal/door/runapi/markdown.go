package runapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/record/optional"
)

// maxShownText bounds a text in Markdown, in characters. The JSON has all of it.
const maxShownText = 2_000

// page is Markdown in the making. What comes from the record cannot change its structure.
type page struct{ bytes.Buffer }

func markdown(t *traceJSON) []byte {
	var p page
	p.trace(t, 1)
	return p.Bytes()
}

func (p *page) heading(level int, text string) {
	fmt.Fprintf(p, "%s %s\n\n", strings.Repeat("#", min(level, 6)), text)
}

func (p *page) item(name, value string) {
	if value != "" {
		fmt.Fprintf(p, "- %s: %s\n", name, value)
	}
}

func (p *page) trace(t *traceJSON, level int) {
	title := t.Title
	if title == nil {
		title = &t.ExecutionID
	}

	p.heading(level, "Trace of "+line(*title))
	p.item("Execution", line(t.ExecutionID))
	p.item("Executor", line(strings.TrimSpace(optional.Value(t.Executor)+" "+optional.Value(t.Name))))
	p.item("State", string(t.FinalState))

	p.item("Started", moment(t.StartTime))
	p.item("Ended", moment(t.EndTime))
	p.item("Duration", seconds(t.TotalDuration))
	p.item("Error", line(optional.Value(t.Error)))
	p.item("Error kind", line(optional.Value(t.ErrorKind)))
	p.WriteByte('\n')

	p.text(level+1, "Request", t.Request)
	p.text(level+1, "Result", t.Result)
	if t.Planning != nil {
		p.step(t.Planning, level+1)
	}

	if len(t.StepTraces) > 0 {
		p.heading(level+1, fmt.Sprintf("Steps (%d of %d completed)", t.CompletedSteps, len(t.StepTraces)))
	}
	for i := range t.StepTraces {
		p.step(&t.StepTraces[i], level+2)
	}
	for i := range t.SubTraces {
		p.trace(&t.SubTraces[i], level+1)
	}

	p.logs(level+1, t.Logs)
	if level > 1 {
		return
	}

	p.sources(level+1, t.AllSources)
	p.heading(level+1, "Metrics")
	m := &t.Metrics
	p.WriteString("| metric | value |\n|---|---|\n")
	for _, row := range [][2]any{
		{"LLM calls", m.TotalLLMCalls}, {"Tokens in", m.TotalTokensInput}, {"Tokens out", m.TotalTokensOutput},
		{"Estimated cost", cost(m.EstimatedCost)},
		{"LLM time", seconds(&m.LLMTotalTime)}, {"Tool calls", m.ToolCalls}, {"Tool time", seconds(&m.ToolExecutionTime)},
		{"Validation time", seconds(&m.ValidationTime)}, {"Failures", m.Failures}, {"Retries", m.Retries},
		{"Searches by embeddings", m.Searches}, {"Hits", m.Hits}, {"Tokens of the embedder", m.Tokens},
		{"Cost of the embedder", cost(m.Cost)},
	} {
		fmt.Fprintf(p, "| %v | %v |\n", row[0], row[1])
	}
}

func (p *page) step(s *stepTraceJSON, level int) {
	name := line(optional.Value(s.AgentType))
	if s.StepNumber > 0 {
		name = strings.TrimSpace(fmt.Sprintf("%d. %s", s.StepNumber, name))
	}

	p.heading(level, name+" — "+string(s.State))
	p.item("Action", line(optional.Value(s.Action)))
	p.item("Started", moment(s.StartTime))
	p.item("Ended", moment(s.EndTime))
	p.item("Error", line(optional.Value(s.ErrorMessage)))
	p.WriteByte('\n')
	p.text(level+1, "Reasoning", s.Reasoning)

	for i := range s.ToolCalls {
		call := &s.ToolCalls[i]
		took := ""
		if call.Duration != nil {
			took = ", " + seconds(call.Duration)
		}

		fmt.Fprintf(p, "Tool %s: %s%s\n\n", code(optional.Value(call.Name)), call.State, took)
		if string(call.Parameters) != "null" {
			p.block("json", indented(call.Parameters))
		}
		if call.Result != nil {
			p.block("", *call.Result)
		}
		if call.ErrorMessage != nil {
			fmt.Fprintf(p, "Error: %s\n\n", line(*call.ErrorMessage))
		}
	}

	for i := range s.SubTraces {
		p.trace(&s.SubTraces[i], level+1)
	}
	p.text(level+1, "Output", s.Output)
	p.logs(level+1, s.Logs)
}

func (p *page) text(level int, heading string, text *string) {
	if text != nil && *text != "" {
		p.heading(level, heading)
		p.block("", *text)
	}
}

func (p *page) logs(level int, logs []string) {
	if len(logs) > 0 {
		p.heading(level, "Log")
		p.block("", strings.Join(logs, "\n"))
	}
}

func (p *page) sources(level int, sources []sourceJSON) {
	if len(sources) == 0 {
		return
	}

	p.heading(level, fmt.Sprintf("Sources (%d)", len(sources)))
	for i := range sources {
		s := &sources[i]
		lines := ""
		if s.LineStart != nil {
			lines = fmt.Sprintf(":%d", *s.LineStart)
			if s.LineEnd != nil && *s.LineEnd != *s.LineStart {
				lines += fmt.Sprintf("-%d", *s.LineEnd)
			}
		}

		fmt.Fprintf(p, "%d. [%s%s](<%s>)", i+1, line(optional.Value(s.DisplayName)), lines, target(optional.Value(s.URI)))
		if s.Description != nil {
			fmt.Fprintf(p, " %s", line(*s.Description))
		}
		p.WriteByte('\n')
	}
	p.WriteByte('\n')
}

// block adds a text as it is, in a fence that it does not contain.
func (p *page) block(language, text string) {
	text = cut(text, maxShownText)
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	fmt.Fprintf(p, "%s%s\n%s\n%s\n\n", fence, language, strings.TrimRight(text, "\n"), fence)
}

var marks = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", `\<`, ">",
	`\>`, "#", `\#`, "|", `\|`)

// line is a text on one line, without marks.
func line(s string) string {
	return marks.Replace(cut(strings.Join(strings.Fields(s), " "), maxLogText))
}

func code(s string) string {
	return "`" + strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "`", "'") + "`"
}

func target(uri string) string {
	return strings.NewReplacer("<", "%3C", ">", "%3E", "\n", "%0A", "\r", "%0D", `\`, "%5C").Replace(uri)
}

func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

func moment(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339)
}

func seconds(ms *int64) string {
	if ms == nil {
		return ""
	}
	return fmt.Sprintf("%.1f s", float64(*ms)/1000)
}

func cost(usd *float64) string {
	if usd == nil {
		return "unknown"
	}
	return fmt.Sprintf("$%.4f", *usd)
}
