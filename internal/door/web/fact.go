package web

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

type fact struct {
	name, value string
	href        string // where it leads; empty: nowhere
	time        string // the value for a machine; empty: it is no time
}

// facts are short values in their order. What is empty is left out.
type facts []fact

func (f *facts) add(name, value string) *facts { return f.link(name, value, "") }

func (f *facts) link(name, value, href string) *facts {
	if value != "" {
		*f = append(*f, fact{name: name, value: words.Shorten(value, 300), href: href})
	}
	return f
}

func (f *facts) text(name string, value *string) *facts { return f.add(name, optional.Value(value)) }

func (f *facts) count(name string, n *int64) *facts {
	if n == nil {
		return f
	}
	return f.add(name, words.Grouped(*n))
}

func (f *facts) time(name string, t *time.Time) *facts {
	if t == nil {
		return f
	}
	*f = append(*f, fact{
		name: name, value: t.UTC().Format("2006-01-02 15:04:05.000Z"), time: t.UTC().Format(time.RFC3339Nano),
	})
	return f
}

func (f *facts) cost(usd *float64) {
	if usd != nil {
		f.add("cost", words.Dollars(*usd))
	}
}

func (f *facts) figures(of *tree.Figures) {
	some := func(name string, n int64) {
		if n > 0 {
			f.add(name, words.Grouped(n))
		}
	}

	some("model calls", of.ModelCalls)
	some("tool calls", of.ToolCalls)
	some("failures", of.Failures)
	some("input tokens", of.InputTokens)
	some("cached tokens", of.CacheReadInputTokens)
	some("output tokens", of.OutputTokens)
	some("reasoning tokens", of.ReasoningTokens)
	f.cost(of.CostUSD)

	if of.ThinkMs > 0 {
		f.add("model time", words.Duration(time.Duration(of.ThinkMs)*time.Millisecond))
	}
	if of.ToolMs > 0 {
		f.add("tool time", words.Duration(time.Duration(of.ToolMs)*time.Millisecond))
	}
}

// factsOf returns what is said of the open row in short.
func (v *runView) factsOf(row record.Change) (f facts) {
	open := &v.Rows[v.open]
	switch r := row.(type) {
	case *record.Plan:
		if call := open.Plan.ToolCall; call != nil {
			at := outline.At("call", call.Record.StepID, strconv.FormatInt(call.Record.Seq, 10), call.Record.ToolCallID)
			href := runPath(r.RootPlanID) + "?" + url.Values{"at": {at}}.Encode()
			f.link("started by", "call "+optional.Value(call.Record.Name), href)
		} else if parent := optional.Value(r.ParentPlanID); parent != "" {
			f.link("started by", "plan "+parent, runPath(parent))
		}
		if by, ok := claimOf(r); ok {
			f.link("says it was started by", "plan "+by.PlanID, runPath(by.PlanID))
		}

		f.text("error", r.ErrorKind).text("executor", r.Executor).text("name", r.Name)
		f.text("project", r.Project).text("user", r.UserID).add("tags", strings.Join(r.Tags, ", "))
		f.text("environment", r.Environment).text("release", r.Release).text("model", r.ModelName)
		if id := optional.Value(r.ConversationID); id != "" {
			f.link("session", id, conversationPath(id))
		}
		f.text("trace", r.TraceID).time("started", r.StartTime).time("ended", r.EndTime).figures(&open.Plan.Total)
	case *record.AgentExecution:
		f.text("error", r.ErrorKind).text("agent", r.AgentName).text("version", r.AgentVersion)
		f.text("model", r.ModelName).add("tools", toolsOf(open.Step)).count("cycles at most", r.MaxSteps)
		f.time("started", r.StartTime).time("ended", r.EndTime).figures(&open.Step.Figures)
	case *record.ThinkAct:
		f.text("error", r.ErrorKind).text("provider", r.Provider).text("model", r.ModelName)
		for _, other := range words.Fallbacks(r.FallbackFrom) {
			f.add("in place of", strings.Join(nonEmpty([]string{other.Model, other.ErrorKind, other.Error}), ", "))
		}

		f.text("finish reason", r.FinishReason).text("response", r.ResponseID)
		f.count("input tokens", r.InputTokens).count("cached tokens", r.CacheReadInputTokens)
		f.count("output tokens", r.OutputTokens).count("reasoning tokens", r.ReasoningTokens).cost(r.CostUSD)
		f.time("started", r.ThinkStartTime).add("first token", words.Took(r.ThinkStartTime, r.FirstTokenTime))
		f.add("model time", words.Took(r.ThinkStartTime, r.ThinkEndTime))
		f.add("tool time", words.Took(r.ActStartTime, r.ActEndTime))
	case *record.ActTool:
		f.text("error", r.ErrorKind).text("server", r.ServerName)
		f.link("cycle", rowName(&v.Rows[open.Parent]), v.path(&v.Rows[open.Parent])).text("call id", r.ProviderCallID)
		for _, i := range v.Children(v.open) {
			if v.Rows[i].Plan != nil {
				f.link("sub-plan", rowName(&v.Rows[i]), v.path(&v.Rows[i]))
			}
		}
		f.time("started", r.StartTime).time("ended", r.EndTime)
	case *record.Wait:
		asker := &v.Rows[open.Parent]
		f.link("asked by", kind(asker)+" "+rowName(asker), v.path(asker))
		f.add("kind", strings.ToLower(strings.ReplaceAll(string(optional.Value(r.Type)), "_", " ")))
		f.time("asked", r.StartTime).add("waited", v.lasted(open))
		f.time("expires", r.ExpiresAt).add("expires", deadlineless(r))
		f.time("answered", r.EndTime).text("answered by", r.DecidedBy).text("says they are", r.By)
	}

	if of, href := v.original(open); of != "" {
		f.link("copy of", of, href)
	}
	for _, started := range v.detail.started {
		f.link("says it was started here", cmp.Or(started.Title, started.RootPlanID), runPath(started.RootPlanID))
	}
	for i, past := range v.detail.row.PastAttempts {
		if left := len(v.detail.row.PastAttempts) - i - maxAttempts; left > 0 {
			continue
		}
		parts := []string{
			stateWord(past.State), words.Took(past.StartTime, past.EndTime), optional.Value(past.ErrorKind),
			optional.Value(past.ErrorMessage),
		}
		f.add("attempt "+strconv.FormatInt(past.Number, 10), strings.Join(nonEmpty(parts), ", "))
	}
	return f
}

// original returns the address of the row that a row is a copy of, and where that is shown: in the run from which this
// one goes on, if that is known. A root plan is no copy, but leads there, too. Empty: there is none.
func (v *runView) original(row *outline.Row) (of, href string) {
	const plan = "plan:"
	continued := optional.Value(v.Plan.Record.ForkedFrom)
	of = optional.Value(row.ForkedFrom())
	if row.Plan != nil && row.Plan.Record.IsRoot() {
		of = continued
	}

	id, err := url.PathUnescape(strings.TrimPrefix(continued, plan))
	if of == "" || err != nil || !v.Plan.Record.IsRoot() || !strings.HasPrefix(continued, plan) {
		return of, ""
	}
	return of, runPath(id) + "?" + url.Values{"at": {of}}.Encode()
}

// deadlineless says of an open question without a deadline that it has none.
func deadlineless(w *record.Wait) string {
	if w.ExpiresAt != nil || optional.Value(w.State) != record.Waiting {
		return ""
	}
	return noDeadline
}

// claimOf returns what a root plan says that started it.
func claimOf(p *record.Plan) (by record.StartedBy, ok bool) {
	if p.StartedBy == nil || json.Unmarshal(p.StartedBy, &by) != nil {
		return by, false
	}
	return by, true
}

// maxAttempts bounds the earlier attempts that are shown: the last ones.
const maxAttempts = 20

func nonEmpty(all []string) (some []string) {
	for _, s := range all {
		if s != "" {
			some = append(some, s)
		}
	}
	return some
}

const maxTools = 30

// toolsOf says which tools a step called, and how often, in the order of their first calls.
func toolsOf(s *tree.Step) string {
	var names []string
	calls, failed := map[string]int{}, map[string]int{}
	for _, c := range s.Cycles {
		for _, t := range c.ToolCalls {
			name := optional.Value(t.Record.Name)
			if calls[name]++; calls[name] == 1 {
				names = append(names, name)
			}
			if (tree.Node{Call: t}).Failed() {
				failed[name]++
			}
		}
	}

	for i, name := range names[:min(len(names), maxTools)] {
		if n := calls[name]; n > 1 {
			names[i] += " ×" + strconv.Itoa(n)
		}
		if n := failed[name]; n > 0 {
			names[i] += " ✗" + strconv.Itoa(n)
		}
	}

	if more := len(names) - maxTools; more > 0 {
		names = append(names[:maxTools], strconv.Itoa(more)+" more")
	}
	return strings.Join(names, ", ")
}

// dropped reports that the cycles and tool calls of a step are no longer on record: its figures tell of them.
func dropped(s *tree.Step) bool {
	return s != nil && len(s.Cycles) == 0 && (s.Figures.ModelCalls > 0 || s.Figures.ToolCalls > 0)
}

// anyDropped reports that of a row, or below it, detail is no longer on record.
func (v *runView) anyDropped(row int) bool {
	for i := row; i <= row+v.Rows[row].Below; i++ {
		if dropped(v.Rows[i].Step) {
			return true
		}
	}
	return false
}

// notesOf returns what else has to be said of the open row.
func (v *runView) notesOf() (notes []string) {
	if v.anyDropped(v.open) {
		notes = append(notes, "The cycles and tool calls were dropped for their age. The figures stay.")
	}
	if left := len(v.detail.row.PastAttempts) - maxAttempts; left > 0 {
		notes = append(notes, words.Plural(int64(left), "earlier attempt")+" more, see JSON.")
	}
	return notes
}
