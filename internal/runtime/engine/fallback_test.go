package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/anthropic"
	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// second starts another model server, which is model second of a house in place of the first one.
func second(t *testing.T, h *enginetest.House, p model.Patience, scenes ...scriptmodel.Scene) *scriptmodel.Server {
	t.Helper()
	s, err := scriptmodel.Start(scriptmodel.Script{Scenes: scenes}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	h.Parts.Models = map[string]model.Model{"second": modelAt(t, "another", "other", s.URL(), p)}
	return s
}

// modelAt returns the model of a name at a URL.
func modelAt(t *testing.T, provider, name, url string, p model.Patience) model.Model {
	t.Helper()
	m, err := openai.New(openai.Config{Model: name, BaseURL: url, Provider: provider})
	if err != nil {
		t.Fatal(err)
	}
	return model.WithPatience(m, p)
}

// to returns a patience with models that answer instead.
func to(p model.Patience, names ...string) model.Patience {
	p.Fallback = names
	return p
}

// answers is a scene that ends the work at once.
func answers(with string) scriptmodel.Scene {
	return scriptmodel.Scene{Name: "s", Turns: []scriptmodel.Turn{{ToolCalls: terminate(with)}}}
}

func fails(status int, code string) scriptmodel.Scene {
	turn := scriptmodel.Turn{Error: &scriptmodel.Failure{Status: status, Code: code, Message: "it does not answer"}}
	return scriptmodel.Scene{Name: "s", Turns: []scriptmodel.Turn{turn, turn, turn}}
}

// fallbacks returns the models in whose place that of a cycle answered, each with its error kind.
func fallbacks(t *testing.T, c *tree.Cycle) (all []string) {
	t.Helper()
	if c.Record.FallbackFrom == nil {
		return nil
	}
	var from []record.Fallback
	if err := json.Unmarshal(c.Record.FallbackFrom, &from); err != nil {
		t.Fatal(err)
	}

	for _, f := range from {
		if f.Error == "" {
			t.Errorf("nothing says why %s did not answer", f.Model)
		}
		all = append(all, f.Model+":"+f.ErrorKind)
	}
	return all
}

// TestFallback: after the tries that its error allows, the next model answers the same cycle. Each try is an attempt.
func TestFallback(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		code   string
		tries  int64
	}{
		"server":     {http.StatusInternalServerError, "", 2},
		"overloaded": {http.StatusServiceUnavailable, "", 2},
		"rate_limit": {http.StatusTooManyRequests, "", 2},
		"timeout":    {http.StatusGatewayTimeout, "", 2},
		"auth":       {http.StatusUnauthorized, "", 1},
		"quota":      {http.StatusTooManyRequests, "insufficient_quota", 1},
		"not_found":  {http.StatusNotFound, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t, []scriptmodel.Scene{fails(tt.status, tt.code)}, map[string]define.Definition{"a": {}}, nil)
			h.Parts.DefaultModel = enginetest.Model(t, h.Model.URL(), to(quick(), "second"))
			other := second(t, h, quick(), answers("by the second"))
			h.Work(h.Engine)

			p := h.Await(h.Start("a", "Go."), record.Completed)
			c := h.Step(p).Cycles[0]

			if text(p.Record.Summary) != "by the second" || text(c.Record.Provider) != "another" || len(other.Requests()) != 1 {
				t.Errorf("%q by %s, which was asked %d times", text(p.Record.Summary), text(c.Record.Provider),
					len(other.Requests()))
			}
			if got := fallbacks(t, c); !slices.Equal(got, []string{"default:" + name}) {
				t.Errorf("in place of %v", got)
			}
			if *c.Record.Attempt != tt.tries+1 || *c.Record.State != record.Completed {
				t.Errorf("attempt %d, %s", *c.Record.Attempt, *c.Record.State)
			}
			for _, a := range c.PastAttempts {
				if text(a.ErrorKind) != name {
					t.Errorf("attempt %d: %s", a.Number, text(a.ErrorKind))
				}
			}
		})
	}
}

// TestNoFallback: what a model refuses for what it says, others are not asked.
func TestNoFallback(t *testing.T) {
	t.Parallel()
	for name, turn := range map[string]scriptmodel.Turn{
		"invalid_request": {Error: &scriptmodel.Failure{Status: http.StatusBadRequest}},
		"context_length":  {Error: &scriptmodel.Failure{Status: http.StatusBadRequest, Code: "context_length_exceeded"}},
		"content_filter":  {Error: &scriptmodel.Failure{Status: http.StatusBadRequest, Code: "content_policy_violation"}},
		"refusal":         {Refusal: "I will not."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t, []scriptmodel.Scene{{Name: "s", Turns: []scriptmodel.Turn{turn}}},
				map[string]define.Definition{"a": {}}, nil)
			h.Parts.DefaultModel = enginetest.Model(t, h.Model.URL(), to(quick(), "second"))
			other := second(t, h, quick(), answers("by the second"))
			h.Work(h.Engine)

			p := h.Await(h.Start("a", "Go."), record.Failed)
			if text(p.Record.ErrorKind) != name || len(other.Requests()) != 0 {
				t.Errorf("%s, and the second was asked %d times", text(p.Record.ErrorKind), len(other.Requests()))
			}
		})
	}
}

// TestFallbackOutage: of many runs during an outage, those that come when the model is known to be away do not try it,
// but for one now and then, which asks whether it is back. When it is, it answers again.
func TestFallbackOutage(t *testing.T) {
	t.Parallel()
	seldom := quick()
	seldom.Probe = model.Backoff{From: time.Second, Most: time.Second} // far fewer than there are runs
	h, g := behindGate(t, seldom)
	h.Parts.DefaultModel = enginetest.Model(t, g.url, to(seldom, "second"))
	second(t, h, quick(), answers("by the second"))
	h.Work(h.Engine)
	h.Work(h.NewEngine(nil))

	h.Await(h.Start("a", "First."), record.Completed)
	storetest.Until(t, "both workers know that the model is away", func() bool {
		c := h.Step(h.Await(h.Start("a", "Next."), record.Completed)).Cycles[0]
		return *c.Record.Attempt == 1
	})

	before := g.asked.Load()
	ids := make([]string, 60)
	for i := range ids {
		ids[i] = h.Start("a", fmt.Sprintf("Go %d.", i))
	}

	asked := int64(0)
	for _, id := range ids {
		c := h.Step(h.Await(id, record.Completed)).Cycles[0]
		if got := fallbacks(t, c); !slices.Equal(got, []string{"default:network"}) {
			t.Errorf("in place of %v", got)
		}
		asked += *c.Record.Attempt - 1
	}
	if n := g.asked.Load() - before; n != asked || n > int64(len(ids))/2 {
		t.Errorf("the model was asked %d times by %d runs, %d on record", n, len(ids), asked)
	}

	g.shut.Store(false)
	storetest.Until(t, "the first model answers again", func() bool {
		c := h.Step(h.Await(h.Start("a", "Again."), record.Completed)).Cycles[0]
		return c.Record.FallbackFrom == nil
	})
	nothingAwaits(t, h)
}

// TestAllAreAway: if no model answers, the run is paused, and says for which. Any of them lets it go on.
func TestAllAreAway(t *testing.T) {
	t.Parallel()
	for _, back := range []string{"default", "second"} {
		t.Run(back, func(t *testing.T) {
			t.Parallel()
			h, g := behindGate(t, quick())
			h.Parts.DefaultModel = enginetest.Model(t, g.url, to(quick(), "second", "nobody has it"))
			other := newGate(t, second(t, h, quick(), answers("by the second")).URL())
			other.shut.Store(true)
			h.Parts.Models["second"] = modelAt(t, "another", "other", other.url, quick())
			h.Work(h.Engine)
			ids := []string{h.Start("a", "One."), h.Start("a", "Two."), h.Start("top", "Three.")}

			for _, id := range ids {
				d := parked(t, h, id)
				if len(d.WaitingFor) != 2 || !strings.HasPrefix(d.WaitingFor[0], "model:default is away since 20") ||
					!strings.HasPrefix(d.WaitingFor[1], "model:second is away since 20") {
					t.Errorf("it waits for %q", d.WaitingFor)
				}
			}

			want := []string(nil)
			if back == "default" {
				g.shut.Store(false)
			} else {
				other.shut.Store(false)
				want = []string{"default:network"}
			}
			for _, id := range ids {
				c := h.Step(h.Await(id, record.Completed)).Cycles[0]
				if got := fallbacks(t, c); !slices.Equal(got, want) {
					t.Errorf("in place of %v, want %v", got, want)
				}
				if got := int64(len(c.PastAttempts)); got != *c.Record.Attempt-1 {
					t.Errorf("%d of %d attempts are on record", got+1, *c.Record.Attempt)
				}
			}
		})
	}
}

// TestOneIsAwayOneFails: a run waits if the error of one of its models may pass, and fails if none may, with that of
// the last. What does not pass is no reason to wait for those whose agent names no other model.
func TestOneIsAwayOneFails(t *testing.T) {
	t.Parallel()
	h, g := behindGate(t, quick())
	h.Parts.DefaultModel = enginetest.Model(t, g.url, to(quick(), "second"))
	second(t, h, to(quick(), "third"), fails(http.StatusUnauthorized, ""))

	broke, err := scriptmodel.Start(scriptmodel.Script{
		Scenes: []scriptmodel.Scene{fails(http.StatusPaymentRequired, "")},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broke.Close() })

	h.Parts.Models["third"] = modelAt(t, "third", "other", broke.URL(), quick())
	for _, name := range []string{"second", "third"} {
		h.Parts.Definitions["agent."+name] = define.Definition{Agent: name, Model: define.DefinitionModel{Name: name}}
	}
	h.Work(h.Engine)

	waits := h.Start("a", "Go.")
	if d := parked(t, h, waits); len(d.WaitingFor) != 2 {
		t.Errorf("it waits for %q", d.WaitingFor)
	}
	for agent, want := range map[string]string{"second": "quota", "third": "quota"} {
		p := h.Await(h.Start(agent, "Go."), record.Failed)
		if text(p.Record.ErrorKind) != want {
			t.Errorf("%s: %s: %s", agent, text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
		}
	}

	g.shut.Store(false)
	h.Await(waits, record.Completed)
}

// TestFallbackGivesUp: a run for which no model answers fails as the first of them did.
func TestFallbackGivesUp(t *testing.T) {
	t.Parallel()
	patience := to(quick(), "second")
	patience.GiveUpAfter = 300 * time.Millisecond
	h, g := behindGate(t, patience)
	h.Parts.DefaultModel = enginetest.Model(t, g.url, patience)
	second(t, h, quick(), fails(http.StatusServiceUnavailable, ""))
	h.Work(h.Engine)

	p := h.Await(h.Start("a", "Go."), record.Failed)
	if text(p.Record.ErrorKind) != "network" {
		t.Errorf("%s: %s", text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
	}
}

// TestPassedOverIsForgotten: that a model is away is known until a day after the last run that came to it, although
// no run waits for it.
func TestPassedOverIsForgotten(t *testing.T) {
	t.Parallel()
	h, g := behindGate(t, quick())
	h.Parts.DefaultModel = enginetest.Model(t, g.url, to(quick(), "second"))
	second(t, h, quick(), answers("by the second"))
	stop := h.Work(h.Engine)
	h.Await(h.Start("a", "Go."), record.Completed)
	stop()

	left := func() int { return storetest.Query[int](t, h.Store, "SELECT count(*) FROM actlog.model_away") }
	if err := h.Runs.Probe(t.Context(), nil, nil); err != nil || left() != 1 {
		t.Errorf("%d models are away, %v", left(), err)
	}
	must(t, h, `UPDATE actlog.model_away SET probe_at = now() - interval '25 hours'`)
	if err := h.Runs.Probe(t.Context(), nil, nil); err != nil || left() != 0 {
		t.Errorf("%d models are away, %v", left(), err)
	}
}

// talk is a conversation in which each answer has a thought and a signature of its provider.
func talk(end string) scriptmodel.Scene {
	return scriptmodel.Scene{Name: "s", Turns: []scriptmodel.Turn{
		{Reasoning: "one by " + end, ToolCalls: []scriptmodel.ToolCall{call("note", object{})}},
		{Reasoning: "two by " + end, ToolCalls: []scriptmodel.ToolCall{call("note", object{})}},
		{Reasoning: "three by " + end, ToolCalls: []scriptmodel.ToolCall{call("note", object{})}},
		{ToolCalls: terminate(end)},
	}}
}

// TestFallbackInATalk: a model that answers in the middle of a talk understands what the other one said, of another
// provider or of its own, and gets nothing of it that is for that one. So does the first when it is back.
func TestFallbackInATalk(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"scripted", "anthropic"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			var g *gate
			round := 0
			note := tool.CallFunc("note", "Notes.", func(context.Context, tool.Call, struct{}) (string, error) {
				round++
				g.shut.Store(round < 3)
				return fmt.Sprint("noted ", round), nil
			})
			h := build(t, []scriptmodel.Scene{talk("the first")}, map[string]define.Definition{"a": {Tools: []string{"note"}}},
				[]tool.Tool{note})

			g = newGate(t, h.Model.URL())
			p := to(quick(), "second")
			p.Probe = model.Backoff{From: time.Nanosecond, Most: time.Nanosecond}
			h.Parts.DefaultModel = enginetest.Model(t, g.url, p)

			other := second(t, h, quick(), talk("the second"))
			if provider == "anthropic" {
				m, err := anthropic.New(anthropic.Config{
					Model: "claude", BaseURL: strings.TrimSuffix(other.URL(), "/v1"), MaxTokens: 100,
				})
				if err != nil {
					t.Fatal(err)
				}
				h.Parts.Models["second"] = model.WithPatience(m, quick())
			} else {
				h.Parts.Models["second"] = modelAt(t, provider, "other", other.URL(), quick())
			}
			h.Work(h.Engine)

			run := h.Await(h.Start("a", "Go."), record.Completed)
			var by []string
			for _, c := range h.Step(run).Cycles {
				by = append(by, strings.Join(fallbacks(t, c), ","))
			}
			if want := []string{"", "default:network", "default:network", ""}; !slices.Equal(by, want) {
				t.Errorf("in place of %q, want %q", by, want)
			}

			for _, r := range other.Requests() {
				if strings.Contains(string(r.Body), "by the first") {
					t.Errorf("the second was sent %s", r.Body)
				}
			}
			last := other.Requests()[len(other.Requests())-1]
			if provider == "scripted" && !strings.Contains(string(last.Body), "two by the second") {
				t.Errorf("the second was not sent what it had said: %s", last.Body)
			}
			for _, r := range h.Model.Requests() {
				if strings.Contains(string(r.Body), "by the second") {
					t.Errorf("the first was sent %s", r.Body)
				}
			}
		})
	}
}

// TestFallbackSettings: a model that answers in place of another is asked with its own settings. What the agent says
// goes before them.
func TestFallbackSettings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		agent, want string
	}{
		"its own":    {"a", `"temperature":0.75`},
		"the agents": {"warm", `"temperature":1.25`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := define.DefinitionModel{Temperature: new(0.25), MaxTokens: 111}
			h := build(t, []scriptmodel.Scene{fails(http.StatusUnauthorized, "")}, map[string]define.Definition{
				"a":    {Model: first},
				"warm": {Model: define.DefinitionModel{Temperature: new(1.25), MaxTokens: 111}},
			}, nil)

			h.Parts.Settings = map[string]define.DefinitionModel{
				"default": first, "second": {Temperature: new(0.75), MaxTokens: 222},
			}
			h.Parts.DefaultModel = enginetest.Model(t, h.Model.URL(), to(quick(), "second"))
			other := second(t, h, quick(), answers("done"))
			h.Work(h.Engine)
			h.Await(h.Start(tt.agent, "Go."), record.Completed)

			body := string(other.Requests()[0].Body)
			if !strings.Contains(body, tt.want) || !strings.Contains(body, "222") {
				t.Errorf("it was asked %s", body)
			}
		})
	}
}

// TestFallbackCosts: a limit of cost holds for the model that answers in place of another, too.
func TestFallbackCosts(t *testing.T) {
	t.Parallel()
	for name, free := range map[string][]string{"priced": {"scripted", "other"}, "unpriced": {"scripted"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t, []scriptmodel.Scene{fails(http.StatusUnauthorized, "")}, map[string]define.Definition{"a": {}}, nil)
			h.Parts.DefaultModel, h.Parts.Free = enginetest.Model(t, h.Model.URL(), to(quick(), "second")), free
			other := second(t, h, quick(), answers("done"))
			h.Work(h.Engine)

			p := h.Ended(h.Start("a", "Go.", func(r *engine.Request) { r.Limits = &engine.Limits{CostUSD: 1} }))
			switch {
			case name == "priced" && *p.Record.State != record.Completed:
				t.Errorf("it is %s: %s", *p.Record.State, text(p.Record.ErrorMessage))
			case name == "unpriced" && (text(p.Record.ErrorKind) != engine.LimitCostUnknown || len(other.Requests()) > 0):
				t.Errorf("%s, and the second was asked %d times", text(p.Record.ErrorKind), len(other.Requests()))
			}
		})
	}
}

// TestFallbackKilledAtEveryWrite: a run whose model does not answer comes to the same end, whenever its worker is
// killed. Each attempt of each model stays on record.
func TestFallbackKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"away": http.StatusServiceUnavailable, "auth": http.StatusUnauthorized} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := enginetest.AtEveryWrite(t, func(t *testing.T, disturb func(*enginetest.House)) string {
				t.Helper()
				e := &effects{done: map[string][]string{}}
				h := build(t, []scriptmodel.Scene{fails(status, "")}, map[string]define.Definition{
					"a": {Tools: []string{"once"}},
				}, []tool.Tool{e.tool("once", tool.Policy{OnUnknown: tool.Retry})})
				h.Parts.DefaultModel = enginetest.Model(t, h.Model.URL(), to(quick(), "second"))
				other := second(t, h, quick(), scriptmodel.Scene{Name: "s", Turns: calls(
					[]scriptmodel.ToolCall{call("once", object{"name": "a"})}, terminate("by the second"))})

				disturb(h)
				h.Work(h.Engine)

				p := h.Await(h.Start("a", "Go."), record.Completed)

				asked := int64(0)
				for _, c := range h.Step(p).Cycles {
					if got := fallbacks(t, c); len(got) != 1 || !strings.HasPrefix(got[0], "default:") {
						t.Errorf("cycle %d in place of %v", c.Record.Seq, got)
					}
					if got := int64(len(c.PastAttempts)); got != *c.Record.Attempt-1 {
						t.Errorf("%d of %d attempts are on record", got+1, *c.Record.Attempt)
					}
					asked += *c.Record.Attempt
				}
				if made := int64(len(h.Model.Requests()) + len(other.Requests())); asked < made {
					t.Errorf("%d of %d requests are on record", asked, made)
				}
				return outlineOf(h, p)
			}, func(t *testing.T, got, want string) {
				t.Helper()
				if got != want {
					t.Errorf("it came to another end:\n%s", got)
				}
			})
			if !strings.Contains(want, "by the second") {
				t.Errorf("undisturbed:\n%s", want)
			}
		})
	}
}
