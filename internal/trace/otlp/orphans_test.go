package otlp_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

// closed returns the rows of spans of which nothing more is expected.
func closed(t testing.TB, spans []otlp.Span) []record.Change {
	t.Helper()
	p := otlp.NewProjection(spans[0].TraceID)
	if err := p.Add(nil, [][]otlp.Span{spans}); err != nil {
		t.Fatal(err)
	}

	p.Close()
	changes, _ := p.Changes()
	if err := check(changes); err != nil {
		t.Fatalf("check(changes) = %v\n%s", err, lines(t, changes))
	}
	return changes
}

// run describes a run in one line: its state, when it ended, and its steps.
func run(changes []record.Change) string {
	r := sorted(changes)
	if len(r.plans) == 0 {
		return ""
	}

	ended := "-"
	if end := r.plans[0].EndTime; end != nil {
		ended = fmt.Sprint(end.UnixMilli() - noon)
	}

	var steps []string
	for _, s := range r.steps {
		n := 0
		for _, c := range r.cycles {
			if c.StepID == s.StepID && c.SpanID != nil {
				n++
			}
		}
		calls := 0
		for _, c := range r.tools {
			if c.StepID == s.StepID {
				calls++
			}
		}
		steps = append(steps, fmt.Sprintf("%s %s %d+%d", deref(s.AgentName), *s.State, n, calls))
	}
	return fmt.Sprintf("%s %s: %s", *r.plans[0].State, ended, strings.Join(steps, ", "))
}

// TestParentsThatNeverArrive: what was not exported does not keep a run open, and what it did belongs
// to what was around it.
func TestParentsThatNeverArrive(t *testing.T) {
	t.Parallel()
	at := func(id, parent, name string, start, end int, more string) string {
		return fmt.Sprintf(`{"id": %q, "parent": %q, "name": %q, "start": %d, "end": %d%s}`, id, parent, name, start, end,
			more)
	}
	model := func(id, parent string, start, end int, more ...string) string {
		return at(id, parent, "chat m", start, end,
			`, "attributes": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}`+strings.Join(more, ""))
	}

	agent := func(id, parent, name string, start, end int, more ...string) string {
		return at(id, parent, "invoke_agent "+name, start, end, strings.Join(more, ""))
	}
	tool := func(id, parent, name string, start, end int, more ...string) string {
		return at(id, parent, "execute_tool "+name, start, end, strings.Join(more, ""))
	}

	const server, client = `, "kind": 2`, `, "kind": 3`
	const consumer, failed = `, "kind": 5`, `, "status": 2`
	for name, c := range map[string]struct {
		spans       []string
		want, quiet string // quiet: after nothing came for long; empty: the same
	}{
		"a server's": {[]string{
			at("1", "99", "POST /chat", 10, 90, server), agent("2", "1", "a", 10, 90), model("3", "2", 20, 30),
		},
			"COMPLETED 90: a COMPLETED 1+0", ""},
		"a consumer's": {[]string{
			at("1", "99", "orders process", 10, 90, consumer), agent("2", "1", "a", 10, 90), model("3", "2", 20, 30),
		},
			"COMPLETED 90: a COMPLETED 1+0", ""},
		"an agent that serves": {[]string{agent("1", "99", "a", 10, 90, server), model("3", "1", 20, 30)},
			"COMPLETED 90: a COMPLETED 1+0", ""},
		"a server's that failed": {[]string{
			at("1", "99", "POST /chat", 10, 90, server+failed), agent("2", "1", "a", 10, 80), model("3", "2", 20, 30),
		},
			"FAILED 90: a COMPLETED 1+0", ""},
		"a server's that runs": {[]string{
			at("1", "99", "POST /chat", 10, 0, server), agent("2", "1", "a", 10, 90), model("3", "2", 20, 30),
		},
			"RUNNING -: a COMPLETED 1+0", ""},
		"a client's": {[]string{
			at("1", "99", "POST /chat", 10, 90, client), agent("2", "1", "a", 10, 90), model("3", "2", 20, 30),
		},
			"RUNNING -: a COMPLETED 1+0", "COMPLETED 90: a COMPLETED 1+0"},

		"inside an agent": {[]string{
			agent("1", "", "a", 10, 90), model("2", "1", 20, 30), model("3", "98", 40, 50), tool("4", "97", "look", 60, 70),
		},
			"COMPLETED 90: a COMPLETED 2+1", ""},
		"inside an agent below a server": {[]string{
			at("1", "99", "POST /chat", 10, 90, server), agent("2", "1", "a", 10, 90), model("3", "98", 20, 30),
		},
			"COMPLETED 90: a COMPLETED 1+0", ""},
		"inside the inner one": {[]string{
			agent("1", "", "a", 10, 90), model("2", "1", 11, 12), tool("3", "1", "ask", 20, 50), agent("4", "3", "b", 21, 49),
			model("5", "4", 22, 23), model("6", "98", 30, 31), model("7", "98", 60, 61),
		},
			"COMPLETED 90: a COMPLETED 2+1, b COMPLETED 2+0", ""},
		"after the inner one": {[]string{
			at("1", "", "job", 10, 90, ""), agent("2", "1", "a", 20, 30), model("3", "2", 21, 22), agent("4", "1", "b", 40, 50),
			model("5", "4", 41, 42), model("6", "98", 60, 61),
		},
			"COMPLETED 90: job COMPLETED 1+0, a COMPLETED 1+0, b COMPLETED 1+0", ""},
		"an agent, with what it does": {[]string{
			at("1", "", "job", 10, 90, ""), agent("2", "98", "a", 20, 60), model("3", "2", 21, 22), model("4", "97", 30, 31),
		},
			"COMPLETED 90: a COMPLETED 2+0", ""},
		"at the same time as its agent": {[]string{
			at("1", "", "job", 10, 90, ""), agent("3", "98", "a", 20, 60), model("2", "97", 20, 22),
		},
			"COMPLETED 90: a COMPLETED 1+0", ""},
		"no step of its own": {[]string{agent("1", "", "a", 10, 20), model("2", "1", 11, 12), model("3", "98", 40, 50)},
			"COMPLETED 20: a COMPLETED 2+0", ""},
		"that runs": {[]string{agent("1", "", "a", 10, 90), model("2", "1", 11, 12), model("3", "98", 40, 0)},
			"COMPLETED 90: a COMPLETED 2+0", ""},
		"the root runs": {[]string{agent("1", "", "a", 10, 0), model("2", "1", 11, 12), model("3", "98", 40, 50)},
			"RUNNING -: a RUNNING 1+0, chat m RUNNING 1+0", "RUNNING -: a RUNNING 2+0"},
		"another process's, later": {[]string{
			at("1", "99", "POST /chat", 10, 50, server), agent("2", "1", "a", 10, 50), model("3", "2", 20, 30),
			model("4", "98", 60, 70),
		},
			"RUNNING -: a COMPLETED 1+0, chat m RUNNING 1+0", "COMPLETED 70: a COMPLETED 1+0, chat m COMPLETED 1+0"},
		"beside a model call": {[]string{model("1", "", 10, 20), model("2", "98", 30, 40)},
			"COMPLETED 40: chat m COMPLETED 1+0, chat m COMPLETED 1+0", ""},
		"below a tool call": {[]string{tool("1", "", "look", 10, 90), model("2", "98", 30, 40)},
			"COMPLETED 90: look COMPLETED 1+0, execute_tool look COMPLETED 0+1", ""},

		"no root": {[]string{agent("2", "99", "a", 20, 60), model("3", "2", 21, 22)},
			"RUNNING -: a COMPLETED 1+0", "COMPLETED 60: a COMPLETED 1+0"},
		"no root, the agent failed": {[]string{agent("2", "99", "a", 20, 60, failed), model("3", "2", 21, 22)},
			"RUNNING -: a FAILED 1+0", "FAILED 60: a FAILED 1+0"},
		"no root, inside an agent": {[]string{
			agent("2", "99", "a", 20, 60), model("3", "98", 20, 22), model("4", "97", 70, 75),
		},
			"RUNNING -: a COMPLETED 0+0, chat m RUNNING 1+0, chat m RUNNING 1+0",
			"COMPLETED 75: a COMPLETED 1+0, chat m COMPLETED 1+0"},
		"no root, beside an agent": {[]string{
			tool("2", "99", "ask", 20, 60), agent("3", "2", "a", 21, 59), model("4", "3", 22, 23),
			tool("5", "99", "look", 30, 31),
		},
			"RUNNING -: execute_tool ask RUNNING 0+2, a COMPLETED 1+0",
			"COMPLETED 60: execute_tool ask COMPLETED 0+2, a COMPLETED 1+0"},
		"no root, a call failed": {[]string{
			model("2", "99", 10, 20, failed), model("3", "99", 30, 40), tool("4", "99", "look", 50, 60, failed),
		},
			"RUNNING -: chat m RUNNING 2+1", "COMPLETED 60: chat m COMPLETED 2+1"},
		"no root, the last call failed": {[]string{model("2", "99", 10, 20), model("3", "99", 30, 40, failed)},
			"RUNNING -: chat m RUNNING 2+0", "FAILED 40: chat m FAILED 2+0"},
		"no root, something runs": {[]string{agent("2", "99", "a", 20, 60), model("3", "98", 70, 0)},
			"RUNNING -: a COMPLETED 0+0, chat m RUNNING 1+0", "RUNNING -: a COMPLETED 0+0, chat m RUNNING 1+0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := made(t, c.spans...)
			if got := run(project(t, spans)); got != c.want {
				t.Errorf("run(project(spans)):\n%s, want\n%s", got, c.want)
			}

			want := c.quiet
			if want == "" {
				want = c.want
			}
			if got := run(closed(t, spans)); got != want {
				t.Errorf("after nothing came for long:\ngot  %s\nwant %s", got, want)
			}
			anyOrder(t, spans)
		})
	}
}

// TestTheParentArrivesAfterAll: then it counts, as if it had come first.
func TestTheParentArrivesAfterAll(t *testing.T) {
	t.Parallel()
	spans := made(t,
		`{"id": "1", "name": "invoke_agent a", "start": 10, "end": 90}`,
		`{"id": "2", "parent": "1", "name": "execute_tool ask", "start": 20, "end": 80}`,
		`{"id": "3", "parent": "2", "name": "POST /b", "start": 21, "end": 79}`,
		`{"id": "4", "parent": "3", "name": "chat m", "start": 30, "end": 40, "attributes": {"gen_ai.operation.name": "chat"}}`,
		`{"id": "5", "parent": "1", "name": "chat m", "start": 11, "end": 15, "attributes": {"gen_ai.operation.name": "chat"}}`)
	without := append(spans[:2:2], spans[3:]...)

	if got, want := run(project(t, without)), "COMPLETED 90: a COMPLETED 2+1"; got != want {
		t.Errorf("run(project(without)):\n%s, want\n%s", got, want)
	}
	if got, want := run(project(t, append(without, spans[2]))),
		"COMPLETED 90: a COMPLETED 1+1, ask COMPLETED 1+0"; got != want {
		t.Errorf("run(project(append(without, spans[2]))):\n%s, want\n%s", got, want)
	}
	anyOrder(t, spans)
}

// TestRandomTracesClose: of which nothing more is expected is closed the same way in any order, and
// something only stays open if it has not ended.
func TestRandomTracesClose(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1_000) {
		r := rand.New(rand.NewPCG(seed, 3))
		spans := randomTrace(t, r)
		want := lines(t, closed(t, spans))
		r.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
		if got := lines(t, closed(t, spans)); got != want {
			t.Fatalf("seed %d: in another order:\n%s\n%s", seed, got, want)
		}

		spans = slices.DeleteFunc(spans, func(s otlp.Span) bool { // it says that another has begun
			return s.Attributes.Get("logfire.span_type") != ""
		})
		if len(spans) == 0 {
			continue
		}

		for i := range spans {
			if spans[i].End == 0 {
				spans[i].End = spans[i].Start + 1
			}
		}
		for _, c := range closed(t, spans) {
			if plan, ok := c.(*record.Plan); ok && !plan.State.Terminal() {
				t.Fatalf("seed %d: all has ended, and the plan is %s", seed, *plan.State)
			}
		}
	}
}
