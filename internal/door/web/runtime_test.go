package web_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/door/web"
	"github.com/actlog/actlog/internal/runtime/catalog"
	"github.com/actlog/actlog/internal/runtime/config"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor"
	"github.com/actlog/actlog/internal/runtime/parts"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// shop is a site with a runtime: a worker, a configuration file and a model that follows a script.
type shop struct {
	*site
	engine *engine.Engine
}

// configuration is that of the shop.
const configuration = `
models:
  default: {provider: openai, model: scripted, baseURL: "MODEL_URL", apiKey: none, retry: {tries: 1}, probe: {from: 1h, most: 1h}}
redact: ["card-[0-9]+"]
agents:
  clerk:
    description: Answers customers
    systemPrompt: You are a clerk.
    tools: [form, shop.refund]
roles:
  CASHIER: {tools: [shop.refund]}
plans:
  nightly:
    title: Count the stock
    steps: [{agent: clerk, request: "Count <<what>> for <<planId>>."}]
workflows:
  two: {description: Twice, steps: [clerk, clerk]}
`

// everyInput is a form with every type of input.
const everyInput = `{"title":"Who are you?","description":"We need this for the refund.","inputs":[
	{"label":"Your name","name":"name","required":true,"placeholder":"Ann Example"},{"label":"Amount","name":"amount","type":"number","required":true},{"label":"Mail","name":"mail","type":"email"},
	{"label":"PIN","name":"pin","type":"password","required":true},{"label":"Story","name":"story","type":"textarea"},{"label":"Region","name":"region","type":"select","options":["EMEA","APAC"],"required":true},
	{"label":"Items","name":"items","type":"checkbox","options":["lamp","chair","<b>"],"required":true},{"label":"How","name":"how","type":"radio","options":["bank","cash"],"required":true},
	{"label":"Agreed","name":"agreed","type":"checkbox","required":true},{"label":"News","name":"news","type":"checkbox"}]}`

// refund is a call that a human has to approve.
const refund = `{"to": "Ann ` + "\u202e" + `nnA","amount": 12345678901234567890.10,"note":"two\nlines <b>"}`

// proposed is a plan of the orchestrator.
const proposed = `{"goal":"Count the TODOs","estimatedDuration":90,"steps":[
	{"stepNumber":1,"agentType":"RAG_SEARCH","action":"Find TODOs <b>","justification":"To count them","expectedOutput":"A list"},
	{"stepNumber":2,"agentType":"RAG_SEARCH","action":"Count them","justification":"It was asked for","dependencies":[1]}]}`

// diamond is a graph of which one node will fail.
const diamond = `{"title":"Tea or coffee","nodes":[{"id":"a","name":"Context","description":"What matters?"},{"id":"b","name":"Rate tea","description":"Tea.","dependencies":["a"]},
	{"id":"c","name":"Rate <b>coffee</b>","description":"Coffee.","dependencies":["a"]},{"id":"d","name":"Compare","description":"Compare.","dependencies":["c"]},
	{"id":"e","name":"Choice","description":"Choose.","dependencies":["a","b","d"]}]}`

// scenes are what the model says, by what it is asked.
func scenes() []scriptmodel.Scene {
	says := func(turns ...scriptmodel.Turn) []scriptmodel.Turn { return turns }
	call := func(name string, arguments string) scriptmodel.Turn {
		return scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{{Name: name, Arguments: json.RawMessage(arguments)}}}
	}

	end := scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
		message := "done"
		for _, result := range r.ToolResults() {
			message = result.Content
		}
		arguments, err := json.Marshal(map[string]string{"message": message})
		return call("terminate", string(arguments)), err
	}}

	slow := call("shop-refund", `{"to":"nobody"}`)
	slow.Delay = scriptmodel.Duration(time.Hour)
	said := func(content string) scriptmodel.Turn { return scriptmodel.Turn{Content: content} }
	broken := scriptmodel.Turn{Error: &scriptmodel.Failure{Status: 400, Message: "no"}}

	return []scriptmodel.Scene{
		{Name: "graph", Match: scriptmodel.Match{System: "acyclic graph"}, Turns: says(said(diamond))},
		{Name: "tea", Match: scriptmodel.Match{System: `"Rate tea"`}, Turns: says(broken)},
		{Name: "node", Match: scriptmodel.Match{System: "one task of a larger plan"}, Turns: says(said("rated"))},
		{
			Name: "planner", Match: scriptmodel.Match{System: "Plan how"},
			Turns: says(said(proposed), said(strings.Replace(proposed, "Find TODOs <b>", "Find less", 1))),
		},
		{Name: "search", Match: scriptmodel.Match{System: "agent RAG_SEARCH"}, Turns: says(said("30"))},
		{Name: "answer", Match: scriptmodel.Match{System: "They have worked"}, Turns: says(said("There are 30."))},
		{Name: "talk", Match: scriptmodel.Match{User: "sky"}, Turns: says(said("The sky is blue."))},
		{Name: "form", Match: scriptmodel.Match{User: "form"}, Turns: says(call("form", everyInput), end)},
		{
			Name: "refund", Match: scriptmodel.Match{User: "refund"},
			Turns: says(scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{{Name: "shop-refund", Arguments: refund}}}, end),
		},
		{
			Name: "hostile", Match: scriptmodel.Match{User: "hostile"},
			Turns: says(call("form", hostileForm()),
				scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{{Name: "shop-refund", Arguments: hostileOrder()}}}, end),
		},
		{Name: "slow", Match: scriptmodel.Match{User: "slow"}, Turns: says(slow)},
		{Name: "away", Match: scriptmodel.Match{User: "away"}, Turns: says(scriptmodel.Turn{
			Error: &scriptmodel.Failure{Status: 503, Message: "busy <b>", Times: 1}, ToolCalls: end.ToolCalls, Reply: end.Reply,
		})},
		{Name: "others", Turns: says(end)},
	}
}

// hostileForm is a form of which each text is all payloads.
func hostileForm() string {
	_, long := all()
	type input map[string]any

	inputs := []input{}
	for _, kind := range engine.InputTypes {
		inputs = append(inputs, input{
			"label": kind + long, "name": kind + long, "type": kind, "placeholder": long, "options": payloads[:5],
		})
	}
	form, _ := json.Marshal(map[string]any{"title": long, "description": long, "inputs": inputs}) // texts
	return string(form)
}

// hostileOrder is an order of which each text is all payloads.
func hostileOrder() string {
	_, long := all()
	order, _ := json.Marshal(map[string]string{"to": long, "note": long})
	return string(order)
}

// openShop opens a site with a runtime.
func openShop(t *testing.T, door httpd.Config) *shop {
	t.Helper()
	model, err := scriptmodel.Start(scriptmodel.Script{Scenes: scenes()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })

	file := filepath.Join(t.TempDir(), "actlog.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(configuration, "MODEL_URL", model.URL())), 0o600); err != nil {
		t.Fatal(err)
	}
	current, err := config.Open(file, config.Options{Tools: []string{"shop.refund"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(current.Close)

	type order struct {
		To     string `json:"to"`
		Amount any    `json:"amount,omitempty"`
		Note   string `json:"note,omitempty"`
	}
	source := parts.NewSource(slog.New(slog.DiscardHandler))
	source.Set(current, parts.Own{Tools: []tool.Tool{
		tool.Func("shop.refund", "Sends money.", func(_ context.Context, o order) (string, error) {
			return "sent to " + o.To, nil
		},
			tool.WithPolicy(tool.Policy{Writes: true, Approval: true}),
			tool.WithTouches(func(context.Context, order) ([]string, error) { return []string{"book <b>.md"}, nil }),
			tool.WithPreview(func(_ context.Context, _ tool.Call, o order) (tool.Preview, error) {
				return tool.NewPreview(tool.PreviewRequest, "POST /refunds\n\nto=<i>"+o.To), nil
			})),
	}})

	s := storetest.Open(t)
	e, err := engine.New(engine.Config{
		Store: runstore.New(s), Executors: executor.All(source.Function), Parts: source.Use, Watcher: s.Deltas(),
		Lease: time.Minute, Scan: 20 * time.Millisecond, Drain: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		if err := e.Work(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); work.Wait() })

	api := apitest.Config{HTTP: door, Starter: e, Catalog: source, Runs: runapi.Config{Redact: source.Redact}}
	return &shop{serve(t, s, api, web.Runtime{
		Catalog: source, Runnable: catalog.New(source, runstore.New(s)), Redact: source.Redact,
	}),
		e}
}

// start starts a run of the clerk.
func (s *shop) start(request string) string {
	s.t.Helper()
	return s.carry("agent", map[string]string{"agent": "clerk", "request": request})
}

// carry starts a run.
func (s *shop) carry(executor string, in map[string]string) string {
	s.t.Helper()
	input, err := json.Marshal(in)
	if err != nil {
		s.t.Fatal(err)
	}
	started, err := s.engine.Start(s.t.Context(), engine.Request{Executor: executor, Input: input})
	if err != nil {
		s.t.Fatal(err)
	}
	return started.PlanID
}

// run returns a run.
func (s *shop) run(id string) *runstore.RunDetail {
	s.t.Helper()
	d, err := runstore.NewReader(s.store.Reader).RunDetail(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// asks waits until a run asks a human, and returns the address of the question.
func (s *shop) asks(id string) string {
	s.t.Helper()
	var w *record.Wait
	storetest.Until(s.t, id+" asks", func() bool {
		d := s.run(id)
		if len(d.Waits) > 0 {
			w = d.Waits[0]
		} else if d.State.Terminal() {
			said, _ := json.Marshal(d.Plan) // it may have no summary
			s.t.Fatalf("%s has ended: %s", id, said)
		}
		return w != nil
	})
	return "/runs/" + id + "?at=wait%3A" + w.WaitID
}

// ends waits until a run has ended, and returns what it answers.
func (s *shop) ends(id string, state record.State) string {
	s.t.Helper()
	storetest.Until(s.t, id+" ends", func() bool { return s.run(id).State.Terminal() })
	d := s.run(id)
	if d.State != state {
		s.t.Errorf("%s is %s: %+v", id, d.State, d.Plan)
	}
	if d.Plan.Summary == nil {
		return ""
	}
	return *d.Plan.Summary
}

// answers answers the question of a run by the page.
func (s *shop) answers(id, decision string) {
	s.t.Helper()
	if r := s.send(http.MethodPost, s.asks(id), "decision="+decision); r.StatusCode != http.StatusSeeOther {
		s.t.Fatalf("%s of %s: %d", decision, id, r.StatusCode)
	}
}
