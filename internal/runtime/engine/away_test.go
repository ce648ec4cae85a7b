package engine_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// gate stands before a model. While it is shut, requests get no answer.
type gate struct {
	url   string
	shut  atomic.Bool
	asked atomic.Int64 // requests while it was shut

	mu        sync.Mutex
	now, most int // requests at the same time while it was shut
}

func newGate(t *testing.T, model string) *gate {
	t.Helper()
	to, err := url.Parse(model)
	if err != nil {
		t.Fatal(err)
	}

	g := &gate{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = &http.Transport{} // another test may close the connections of the default one
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.shut.Load() {
			proxy.ServeHTTP(w, r)
			return
		}
		g.refuse()
		panic(http.ErrAbortHandler) // the connection is cut
	}))
	t.Cleanup(s.Close)
	g.url = s.URL
	return g
}

func (g *gate) refuse() {
	g.asked.Add(1)
	g.count(1)
	defer g.count(-1)
	time.Sleep(5 * time.Millisecond) // so that requests at the same time are seen
}

func (g *gate) count(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.most = max(g.most, g.now)
}

// forget begins to count anew, and returns how many requests there were at the same time before.
func (g *gate) forget() (most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	most, g.most = g.most, 0
	return most
}

// behindGate returns a house whose model is behind a gate that is shut.
func behindGate(t *testing.T, p model.Patience, scenes ...scriptmodel.Scene) (*enginetest.House, *gate) {
	t.Helper()
	if scenes == nil {
		scenes = []scriptmodel.Scene{{Name: "s", Turns: []scriptmodel.Turn{{ToolCalls: terminate("done")}}}}
	}
	h := build(t, scenes, map[string]define.Definition{
		"a": {}, "top": {Tools: []string{"agent.a"}},
	}, nil)

	g := newGate(t, h.Model.URL())
	g.shut.Store(true)
	h.Parts.DefaultModel = enginetest.Model(t, g.url, p)
	return h, g
}

func quick() model.Patience {
	return model.Patience{
		Tries: 2, Retry: model.Backoff{From: time.Millisecond, Most: time.Second},
		Probe: model.Backoff{From: 20 * time.Millisecond, Most: 50 * time.Millisecond}, GiveUpAfter: time.Hour,
	}
}

// parked waits until a run is paused for the model and no worker holds it.
func parked(t *testing.T, h *enginetest.House, id string) (d *runstore.RunDetail) {
	t.Helper()
	storetest.Until(t, "run "+id+" waits for its model", func() bool {
		var err error
		if d, err = h.Runs.Reader.RunDetail(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return d.State == record.Paused && len(d.WaitingFor) > 0
	})
	return d
}

// TestModelIsAway: while a model is away, its runs are paused, no worker holds them, and one of them at a time asks
// whether it is back. When it is, all go on.
func TestModelIsAway(t *testing.T) {
	t.Parallel()
	h, g := behindGate(t, quick())
	h.Work(h.Engine)
	h.Work(h.NewEngine(nil))

	ids := make([]string, 30)
	for i := range ids {
		ids[i] = h.Start("a", fmt.Sprintf("Go %d.", i))
	}

	for _, id := range ids {
		d := parked(t, h, id)
		if len(d.WaitingFor) != 1 || !strings.HasPrefix(d.WaitingFor[0], "model:default is away since 20") {
			t.Errorf("it waits for %q", d.WaitingFor)
		}
		if d.DueAt == nil || time.Until(*d.DueAt) > 10*time.Second {
			t.Errorf("it is due at %v", d.DueAt)
		}
	}

	g.forget()
	before := g.asked.Load()
	storetest.Until(t, "it was asked again", func() bool { return g.asked.Load() > before+10 })
	if most := g.forget(); most > 2 {
		t.Errorf("%d runs asked at the same time", most)
	}

	later := h.Start("a", "Later.") // asks nothing
	if cycles := len(h.Step(h.Await(later, record.Paused)).Cycles); cycles > 1 {
		t.Errorf("len(cycles) = %d", cycles)
	}

	g.shut.Store(false)
	for _, id := range append(ids, later) {
		p := h.Await(id, record.Completed)
		c := h.Step(p).Cycles[0]
		if got := int64(len(c.PastAttempts)); got != *c.Record.Attempt-1 {
			t.Errorf("%d of %d attempts are on record", got+1, *c.Record.Attempt)
		}
	}
	nothingAwaits(t, h)
}

// nothingAwaits checks that nothing is left of models that were away.
func nothingAwaits(t *testing.T, h *enginetest.House) {
	t.Helper()
	storetest.Until(t, "nothing waits for a model", func() bool {
		var left int
		err := h.DB.Pool.QueryRow(t.Context(),
			"SELECT (SELECT count(*) FROM actlog.model_wait) + (SELECT count(*) FROM actlog.model_away)").Scan(&left)
		if err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
}

// TestModelStaysAway: a run waits as long as it is to, and fails as its model did.
func TestModelStaysAway(t *testing.T) {
	t.Parallel()
	patience := quick()
	patience.GiveUpAfter = 300 * time.Millisecond
	h, _ := behindGate(t, patience)
	h.Work(h.Engine)

	first, second := h.Start("a", "One."), h.Start("a", "Two.")
	for _, id := range []string{first, second} {
		p := h.Await(id, record.Failed)
		if text(p.Record.ErrorKind) != "network" {
			t.Errorf("%s: %s", text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
		}
	}
	nothingAwaits(t, h)
}

// TestResumeAsksAtOnce: whoever resumes a run does not wait for the next probe, and the answer is for all.
func TestResumeAsksAtOnce(t *testing.T) {
	t.Parallel()
	patience := quick()
	patience.Probe = model.Backoff{From: time.Hour, Most: time.Hour}
	h, g := behindGate(t, patience)
	h.Work(h.Engine)
	first, second := h.Start("top", "One."), h.Start("a", "Two.")
	parked(t, h, first)
	parked(t, h, second)

	before := g.asked.Load()
	control(t, h, first, runstore.Resume)
	storetest.Until(t, "the model was asked", func() bool { return g.asked.Load() > before })
	parked(t, h, first)
	if n := g.asked.Load() - before; n != 1 {
		t.Errorf("it was asked %d times", n)
	}

	g.shut.Store(false)
	control(t, h, first, runstore.Resume)
	h.Await(first, record.Completed)
	h.Await(second, record.Completed)
}

func control(t *testing.T, h *enginetest.House, id string, action runstore.Action) {
	t.Helper()
	if err := h.Runs.Control(t.Context(), id, action, "ann"); err != nil {
		t.Fatal(err)
	}
}

// TestAwayBelow: a run says for which model a run below it waits. It can be paused, resumed and stopped meanwhile.
func TestAwayBelow(t *testing.T) {
	t.Parallel()
	patience := quick()
	patience.Probe = model.Backoff{From: time.Hour, Most: time.Hour}
	h, g := behindGate(t, patience,
		scriptmodel.Scene{Name: "below", Match: scriptmodel.Match{User: "Below."}, Turns: []scriptmodel.Turn{
			{ToolCalls: terminate("below")},
		}},
		scriptmodel.Scene{Name: "top", Turns: []scriptmodel.Turn{
			{ToolCalls: []scriptmodel.ToolCall{call("agent.a", object{"request": "Below."})}}, {ToolCalls: terminate("top")},
		}})

	g.shut.Store(false)
	h.Parts.Models = map[string]model.Model{"away": h.Parts.DefaultModel}
	h.Parts.DefaultModel = enginetest.Model(t, h.Model.URL(), patience)
	h.Parts.Definitions["agent.a"] = define.Definition{Agent: "a", Model: define.DefinitionModel{Name: "away"}}

	g.shut.Store(true)
	h.Work(h.Engine)
	goesOn, stopped := h.Start("top", "Go."), h.Start("top", "Stop.")
	if d := parked(t, h, goesOn); !strings.HasPrefix(d.WaitingFor[0], "model:away is away since ") {
		t.Errorf("it waits for %q", d.WaitingFor)
	}
	parked(t, h, stopped)

	control(t, h, goesOn, runstore.Pause)
	control(t, h, stopped, runstore.Stop)
	h.Await(stopped, record.Cancelled)
	h.Await(goesOn, record.Paused)

	g.shut.Store(false)
	control(t, h, goesOn, runstore.Resume)
	h.Await(goesOn, record.Completed)
	nothingAwaits(t, h)
}

// TestOneRequestThatFails: a model that answers others is not away for them. The run whose request fails asks again by
// itself.
func TestOneRequestThatFails(t *testing.T) {
	t.Parallel()
	h := build(t, []scriptmodel.Scene{
		{Name: "bad", Match: scriptmodel.Match{User: "bad"}, Turns: []scriptmodel.Turn{
			{ToolCalls: terminate("done"), Error: &scriptmodel.Failure{Status: 500, Message: "it broke", Times: 5}},
		}},
		{Name: "good", Turns: []scriptmodel.Turn{{ToolCalls: terminate("done")}}},
	}, map[string]define.Definition{"a": {}}, nil)
	patience := quick()
	patience.Retry.From, patience.Retry.Factor = 50*time.Millisecond, 1
	h.Parts.DefaultModel = enginetest.Model(t, h.Model.URL(), patience)
	h.Work(h.Engine)

	bad := h.Start("a", "bad")
	for done := false; !done; {
		p := h.Await(h.Start("a", "good"), record.Completed)
		if n := len(h.Step(p).Cycles[0].PastAttempts); n > 0 {
			t.Errorf("a good request had %d attempts", n)
		}

		d, err := h.Runs.Reader.RunDetail(t.Context(), bad)
		if err != nil {
			t.Fatal(err)
		}
		done = d.State.Terminal()
	}

	p := h.Await(bad, record.Completed)
	var claims int
	err := h.DB.Pool.QueryRow(t.Context(), "SELECT epoch FROM actlog.run WHERE plan_id = $1", bad).Scan(&claims)
	if err != nil || *h.Step(p).Cycles[0].Record.Attempt != 6 || claims != 5 { // two tries, and then one each time
		t.Errorf("%d attempts in %d claims, %v", *h.Step(p).Cycles[0].Record.Attempt, claims, err)
	}
	nothingAwaits(t, h)
}

// TestProbeIsLost: a worker that is lost while its run asks is no reason not to ask any more.
func TestProbeIsLost(t *testing.T) {
	t.Parallel()
	patience := quick()
	patience.Probe = model.Backoff{From: time.Millisecond, Most: time.Millisecond}
	h, g := behindGate(t, patience)
	stop := h.Work(h.Engine)
	id := h.Start("a", "Go.")
	parked(t, h, id)
	stop()

	// As a worker leaves it that was killed while its run asked.
	must(t, h, `UPDATE actlog.model_wait SET asks = true`)
	must(t, h, `INSERT INTO actlog.worker (worker_id, host, release, provides, slots, lease_until)
		VALUES ('lost', 'h', '', '{}', 1, now() - interval '1 hour')`)
	must(t, h, `UPDATE actlog.run SET worker_id = 'lost', due_at = NULL`)
	g.shut.Store(false)
	h.Work(h.NewEngine(func(c *engine.Config) { c.Lease = 200 * time.Millisecond }))
	h.Await(id, record.Completed)
	nothingAwaits(t, h)
}

func must(t *testing.T, h *enginetest.House, statement string) {
	t.Helper()
	if _, err := h.DB.Pool.Exec(t.Context(), statement); err != nil {
		t.Fatal(errors.Join(err, errors.New(statement)))
	}
}
