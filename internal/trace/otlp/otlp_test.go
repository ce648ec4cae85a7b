package otlp_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/goleak"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "rewrite golden files")

// fixtures are bodies that real exporters sent. Each list is one run.
var fixtures = map[string][]string{
	"vercel":        {"vercel-ai7-001.json", "vercel-ai7-002.json"},
	"vercel-pb":     {"vercel-ai7-pb-001.pb"},
	"openai-agents": {"openai-agents-js-oi-001.json", "openai-agents-js-oi-002.json"},
	"langgraph":     {"langgraph-js-oi-cfg-001.json", "langgraph-js-oi-cfg-002.json", "langgraph-js-oi-cfg-003.json"},
}

// theTree is the tree of each fixture.
const theTree = "planner COMPLETED: " +
	"[get_weather COMPLETED, ask_researcher COMPLETED (researcher COMPLETED: [lookup COMPLETED] []), fail_tool FAILED] []"

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "fixtures", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode(t testing.TB, names ...string) (spans []otlp.Span) {
	t.Helper()
	for _, name := range names {
		contentType := otlp.TypeJSON
		if strings.HasSuffix(name, ".pb") {
			contentType = otlp.TypeProtobuf
		}

		batch, err := otlp.DecodeTraces(contentType, read(t, name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if batch.Rejected > 0 || batch.Ignored > 0 {
			t.Fatalf("%s: %+v", name, batch)
		}
		spans = append(spans, batch.Spans...)
	}
	return spans
}

// kept returns spans as they are after they were stored.
func kept(t testing.TB, spans []otlp.Span) []otlp.Span {
	t.Helper()
	chunk, err := encode(spans)
	if err != nil {
		t.Fatal(err)
	}

	out, err := otlp.DecodeChunk(chunk)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// rows are changes by kind.
type rows struct {
	plans  []*record.Plan
	steps  []*record.AgentExecution
	cycles []*record.ThinkAct
	tools  []*record.ActTool
}

func sorted(changes []record.Change) (r rows) {
	for _, c := range changes {
		switch c := c.(type) {
		case *record.Plan:
			r.plans = append(r.plans, c)
		case *record.AgentExecution:
			r.steps = append(r.steps, c)
		case *record.ThinkAct:
			r.cycles = append(r.cycles, c)
		case *record.ActTool:
			r.tools = append(r.tools, c)
		}
	}
	return r
}

// check returns an error unless every row is valid, has its parent before it and occurs once, and so
// does the span of every model and tool call.
func check(changes []record.Change) error {
	keys, spans := map[record.Key]bool{}, map[string]bool{}
	cycles := map[string]int64{}
	for i, c := range changes {
		if _, _, err := field.Clean(c); err != nil {
			return fmt.Errorf("%T %+v: %w", c, c.Key(), err)
		}
		if keys[c.Key()] {
			return fmt.Errorf("%+v occurs twice", c.Key())
		}
		keys[c.Key()] = true
		if i > 0 && slices.Index(record.Kinds, c.Kind()) < slices.Index(record.Kinds, changes[i-1].Kind()) {
			return fmt.Errorf("%+v is before its parents", c.Key())
		}
	}

	r := sorted(changes)
	if len(changes) > 0 && (len(r.plans) == 0 || !r.plans[0].IsRoot()) {
		return fmt.Errorf("no root plan")
	}
	for _, s := range r.steps {
		if !keys[record.Key{Kind: record.KindPlan, Root: s.RootPlanID, ID: s.PlanID}] {
			return fmt.Errorf("step %s has no plan %s", s.StepID, s.PlanID)
		}
	}

	for _, c := range r.cycles {
		if c.Seq != cycles[c.StepID] || !keys[record.Key{Kind: record.KindAgentExecution, Root: c.RootPlanID, ID: c.StepID}] {
			return fmt.Errorf("cycle %s %d has no place", c.StepID, c.Seq)
		}
		cycles[c.StepID]++
		if c.SpanID != nil {
			if spans[*c.SpanID] {
				return fmt.Errorf("span %s occurs twice", *c.SpanID)
			}
			spans[*c.SpanID] = true
		}
	}

	tools := map[string]string{}
	for _, c := range r.tools {
		if !keys[record.Key{Kind: record.KindThinkAct, Root: c.RootPlanID, Parent: c.StepID, Seq: c.Seq}] {
			return fmt.Errorf("tool call %s has no cycle", c.ToolCallID)
		}
		if tools[c.ToolCallID] != "" {
			return fmt.Errorf("tool call %s occurs twice", c.ToolCallID)
		}
		tools[c.ToolCallID] = c.StepID

		if c.SpanID != nil {
			if spans[*c.SpanID] {
				return fmt.Errorf("span %s occurs twice", *c.SpanID)
			}
			spans[*c.SpanID] = true
		} else if c.Inferred == nil || !*c.Inferred {
			return fmt.Errorf("tool call %s has no span", c.ToolCallID)
		}
	}

	steps := map[string]string{}
	for _, s := range r.steps {
		steps[s.StepID] = s.PlanID
	}

	for i, p := range r.plans {
		if p.IsRoot() != (i == 0) {
			return fmt.Errorf("%d plans, of which %d is %s", len(r.plans), i, p.CurrentPlanID)
		}
		if i > 0 && steps[tools[*p.ToolCallID]] != *p.ParentPlanID {
			return fmt.Errorf("plan %s is not under the plan of its tool call", p.CurrentPlanID)
		}
	}
	return nil
}

// outline returns the shape of a tree.
func outline(changes []record.Change) string {
	r := sorted(changes)
	if len(r.plans) == 0 {
		return ""
	}

	var plan func(id string) string
	plan = func(id string) string {
		var steps []string
		for _, s := range r.steps {
			if s.PlanID != id {
				continue
			}

			line := fmt.Sprintf("%s %s:", *s.AgentName, *s.State)
			for _, c := range r.cycles {
				if c.StepID != s.StepID {
					continue
				}

				var calls []string
				for _, tool := range r.tools {
					if tool.StepID != c.StepID || tool.Seq != c.Seq {
						continue
					}

					call := fmt.Sprintf("%s %s", *tool.Name, *tool.State)
					if tool.Inferred != nil {
						call += "?"
					}
					for _, sub := range r.plans {
						if sub.ToolCallID != nil && *sub.ToolCallID == tool.ToolCallID {
							call += " (" + plan(sub.CurrentPlanID) + ")"
						}
					}
					calls = append(calls, call)
				}
				line += " [" + strings.Join(calls, ", ") + "]"
			}
			steps = append(steps, line)
		}
		return strings.Join(steps, "; ")
	}
	return plan(r.plans[0].CurrentPlanID)
}

// lines returns rows as JSON, one per line.
func lines(t testing.TB, changes []record.Change) string {
	t.Helper()
	var b strings.Builder
	for _, c := range changes {
		line, err := wire.Encode(c)
		if err != nil {
			t.Fatal(err)
		}

		b.Write(line)
		if tool, ok := c.(*record.ActTool); ok && tool.Inferred != nil {
			fmt.Fprintf(&b, " inferred=%v", *tool.Inferred)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func project(t testing.TB, spans []otlp.Span) []record.Change {
	t.Helper()
	changes := otlp.Project(spans)
	if err := check(changes); err != nil {
		t.Fatalf("check(changes) = %v\n%s", err, lines(t, changes))
	}
	return changes
}

// same checks that spans have the same rows as before.
func same(t *testing.T, what, want string, spans []otlp.Span) {
	t.Helper()
	if diff := cmp.Diff(want, lines(t, project(t, spans))); diff != "" {
		t.Fatalf("%s (-in order +otherwise):\n%s", what, diff)
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("rows differ from %s; if they are right, run with -update (-golden +now):\n%s", path, diff)
	}
}

func TestEveryFixtureHasTheSameTree(t *testing.T) {
	t.Parallel()
	for name, files := range fixtures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := project(t, decode(t, files...))
			if got := outline(changes); got != theTree {
				t.Errorf("outline(changes):\n%s, want\n%s", got, theTree)
			}
			golden(t, filepath.Join("testdata", "fixtures", name+".golden"), lines(t, changes))
		})
	}
}

// anyOrder checks that a trace has the same rows in any order, if spans occur twice, in any two
// batches and after it was stored, and that there is a valid tree after each span.
func anyOrder(t *testing.T, spans []otlp.Span) {
	t.Helper()
	whole := lines(t, project(t, spans))
	for seed := range uint64(50) {
		shuffled := slices.Clone(spans)
		random := rand.New(rand.NewPCG(seed, 0))
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		same(t, fmt.Sprint("shuffled, seed ", seed), whole, shuffled)

		twice := append(slices.Clone(shuffled), spans[:random.IntN(len(spans)+1)]...)
		same(t, fmt.Sprint("repeated, seed ", seed), whole, twice)
		if seed < 5 {
			growing(t, twice, 10, random)
		}
	}

	same(t, "stored", whole, kept(t, spans))
	for cut := range spans {
		project(t, spans[:cut])
		project(t, spans[cut:])
		batches := slices.Concat(kept(t, spans[cut:]), kept(t, spans[:cut]))
		same(t, fmt.Sprint("in two batches, cut at ", cut), whole, batches)
	}
}

func TestFixturesInAnyOrder(t *testing.T) {
	t.Parallel()
	for name, files := range fixtures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			anyOrder(t, decode(t, files...))
		})
	}
}

// TestTreeAfterEachSpan: spans arrive when they end. From then on a model or tool call is in the tree.
func TestTreeAfterEachSpan(t *testing.T) {
	t.Parallel()
	for name, files := range fixtures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := decode(t, files...)
			slices.SortFunc(spans, func(a, b otlp.Span) int { return int(a.End - b.End) })
			calls := map[string]bool{}
			for i := range spans {
				if kind := spans[i].Attributes.Get("openinference.span.kind") +
					spans[i].Attributes.Get("gen_ai.operation.name"); slices.Contains([]string{"LLM", "TOOL", "chat", "execute_tool"},
					kind) {
					calls[spans[i].SpanID] = true
				}

				changes := project(t, spans[:i+1])
				found := map[string]bool{}
				for _, c := range changes {
					switch c := c.(type) {
					case *record.ThinkAct:
						if c.SpanID != nil {
							found[*c.SpanID] = true
						}
					case *record.ActTool:
						if c.SpanID != nil {
							found[*c.SpanID] = true
						}
					case *record.Plan:
						// A root span may end before those below it, so a plan must not be closed at once.
						rooted := slices.ContainsFunc(spans[:i+1], func(s otlp.Span) bool { return s.ParentID == "" })
						if c.IsRoot() && (!rooted && *c.State != record.Running || i == len(spans)-1 && *c.State != record.Completed) {
							t.Errorf("%s after %d of %d spans", *c.State, i+1, len(spans))
						}
					}
				}

				if diff := cmp.Diff(calls, found); diff != "" {
					t.Fatalf("after %d spans (-spans +rows):\n%s", i+1, diff)
				}
			}
		})
	}
}

func TestProtobufAndJSONHaveTheSameSpans(t *testing.T) {
	t.Parallel()
	for _, files := range fixtures {
		for _, name := range files {
			if strings.HasSuffix(name, ".pb") {
				continue
			}

			all, err := new(ptrace.JSONUnmarshaler).UnmarshalTraces(read(t, name))
			if err != nil {
				t.Fatal(err)
			}
			body, err := new(ptrace.ProtoMarshaler).MarshalTraces(all)
			if err != nil {
				t.Fatal(err)
			}

			batch, err := otlp.DecodeTraces("application/x-protobuf", body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decode(t, name), batch.Spans); diff != "" {
				t.Errorf("%s (-json +protobuf):\n%s", name, diff)
			}
		}
	}
}

var callID = regexp.MustCompile(`call_\d{4}`)

// TestWithoutCallIDs: names, arguments and times are enough to find the model call of a tool call.
func TestWithoutCallIDs(t *testing.T) {
	t.Parallel()
	for name, files := range fixtures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := decode(t, files...)
			for i := range spans {
				for j := range spans[i].Attributes {
					v := &spans[i].Attributes[j].Value
					v.Text = callID.ReplaceAllString(v.Text, "")
				}
			}

			if got := outline(project(t, spans)); got != theTree {
				t.Errorf("outline(project(spans)):\n%s, want\n%s", got, theTree)
			}

			for _, tool := range sorted(otlp.Project(spans)).tools {
				if tool.ProviderCallID != nil || tool.Result == nil || *tool.Result == "" || *tool.Parameters == "" {
					t.Errorf("tool = %+v", tool)
				}
			}
		})
	}
}

// TestWithoutToolSpans: tool calls are found in the output of one model call, and their results in the
// input of the next.
func TestWithoutToolSpans(t *testing.T) {
	t.Parallel()
	want := strings.NewReplacer("get_weather COMPLETED", "get_weather COMPLETED?", "lookup COMPLETED",
		"lookup COMPLETED?").Replace(theTree)
	for _, ids := range []bool{true, false} {
		for name, files := range fixtures {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				spans := decode(t, files...)
				parents := map[string]bool{}
				for i := range spans {
					parents[spans[i].ParentID] = true
				}

				whole := map[string]*record.ActTool{}
				for _, tool := range sorted(otlp.Project(spans)).tools {
					whole[*tool.Name] = tool
				}

				left := slices.DeleteFunc(slices.Clone(spans), func(s otlp.Span) bool {
					return !parents[s.SpanID] && (s.Attributes.Get("openinference.span.kind") == "TOOL" ||
						s.Attributes.Get("gen_ai.operation.name") == "execute_tool")
				})
				if len(left) != len(spans)-3 {
					t.Fatalf("%d of %d left", len(left), len(spans))
				}
				if !ids {
					for i := range left {
						for j := range left[i].Attributes {
							v := &left[i].Attributes[j].Value
							v.Text = callID.ReplaceAllString(v.Text, "")
						}
					}
				}

				changes := project(t, left)
				got := outline(changes)
				// For most frameworks only the span of a call says that it failed.
				got = strings.Replace(strings.Replace(got, "fail_tool COMPLETED?", "fail_tool FAILED", 1), "fail_tool FAILED?",
					"fail_tool FAILED", 1)
				if got != want {
					t.Errorf("strings.Replace:\n%s, want\n%s", got, want)
				}

				for _, tool := range sorted(changes).tools {
					w := whole[*tool.Name]
					if tool.Parameters == nil || *tool.Parameters != *w.Parameters {
						t.Errorf("parameters (-span +inferred):\n%s", cmp.Diff(w, tool))
					}
					if tool.Result == nil || *tool.Name != "fail_tool" && *tool.Result != *w.Result {
						t.Errorf("result (-span +inferred):\n%s", cmp.Diff(w, tool))
					}
				}
			})
		}
	}
}

func TestTracesWithoutAgentsHaveNoRows(t *testing.T) {
	t.Parallel()
	span := func(n int, name, attributes string) otlp.Span {
		var a otlp.Attributes
		if err := json.Unmarshal([]byte(attributes), &a); err != nil {
			t.Fatal(err)
		}
		return otlp.Span{
			TraceID: strings.Repeat("a", 32), SpanID: fmt.Sprintf("%016x", n), Name: name, Start: 1, End: 2, Attributes: a,
		}
	}

	for name, spans := range map[string][]otlp.Span{
		"nothing": nil,
		"a web page": {
			span(1, "GET /", `{"http.request.method":"GET"}`), span(2, "SELECT", `{"db.system":"postgresql"}`),
		},
		"embeddings": {
			span(1, "embeddings e", `{"gen_ai.operation.name":"embeddings","gen_ai.request.model":"e"}`),
			span(2, "x", `{"openinference.span.kind":"RETRIEVER"}`),
		},
		"the making of an agent": {
			span(1, "create_agent a", `{"gen_ai.operation.name":"create_agent","gen_ai.agent.name":"a"}`),
		},
		"a turn": {span(1, "turn", `{}`)},
		"no proper ids": {
			{TraceID: "x", SpanID: "y", Name: "call_llm"}, {
				TraceID: strings.Repeat("0", 32), SpanID: strings.Repeat("1", 16), Name: "call_llm",
			},
		},
		"log records alone": {
			{
				TraceID: strings.Repeat("a", 32), SpanID: strings.Repeat("1", 16), Stub: true,
				Events: []otlp.Event{{Name: "gen_ai.choice"}},
			},
		},
	} {
		if got := otlp.Project(spans); len(got) > 0 {
			t.Errorf("%s: %s", name, lines(t, got))
		}
	}
}
