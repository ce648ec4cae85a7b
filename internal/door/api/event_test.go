package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tmaxmax/go-sse"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

// stream is a stream of events that a test reads.
type stream struct {
	t        testing.TB
	lean     bool
	resp     *http.Response
	events   chan sse.Event
	err      error // once events is closed
	cancel   context.CancelFunc
	cursor   string
	rows     map[string]obj // by kind and key, as they were last sent
	plans    map[string]obj
	texts    map[string]string // of cycles, as deltas brought them
	progress map[string]obj    // how far calls have come, by call and attempt
}

// open begins a stream at a path. Headers come in pairs.
func (c *client) open(path string, header ...string) *stream {
	c.T.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.T.Context()))
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base+path, nil)
	if err != nil {
		c.T.Fatal(err)
	}

	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if c.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.Key)
	}

	resp, err := c.HTTP.Do(r)
	if err != nil {
		cancel()
		c.T.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		cancel()
		c.T.Fatalf("GET %s: %d %.500s", path, resp.StatusCode, body)
	}

	s := &stream{
		t: c.T, lean: strings.Contains(path, "lean=true"), resp: resp, events: make(chan sse.Event), cancel: cancel,
		rows: map[string]obj{}, plans: map[string]obj{}, texts: map[string]string{}, progress: map[string]obj{},
	}
	go func() {
		defer resp.Body.Close()
		defer close(s.events)
		for e, err := range sse.Read(resp.Body, &sse.ReadConfig{MaxEventSize: 64 << 20}) {
			if err != nil {
				s.err = err
				return
			}

			select {
			case s.events <- e:
			case <-ctx.Done():
				s.err = ctx.Err()
				return
			}
		}
	}()

	c.T.Cleanup(s.close)
	return s
}

// close disconnects.
func (s *stream) close() {
	s.cancel()
	for range s.events {
	}
}

// keyOf names the row of an event.
func keyOf(row obj) string {
	var key []any
	if at, lean := row["at"]; lean {
		return at.(string)
	}
	for _, f := range field.Fields(record.Kind(row["kind"].(string))) {
		if f.Key {
			key = append(key, row[f.Name])
		}
	}
	return fmt.Sprint(row["kind"], key)
}

// deltaOf names the cycle of a delta.
func deltaOf(data obj) string {
	return fmt.Sprintf("%v %v %v", data["planId"], data["stepId"], data["seq"])
}

// next reads the next event that is not a heartbeat, and learns from it. ok is false at the
// end.
func (s *stream) next() (e sse.Event, data obj, ok bool) {
	s.t.Helper()
	for {
		if e, ok = <-s.events; !ok {
			return e, nil, false
		}
		if e.LastEventID != "" {
			s.cursor = e.LastEventID
		}
		if e.Type == "" {
			continue
		}

		s.learn(e, &data)
		return e, data, true
	}
}

func (s *stream) learn(e sse.Event, data *obj) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(e.Data), data); err != nil {
		s.t.Errorf("%s: %v: %.300s", e.Type, err, e.Data)
		return
	}

	schema := map[string]string{
		"rows": "EventRows", "plans": "EventPlans", "done": "EventDone", "delta": "EventDelta", "reset": "EventReset",
		"progress": "EventProgress",
	}[e.Type]
	if schema == "EventRows" && s.lean {
		schema = "EventLeanRows"
	}
	if schema != "" {
		if err := contract().Validate(*data, "components", "schemas", schema); err != nil {
			s.t.Errorf("%s: %v", e.Type, err)
		}
	}

	switch e.Type {
	case "progress":
		s.progress[fmt.Sprint((*data)["toolCallId"], " ", (*data)["attempt"])] = *data
	case "delta":
		s.texts[deltaOf(*data)] += (*data)["text"].(string)
	case "reset":
		if len(*data) > 0 {
			delete(s.texts, deltaOf(*data))
			return
		}
		clear(s.rows)
		clear(s.plans)
	case "rows":
		for _, row := range (*data)["rows"].([]any) {
			s.rows[keyOf(row.(obj))] = row.(obj)
		}
	case "plans":
		for _, p := range (*data)["plans"].([]any) {
			s.plans[p.(obj)["rootPlanId"].(string)] = p.(obj)
		}
	}
}

// until reads until a condition holds.
func (s *stream) until(what string, holds func() bool) {
	s.t.Helper()
	for !holds() {
		if _, _, ok := s.next(); !ok {
			s.t.Fatalf("the stream ended before: %s (%v)", what, s.err)
		}
	}
}

func (s *stream) has(key string) func() bool {
	return func() bool { return s.rows[key] != nil }
}

// ends reads to the end, and returns the types of the events.
func (s *stream) ends() (types []string) {
	s.t.Helper()
	for {
		e, _, ok := s.next()
		if !ok {
			if s.err != nil {
				s.t.Errorf("the stream broke: %v", s.err)
			}
			return types
		}
		types = append(types, e.Type)
	}
}

// TestDeltaEvents checks the texts of models' answers as live events: those of sub-plans too, from
// any server to any server, without an id, for those alone who ask for them.
func TestDeltaEvents(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c, other := serveWith(t, options{DB: db}), serveWith(t, options{DB: db})
	c.Write(plan("p", state("RUNNING")), step("p", "p", "s"), tool("p", "s", 0, "call"),
		subPlan("p", "q", "p", "call", state("RUNNING")), plan("r", state("RUNNING")))

	ofRoot, ofSub := c.open(events("p")+"?deltas=true"), other.open(events("q")+"?deltas=true")
	ofOther, none := c.open(events("r")+"?deltas=true"), c.open(events("p")+"?deltas=false")
	watchers := []*stream{ofRoot, ofSub}
	all := append([]*stream{ofOther, none}, watchers...)
	for _, s := range all {
		s.until("the present state", func() bool { return s.cursor != "" })
	}

	before := ofRoot.cursor
	for i, from := range []*client{c, other} { // a worker runs in the process of either
		deltas := from.Store.Deltas()
		for _, s := range watchers {
			ctx, stop := context.WithCancel(t.Context())
			var sending sync.WaitGroup
			sending.Go(func() {
				for pg.Pause(ctx, time.Millisecond) == nil {
					deltas.Delta("p", "p", "meeting", int64(i), 1, "x")
				}
			})

			s.until("the sender knows the watcher", func() bool { return s.texts[fmt.Sprintf("p meeting %d", i)] != "" })
			stop()
			sending.Wait()
		}
	}

	deltas := c.Store.Deltas()
	deltas.Delta("p", "q", "sub", 2, 1, "lost")
	for _, s := range watchers {
		s.until("the text of the sub-plan", func() bool { return s.texts["q sub 2"] == "lost" })
	}

	deltas.Reset("p", "q", "sub", 2, 2)
	deltas.Delta("p", "q", "sub", 2, 2, "\"Zürich\"\n\n")
	deltas.Delta("p", "q", "sub", 2, 2, "data: <b>\r😀")
	for _, s := range watchers {
		s.until("the text of the second attempt", func() bool { return s.texts["q sub 2"] == "\"Zürich\"\n\ndata: <b>\r😀" })
		if s.rows["plan[p p]"] == nil {
			t.Error("a reset of deltas took the rows away")
		}
	}

	if ofRoot.cursor != before {
		t.Errorf("the cursor moved from %s to %s", before, ofRoot.cursor)
	}

	c.Write(plan("p", state("COMPLETED")), plan("r", state("COMPLETED")),
		subPlan("p", "q", "p", "call", state("COMPLETED")))
	for _, s := range all {
		if types := s.ends(); types[len(types)-1] != "done" {
			t.Errorf("the last event is %q", types)
		}
	}
	if len(ofOther.texts)+len(none.texts) > 0 {
		t.Errorf("other streams received %v %v", ofOther.texts, none.texts)
	}

	for _, path := range []string{events("p") + "?deltas=yes", "/api/v1/events?deltas=true"} {
		if got := c.Do(http.MethodGet, path, nil).Status; got != http.StatusBadRequest {
			t.Errorf("%s: %d", path, got)
		}
	}
}

// TestProgressEvents checks how far calls have come as live events, for those alone who ask for them: the last one
// counts, texts of the same cycle are none of it, and the row has what is on record.
func TestProgressEvents(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c, other := serveWith(t, options{DB: db}), serveWith(t, options{DB: db})
	onRecord := obj{"done": 1.0, "total": nil, "message": "reading"}
	c.Write(plan("p", state("RUNNING")), step("p", "p", "s"),
		tool("p", "s", 0, "call", state("RUNNING"), obj{"progress": onRecord}))

	here, there := c.open(events("p")+"?deltas=true"), other.open(events("p")+"?deltas=true")
	none := c.open(events("p"))
	for _, s := range []*stream{here, there, none} {
		s.until("the present state", func() bool { return s.cursor != "" })
		if got := s.rows["actTool[p s 0 call]"]; got == nil || !cmp.Equal(got["progress"], any(onRecord)) {
			t.Errorf("the row is %v", got)
		}
	}

	deltas, before := c.Store.Deltas(), here.cursor
	for _, s := range []*stream{here, there} {
		ctx, stop := context.WithCancel(t.Context())
		var sending sync.WaitGroup
		sending.Go(func() {
			for i := 1.0; pg.Pause(ctx, time.Millisecond) == nil; i++ {
				deltas.Progress("p", "p", "s", 0, "meeting", 1, record.Progress{Done: &i})
			}
		})
		s.until("the sender knows the watcher", func() bool { return s.progress["meeting 1"] != nil })
		stop()
		sending.Wait()
	}

	text := "\"Zürich\" <b> 😀" + strings.Repeat("\"", 480)
	deltas.Delta("p", "p", "s", 0, 1, "a text")
	deltas.Progress("p", "p", "s", 0, "call", 2, record.Progress{Done: new(1.0), Total: new(3.0)})
	deltas.Progress("p", "p", "s", 0, "call", 2, record.Progress{Done: new(2.5), Total: new(3.0), Message: &text})
	deltas.Progress("p", "p", "s", 0, "call", 1, record.Progress{Message: new("of a worker that lost the run")})
	for _, s := range []*stream{here, there} {
		s.until("the last progress", func() bool { return s.progress["call 2"]["message"] == text })
		if want := (obj{
			"planId": "p", "stepId": "s", "seq": 0.0, "toolCallId": "call", "attempt": 2.0, "done": 2.5, "total": 3.0,
			"message": text,
		}); !cmp.Equal(s.progress["call 2"], want) || s.progress["call 1"] != nil {
			t.Errorf("it heard %v", s.progress)
		}
		s.until("the text", func() bool { return s.texts["p s 0"] == "a text" })
	}

	if here.cursor != before {
		t.Errorf("the cursor moved from %s to %s", before, here.cursor)
	}
	c.Write(plan("p", state("COMPLETED")))
	for _, s := range []*stream{here, there, none} {
		s.ends()
	}
	if len(none.progress) > 0 {
		t.Errorf("who did not ask heard %v", none.progress)
	}
}

// TestLeanEvents: a lean stream says which rows changed, and their states. A hub knows from which cursor on.
func TestLeanEvents(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p", state("RUNNING")), step("p", "p", "a/b"))
	cursor, err := c.Server.Hub.Cursor(t.Context())
	if err != nil || cursor == "" {
		t.Fatalf("cursor = %v, %v", cursor, err)
	}

	whole, rest := c.open(events("p")+"?lean=true"), c.open(events("p")+"?lean=true&after="+cursor)
	c.Write(tool("p", "a/b", 2, "x y", state("FAILED"), obj{"result": strings.Repeat("x", 1_000)}),
		obj{"kind": "wait", "rootPlanId": "p", "planId": "p", "waitId": "w"},
		obj{"kind": "thought", "rootPlanId": "p", "planId": "p", "thoughtId": "t"})
	for _, s := range []*stream{whole, rest} {
		s.until("the call and the wait", func() bool {
			return s.rows["call:a%2Fb/2/x%20y"] != nil && s.rows["wait:w"] != nil
		})
		if got := s.rows["call:a%2Fb/2/x%20y"]; len(got) != 3 || got["state"] != "FAILED" || got["kind"] != "actTool" {
			t.Errorf("%v", got)
		}
	}

	whole.until("the step", func() bool { return whole.rows["step:a%2Fb"] != nil && whole.rows["plan:p"] != nil })
	if got := c.Do(http.MethodGet, events("p")+"?lean=1", nil).Status; got != http.StatusBadRequest {
		t.Errorf("lean=1: %d", got)
	}
}

func events(id string) string { return "/api/v1/plans/" + url.PathEscape(id) + "/events" }

func TestEventsOfAPlan(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c, other := serveWith(t, options{DB: db}), serveWith(t, options{DB: db})
	c.Write(plan("p", state("RUNNING")), step("p", "p", "s"), cycle("p", "s", 0, obj{"thinkInput": "in"}))
	s := c.open(events("p"))

	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no", "Content-Encoding": "",
	} {
		if got := s.resp.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}

	s.until("the present state", s.has("thinkAct[p s 0]"))
	expect(t, s.rows["thinkAct[p s 0]"], obj{"thinkInput": "in", "thinkOutput": nil, "state": "PENDING", "attempt": 1})
	clear(s.rows)

	other.Write(tool("p", "s", 0, "c", obj{"name": "grep", "result": "out"}),
		subPlan("p", "q", "p", "c", state("RUNNING")),
		wait("p", "q", "w"), thought("p", "p", "t"),
		artifact("p", "p", "a", obj{"value": obj{"x": 1}}),
		source("p", "p", "r"))
	s.until("what another server wrote", s.has("wait[p q w]"))

	keys := slices.Sorted(maps.Keys(s.rows))
	want := []string{
		"actTool[p s 0 c]", "agentExecution[p s]", "artifact[p p a]", "plan[p q]", "source[p p r]", "thought[p p t]",
		"wait[p q w]",
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("rows that changed (-want +got):\n%s", diff)
	}

	expect(t, s.rows["agentExecution[p s]"], obj{
		"figures.toolCalls": 1, "latestMethodName": "grep", "latestRoundNumber": 1, "planId": "p",
	})
	expect(t, s.rows["actTool[p s 0 c]"], obj{"result": "out", "inferred": false})

	// A stream that asks for the sub-plan sees the same tree, and ends with it.
	sub := other.open(events("q"))
	sub.until("the tree of the sub-plan", sub.has("wait[p q w]"))
	if sub.rows["plan[p p]"] == nil {
		t.Error("the tree lacks its root")
	}
	c.Write(subPlan("p", "q", "p", "c", state("FAILED")))
	if types := sub.ends(); !slices.Equal(types, []string{"rows", "done"}) {
		t.Errorf("the sub-plan's end: %q", types)
	}

	before := s.cursor
	c.Write(plan("p", state("COMPLETED")))
	types := s.ends()
	if types[len(types)-1] != "done" || s.rows["plan[p q]"]["state"] != "FAILED" ||
		s.rows["plan[p p]"]["state"] != "COMPLETED" {
		t.Errorf("the end: %q", types)
	}

	// A client that reconnects receives what it missed, and then the end.
	again := other.open(events("p"), "Last-Event-ID", before)
	if types := again.ends(); !slices.Contains(types, "rows") || types[len(types)-1] != "done" ||
		again.rows["plan[p p]"] == nil || again.rows["thinkAct[p s 0]"] != nil {
		t.Errorf("what was missed: %q, %v", types, again.rows)
	}
	wantStatus(t, c.Get(events("p"), "Last-Event-ID", again.cursor), http.StatusNoContent)
	wantStatus(t, c.Get(events("p")+"?after="+url.QueryEscape(again.cursor)), http.StatusNoContent)

	// A new client receives everything.
	if first := c.open(events("p")); !slices.Contains(first.ends(), "done") || first.rows["thinkAct[p s 0]"] == nil {
		t.Errorf("of a plan that has ended: %v", first.rows)
	}
	a := wantStatus(t, c.Do(http.MethodHead, events("p"), nil), http.StatusOK)
	if a.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD: %v", a.Header)
	}
}

func TestEventsRefused(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p", state("RUNNING")))
	wantStatus(t, c.Get(events("nothing")), http.StatusNotFound)
	wantProblem(t, c.Get(events(" ")), http.StatusBadRequest, "planId")
	wantProblem(t, c.Get(events("p")+"?after=yesterday"), http.StatusBadRequest, "after")
	wantProblem(t, c.Get("/api/v1/events", "Last-Event-ID", "x"), http.StatusBadRequest, "after")
	wantProblem(t, c.Get(events("p")+"?since=1"), http.StatusBadRequest, "since")
}

func TestEventsOfAllPlans(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c, other := serveWith(t, options{DB: db}), serveWith(t, options{DB: db})
	c.Write(plan("live", state("RUNNING")), plan("over", state("COMPLETED")))
	s := c.open("/api/v1/events")
	s.until("what is live", func() bool { return s.plans["live"] != nil })
	if s.plans["over"] != nil {
		t.Error("a plan that has ended was shown")
	}

	other.Write(plan("new", state("RUNNING"), obj{"name": "kind", "title": "a text", "project": "x"}),
		step("new", "new", "s"), cycle("new", "s", 0, obj{"inputTokens": 5}))
	s.until("the new one", func() bool { return s.plans["new"] != nil })
	expect(t, s.plans["new"], obj{
		"state": "RUNNING", "name": "kind", "project": "x", "steps": 1, "total.inputTokens": 5, "completed": false,
		"deleted": false,
		"kinds":   []string{"agentExecution", "plan", "thinkAct"},
	})

	cursor := s.cursor
	s.close()
	c.Write(plan("new", state("FAILED")))
	c.Write(plan("live", state("RUNNING"), obj{"title": "again"}))
	wantStatus(t, c.Do(http.MethodDelete, "/api/v1/plans/live", nil), http.StatusNoContent)

	s = other.open("/api/v1/events?after=" + url.QueryEscape(cursor))
	s.until("both changes", func() bool { return s.plans["new"] != nil && s.plans["live"] != nil })
	expect(t, s.plans["new"], obj{"state": "FAILED", "completed": true})
	expect(t, s.plans["live"], obj{"deleted": true, "state": nil})
}

func TestEventsOfADeletedPlan(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p", state("RUNNING")), step("p", "p", "s"))
	s := c.open(events("p"))
	s.until("the present state", s.has("agentExecution[p s]"))
	cursor := s.cursor

	wantStatus(t, c.Do(http.MethodDelete, "/api/v1/plans/p", nil), http.StatusNoContent)
	if types := s.ends(); !slices.Equal(types, []string{"deleted"}) {
		t.Errorf("types = %q", types)
	}
	wantStatus(t, c.Get(events("p"), "Last-Event-ID", cursor), http.StatusNotFound)

	// Written again, it is another tree.
	c.Write(plan("p", state("COMPLETED")))
	again := c.open(events("p"), "Last-Event-ID", cursor)
	if types := again.ends(); !slices.Equal(types, []string{"reset", "rows", "done"}) || len(again.rows) != 1 {
		t.Errorf("types = %q %v", types, again.rows)
	}
}

// TestEventsOfATrace: clients also drop rows that the spans of the trace do not mean any more.
func TestEventsOfATrace(t *testing.T) {
	t.Parallel()
	c := serve(t)
	export := func(spans ...int) {
		t.Helper()
		all := apitest.AgentTrace(1, nil)
		spansOf := all.ResourceSpans().At(0).ScopeSpans().At(0).Spans()

		between := spansOf.AppendEmpty() // the agent and its call
		spansOf.At(1).CopyTo(between)
		between.SetName("anything")
		between.Attributes().Clear()
		between.SetSpanID([8]byte{6: 1, 7: 9})
		spansOf.At(1).SetParentSpanID(between.SpanID())

		n := -1
		spansOf.RemoveIf(func(ptrace.Span) bool { n++; return !slices.Contains(spans, n) })
		apitest.WantTaken(t, c.Export("/v1/traces", otlp.TypeProtobuf,
			apitest.Marshal(t, all, new(ptrace.ProtoMarshaler).MarshalTraces)), otlp.TypeProtobuf)
	}

	steps := func(of map[string]obj) (ids []string) {
		for key := range of {
			if strings.HasPrefix(key, "agentExecution") {
				ids = append(ids, key)
			}
		}
		slices.Sort(ids)
		return ids
	}

	export(1) // the model call, without what is above it
	s := c.open(events(apitest.TraceID(1)))
	s.until("a step", func() bool { return len(steps(s.rows)) > 0 })
	before := steps(s.rows)
	export(0, 2)
	s.until("the agent's step", s.has(fmt.Sprintf("agentExecution[%s 0000000000000101]", apitest.TraceID(1))))

	fresh := c.open(events(apitest.TraceID(1)))
	fresh.ends()
	s.until("what is there, and nothing else", func() bool {
		return slices.Equal(slices.Sorted(maps.Keys(s.rows)), slices.Sorted(maps.Keys(fresh.rows)))
	})
	if slices.Equal(before, steps(s.rows)) {
		t.Errorf("nothing moved: %q", before)
	}
}

// TestEventsStartAgain if changes after the cursor were swept, or it is of another database.
func TestEventsStartAgain(t *testing.T) {
	t.Parallel()
	c, elsewhere := serve(t), serve(t)
	elsewhere.Write(plan("p", state("RUNNING")))
	foreign := elsewhere.open(events("p"))
	foreign.until("a cursor", func() bool { return foreign.cursor != "" })

	c.Write(plan("p", state("RUNNING")))
	s := c.open(events("p"))
	s.until("a cursor", func() bool { return s.cursor != "" })
	s.close()
	c.Write(step("p", "p", "s"))
	c.Exec("DELETE FROM actlog.change")
	c.Write(plan("q", state("RUNNING")))

	for name, cursor := range map[string]string{"swept": s.cursor, "foreign": foreign.cursor} {
		for path, has := range map[string]func(*stream) bool{
			events("p"):      func(s *stream) bool { return s.rows["agentExecution[p s]"] != nil },
			"/api/v1/events": func(s *stream) bool { return s.plans["p"] != nil && s.plans["q"] != nil },
		} {
			again := c.open(path, "Last-Event-ID", cursor)
			if e, _, _ := again.next(); e.Type != "reset" {
				t.Errorf("%s cursor at %s: first %s", name, path, e.Type)
			}
			again.until("everything", func() bool { return has(again) })
		}
	}
}

func TestEventsHeartbeat(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(c *apitest.Config) { c.API.Heartbeat = 5 * time.Millisecond }})
	c.Write(plan("p", state("RUNNING")))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Base+events("p"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip, zstd")

	resp, err := c.HTTP.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	var comments, retries int
	ids := map[string]bool{}
	for lines := bufio.NewScanner(resp.Body); comments < 5 || len(ids) < 2; {
		if !lines.Scan() {
			t.Fatalf("the stream ended: %v", lines.Err())
		}
		id, isID := strings.CutPrefix(lines.Text(), "id: ")
		switch {
		case strings.HasPrefix(lines.Text(), ":"):
			comments++
		case strings.HasPrefix(lines.Text(), "retry: "):
			retries++
		case isID: // moves on with what is written elsewhere, too
			if ids[id] = true; len(ids) == 1 {
				c.Write(plan("elsewhere"))
			}
		}
	}

	if retries != 1 {
		t.Errorf("%d times retry", retries)
	}
}

// TestEventsCutTheSlow: a client that does not read is cut; others go on.
func TestEventsCutTheSlow(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p", state("RUNNING")))
	slow, fast := c.open(events("p")), c.open(events("p"))
	fast.until("the present state", fast.has("plan[p p]"))

	large := strings.Repeat("x", 1<<20)
	n := 0
	for ; !strings.Contains(string(c.Get("/metrics").Body), "\nactlog_live_cut_total 1\n"); n++ {
		c.Write(thought("p", "p", fmt.Sprint(n), obj{"content": large}))
		fast.until("the thought", fast.has(fmt.Sprintf("thought[p p %d]", n)))
	}
	for range slow.events { // to the end
	}

	if slow.err == nil || errors.Is(slow.err, context.Canceled) {
		t.Errorf("the slow client's end after %d thoughts: %v", n, slow.err)
	}

	c.Write(plan("p", state("COMPLETED")))
	if types := fast.ends(); types[len(types)-1] != "done" {
		t.Errorf("the other's end: %q", types)
	}
}

func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(c *apitest.Config) { c.MaxStreams = 1 }})
	c.Write(plan("p", state("RUNNING")))
	s := c.open(events("p"))
	a := wantStatus(t, c.Get("/api/v1/events"), http.StatusServiceUnavailable)
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}

	s.close()
	for wait := true; wait; { // until the server noticed
		wait = !strings.Contains(string(c.Get("/metrics").Body), "\nactlog_live_streams 0\n")
	}
	s = c.open("/api/v1/events")
	s.until("a plan", func() bool { return s.plans["p"] != nil })

	c.Server.Hub.Close()
	if types := s.ends(); len(types) > 0 {
		t.Errorf("types = %q", types)
	}
	wantStatus(t, c.Get(events("p")), http.StatusServiceUnavailable)
	c.Read("/api/v1/plans/p")
}

func TestEventsNeedAKey(t *testing.T) {
	t.Parallel()
	secret, line := apitest.NewKey(t, "reader", httpd.ScopeRead)
	keys := apitest.Keys(t, line)
	c := serveWith(t, options{Server: func(c *apitest.Config) { c.HTTP.Keys = keys }})
	wantStatus(t, c.Get("/api/v1/events"), http.StatusUnauthorized)

	c.Key = secret
	s := c.open("/api/v1/events")
	c.Server.HTTP.SetKeys(keys)
	c.Server.Hub.End()                     // as the command does
	if types := s.ends(); len(types) > 0 { // it may not outlive its key
		t.Errorf("types = %q", types)
	}
}

// TestEventsHaveNoGap: a client reconnects often, to two servers, while transactions commit in
// any order. In the end it knows everything that is on record.
func TestEventsHaveNoGap(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	servers := []*client{serveWith(t, options{DB: db}), serveWith(t, options{DB: db})}
	const root, steps = "p", 4
	servers[0].Write(plan(root, state("RUNNING")), step(root, root, "s0"))

	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 { // through the servers
		writers.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				c, st := servers[r.IntN(2)], fmt.Sprint("s", r.IntN(steps))
				c.Write([]obj{
					cycle(root, st, r.IntN(5), obj{"thinkOutput": fmt.Sprint(w, n)}),
					tool(root, st, r.IntN(5), fmt.Sprint("c", r.IntN(5)), obj{"result": fmt.Sprint(w, n)}),
					step(root, root, st, obj{"result": fmt.Sprint(w, n)}),
					subPlan(root, fmt.Sprint("q", r.IntN(3)), root, "c1", obj{"summary": fmt.Sprint(w, n)}),
					plan(root, obj{"title": fmt.Sprint(w, n)}),
					wait(root, root, fmt.Sprint("w", r.IntN(2)), obj{"title": fmt.Sprint(w, n)}),
					plan(fmt.Sprint("other", r.IntN(3)), obj{"title": fmt.Sprint(w, n)}),
				}[r.IntN(7)])
			}
		})
	}

	for w := range 3 { // in transactions that take their number and linger, and may be rolled back
		writers.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(w)))
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}

				tx, err := db.Pool.Begin(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				_, err = tx.Exec(context.Background(),
					`WITH fed AS (INSERT INTO actlog.change (root_plan_id, kinds) VALUES ($1, '{thought}'))
					INSERT INTO actlog.thought (root_plan_id, plan_id, thought_id, content) VALUES ($1, $1, $2, $3)
					ON CONFLICT (root_plan_id, plan_id, thought_id) DO UPDATE SET content = excluded.content`, root, fmt.Sprint("t", w), fmt.Sprint(n))

				time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
				end := tx.Commit
				if r.IntN(3) == 0 {
					end = tx.Rollback
				}
				if err := errors.Join(err, end(context.Background())); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}

	r := rand.New(rand.NewPCG(3, 3))
	type follower struct {
		path string
		s    *stream
	}
	followers := []*follower{{path: events(root)}, {path: events("q0")}, {path: "/api/v1/events"}}
	servers[0].Write(subPlan(root, "q0", root, "c1"))

	reconnect := func(f *follower) {
		c, before := servers[r.IntN(2)], f.s
		if before == nil {
			f.s = c.open(f.path)
			return
		}

		before.close()
		if before.cursor == "" {
			f.s = c.open(f.path)
		} else {
			f.s = c.open(f.path, "Last-Event-ID", before.cursor)
		}
		f.s.rows, f.s.plans = before.rows, before.plans
		f.s.cursor = before.cursor
	}

	for range 35 { // times three
		for _, f := range followers {
			reconnect(f)
			for range r.IntN(4) { // events, perhaps of half a batch
				f.s.next()
			}
		}
	}

	for _, f := range followers { // one that is there when the last things happen, and one that is not
		if f != followers[1] {
			reconnect(f)
		}
	}

	close(stop)
	writers.Wait()
	servers[0].Write(thought(root, root, "last"))
	servers[1].Write(plan("last", state("RUNNING")))
	reconnect(followers[1])

	truth := servers[0].open(events(root))
	truth.until("everything", truth.has("thought[p p last]"))
	for _, f := range followers[:2] {
		f.s.until("the last thing", f.s.has("thought[p p last]"))
		if diff := cmp.Diff(truth.rows, f.s.rows); diff != "" {
			t.Errorf("%s (-on record +received):\n%s", f.path, diff)
		}
	}

	all, everything := followers[2].s, servers[1].open("/api/v1/events")
	everything.until("everything", func() bool { return everything.plans["last"] != nil })
	all.until("the last plan", func() bool { return all.plans["last"] != nil })

	for _, plans := range []map[string]obj{all.plans, everything.plans} {
		for _, p := range plans {
			delete(p, "kinds")
		}
	}
	if diff := cmp.Diff(everything.plans, all.plans); diff != "" {
		t.Errorf("all plans (-on record +received):\n%s", diff)
	}
}
