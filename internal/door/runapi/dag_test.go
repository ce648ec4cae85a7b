package runapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor"
	"github.com/actlog/actlog/internal/runtime/executor/dag"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// drafter starts runs of an engine, and knows its models.
type drafter struct {
	*engine.Engine
	parts *enginetest.Parts
	runapi.Catalog
}

func (d drafter) Startables() []engine.Startable { return executor.Startables(d.parts) }

func (d drafter) Models() []engine.ModelInfo { return engine.Models(d.parts) }

// graphs serves graphs with a worker, whose planner answers with a text. Nodes are called by their names.
func graphs(t *testing.T, answer string, options apitest.Options, scenes ...scriptmodel.Scene) *client {
	t.Helper()
	all := append([]scriptmodel.Scene{
		{Name: "plan", Match: scriptmodel.Match{System: "acyclic graph"}, Turns: []scriptmodel.Turn{{Content: answer}}},
	}, scenes...)
	all = append(all, scriptmodel.Scene{
		Name: "node", Match: scriptmodel.Match{System: "carry out"}, Turns: []scriptmodel.Turn{{Content: " done "}},
	})

	h := enginetest.Build(t, enginetest.Plans{Scenes: all, Executors: []engine.Executor{dag.Executor{}}})
	h.Work(h.Engine)
	d := drafter{Engine: h.Engine, parts: h.Parts}
	options.DB, options.Runtime = h.DB, func(*runstore.Store) (runapi.Starter, runapi.Catalog) { return d, d }
	return &client{apitest.ServeWith(t, options)}
}

// node is the scene of a node.
func node(name string, turn scriptmodel.Turn) scriptmodel.Scene {
	return scriptmodel.Scene{
		Name: name, Match: scriptmodel.Match{System: `"` + name + `"`}, Turns: []scriptmodel.Turn{turn},
	}
}

const twoNodes = `{"title":"Two","nodes":[{"id":"a","name":"A","description":"Do A."},{"id":"b","name":"B","description":"Do B.","dependencies":["a"],"input_description":"A."}]}`

// draft plans a graph and returns its plan.
func (c *client) draft() string {
	c.T.Helper()
	a := c.post("/api/plan", obj{"prompt": "Go."})
	wantStatus(c.T, a, http.StatusOK)
	return wantUUID(c.T, a.JSON(c.T).(obj)["plan_id"].(string))
}

// X5: ids of graphs and executions are UUIDs, and nothing else.
func wantUUID(t testing.TB, id string) string {
	t.Helper()
	if read, err := uuid.Parse(id); err != nil || read.String() != id {
		t.Errorf("the id %q is no UUID: %v", id, err)
	}
	return id
}

// prepared prepares an execution of a graph.
func (c *client) prepared(planID string) string {
	c.T.Helper()
	a := c.post("/api/execute", obj{"plan_id": planID})
	wantStatus(c.T, a, http.StatusOK)
	expect(c.T, a.JSON(c.T), obj{"plan_id": planID, "status": "starting"})
	return wantUUID(c.T, a.JSON(c.T).(obj)["execution_id"].(string))
}

// frame is what a WebSocket is told.
type frame struct {
	Status string
	States map[string]string `json:"node_states"`
	Logs   []string
}

// socket opens a WebSocket of an execution.
func (c *client) socket(id string, o *websocket.DialOptions) (*websocket.Conn, *http.Response, error) {
	c.T.Helper()
	if o == nil {
		o = &websocket.DialOptions{}
	}
	if c.Key != "" {
		o.HTTPHeader = http.Header{"Authorization": {"Bearer " + c.Key}}
	}

	conn, answer, err := websocket.Dial(c.T.Context(), strings.Replace(c.Base, "http", "ws", 1)+"/ws/"+id, o)
	if err == nil {
		c.T.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, answer, err
}

func (c *client) opened(id string) *websocket.Conn {
	c.T.Helper()
	conn, _, err := c.socket(id, nil)
	if err != nil {
		c.T.Fatal(err)
	}
	return conn
}

// frames returns the frames of a WebSocket up to one that is wanted, or all if it is closed.
func (c *client) frames(conn *websocket.Conn, wanted func(frame) bool) (all []frame, closed error) {
	c.T.Helper()
	for {
		_, raw, err := conn.Read(c.T.Context())
		if err != nil {
			return all, err
		}

		var f frame
		if err := json.Unmarshal(raw, &f); err != nil {
			c.T.Fatal(err)
		}
		if all = append(all, f); wanted(f) {
			return all, nil
		}
	}
}

func never(frame) bool { return false }

// ended follows an execution to its end.
func (c *client) ended(id string) (last frame) {
	c.T.Helper()
	all, err := c.frames(c.opened(id), never)
	if websocket.CloseStatus(err) != websocket.StatusNormalClosure || len(all) == 0 {
		c.T.Fatalf("%v after %d frames", err, len(all))
	}
	return all[len(all)-1]
}

// E1, E5, E6, E7, E15, E17, E18, E20, E21, E22: a graph is planned, stored, prepared, started once, followed to its
// end, and read: info, result, document, lists. The states go draft, starting, executing, completed.
func TestGraphs(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan struct{}), make(chan struct{})
	c := graphs(t, twoNodes, apitest.Options{},
		node("A", scriptmodel.Turn{Reply: func(ctx context.Context, _ *scriptmodel.Request) (scriptmodel.Turn, error) {
			select {
			case begun <- struct{}{}:
				<-goOn
			case <-goOn:
			}
			return scriptmodel.Turn{Content: "found"}, nil
		}}))

	a := c.post("/api/plan", obj{"prompt": "Go."})
	wantStatus(t, a, http.StatusOK)
	plan := a.JSON(t)

	want := obj{
		"user_prompt": "Go.", "title": "Two", "status": "draft", "nodes.#": 2, "edges": []any{obj{"from": "a", "to": "b"}},
		"nodes.1": obj{
			"id": "b", "name": "B", "description": "Do B.", "provider": "default", "model": "scripted",
			"input_description": "A.", "output_description": "", "dependencies": []any{"a"}, "status": "pending",
		},
	}
	expect(t, plan, want)
	planID := plan.(obj)["plan_id"].(string)
	expect(t, c.Read("/api/plan/"+planID), want)
	expect(t, c.run(planID), below("result.", want))

	id := c.prepared(planID)
	info := "/api/execution/" + id + "/status"
	expect(t, c.Read(info), obj{
		"execution_id": id, "plan_id": planID, "status": "starting", "completed_at": nil,
		"node_states": obj{"a": "pending", "b": "pending"}, "logs": []any{},
	})
	expect(t, c.Read("/api/plan/"+planID), obj{"status": "draft"})

	wantStatus(t, c.post("/api/execute/"+id+"/start", ""), http.StatusOK)
	<-begun
	expect(t, c.Read(info), obj{
		"status": "executing", "node_states": obj{"a": "running", "b": "pending"},
		"logs.0": "Starting execution of plan " + planID, "logs.2": "Starting node a: A",
	})
	expect(t, c.Read("/api/plan/"+planID), obj{"status": "executing", "nodes.0.status": "running"})
	expect(t, c.Read("/api/execution/"+id+"/result"), obj{
		"status": "executing", "node_results.0.status": "running", "node_results.0.result": "",
		"node_results.0.execution_time": nil,
	})

	wantProblem(t, c.post("/api/execute/"+id+"/start", ""), http.StatusConflict, nil)
	close(goOn)
	if f := c.ended(id); f.Status != "completed" || f.States["b"] != "completed" {
		t.Errorf("c.ended(id) = %+v", f)
	}

	wantProblem(t, c.post("/api/execute/"+id+"/start", ""), http.StatusConflict, nil)
	expect(t, c.Read(info), obj{
		"status": "completed", "node_states": obj{"a": "completed", "b": "completed"}, "logs.#": 8,
	})
	expect(t, c.Read("/api/plan/"+planID), obj{"status": "completed", "nodes.0.status": "completed"})
	expect(t, c.Read("/api/execution/"+id+"/result"), obj{
		"execution_id": id, "plan_id": planID, "status": "completed", "error": nil, "node_results.0.node_id": "a",
		"node_results.0.name":   "A",
		"node_results.0.result": "found", "node_results.0.status": "completed", "node_results.1.result": "done",
		"execution_logs.#": 8,
	})

	document := c.Read("/api/execution/" + id + "/load").(obj)
	expect(t, document, obj{
		"execution_id": id, "plan_id": planID, "user_prompt": "Go.", "title": "Two", "status": "completed",
		"node_results": obj{"a": "found", "b": "done"}, "execution_logs.#": 8,
		"nodes.1.id": "b", "nodes.1.status": "completed", "nodes.1.result": "done", "nodes.1.error": nil,
		"nodes.1.dependencies": []any{"a"}, "nodes.1.input_description": "A.",
	})
	if seconds, ok := document["nodes"].([]any)[0].(obj)["execution_time"].(float64); !ok || seconds <= 0 {
		t.Errorf("execution_time is %v", document["nodes"])
	}
	expect(t, c.run(id), obj{
		"state": "COMPLETED", "name": planID, "result.status": "completed",
		"result.node_results": obj{"a": "found", "b": "done"}, "result.execution_logs.#": 8,
	})

	again := c.prepared(planID)
	expect(t, c.Read("/api/plan/"+planID), obj{"status": "completed"}) // until that one is started
	var stuck int                                                      // or silent
	if err := c.DB.Pool.QueryRow(t.Context(),
		"SELECT count(*) FROM report.running AS r JOIN report.run AS h USING (root_plan_id) WHERE r.root_plan_id = $1 "+
			"AND h.desired <> 'PAUSE'", again).Scan(&stuck); err != nil || stuck > 0 {
		t.Errorf("what was not started yet counts as stuck: %d, %v", stuck, err)
	}

	open, err := c.Runs.OpenRuns(t.Context())
	if want := []runstore.OpenCount{{Executor: "dag", State: record.Paused, Runs: 1}}; err != nil ||
		!cmp.Equal(want, open) {
		t.Errorf("open runs: %+v, %v", open, err)
	}

	expect(t, c.Read("/api/executions"), obj{
		"executions.#": 2, "executions.0.execution_id": again, "executions.0.status": "starting",
		"executions.1.execution_id": id, "executions.1.plan_id": planID, "executions.1.status": "completed",
		"executions.1.title": "Two",
	})
	expect(t, c.Read("/api/providers"), obj{
		"providers": []any{"default", "scripted"}, "default_models": obj{"default": "scripted", "scripted": "scripted"},
		"models": obj{"default": []any{"scripted"}, "scripted": []any{"scripted"}},
	})
}

// below returns expectations below a member.
func below(prefix string, of obj) obj {
	out := obj{}
	for path, value := range of {
		out[prefix+path] = value
	}
	return out
}

// E13, E14, E15, E17: a node that failed, and one that is blocked, which stays pending; the execution failed. So does
// one that is stopped. An execution that failed can be executed again.
func TestFailedExecution(t *testing.T) {
	t.Parallel()
	c := graphs(t, twoNodes, apitest.Options{}, node("A", scriptmodel.Turn{
		Error: &scriptmodel.Failure{Status: 400, Message: "no"},
	}))

	planID := c.draft()
	id := c.prepared(planID)
	wantStatus(t, c.post("/api/execute/"+id+"/start", obj{}), http.StatusOK)
	f := c.ended(id)
	if diff := cmp.Diff(map[string]string{"a": "failed", "b": "pending"}, f.States); diff != "" || f.Status != "failed" {
		t.Errorf("f.Status = %v, %v", f.Status, diff)
	}

	expect(t, c.Read("/api/execution/"+id+"/load"), obj{
		"status": "failed", "node_results": obj{"a": "", "b": ""}, "nodes.1.status": "pending", "nodes.1.error": nil,
		"nodes.1.result": nil,
	})
	if text, _ := apitest.Lookup(
		t, c.Read("/api/execution/"+id+"/result"), "node_results.0.error",
	).(string); !strings.HasPrefix(text, "The model failed: ") {
		t.Errorf("text = %q", text)
	}
	expect(t, c.run(id), obj{"state": "FAILED", "result.status": "failed", "result.node_results": obj{"a": "", "b": ""}})

	stopped := c.prepared(planID)
	wantStatus(t, c.post("/api/v1/runs/"+stopped+"/stop", ""), http.StatusAccepted)
	if f := c.ended(stopped); f.Status != "failed" {
		t.Errorf("c.ended(stopped) = %+v", f)
	}
	expect(t, c.run(stopped), obj{"state": "CANCELLED", "result.status": "failed"})
	wantProblem(t, c.post("/api/execute/"+stopped+"/start", ""), http.StatusConflict, nil)
}

// E17, E19: an execution that is stopped while nodes run, side by side: all that had begun failed, and so says the
// last frame.
func TestStoppedExecution(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 2)
	waits := scriptmodel.Turn{Reply: func(ctx context.Context, _ *scriptmodel.Request) (scriptmodel.Turn, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return scriptmodel.Turn{}, ctx.Err()
	}}
	c := graphs(
		t, `{"title":"Two","nodes":[{"id":"a","name":"A"},{"id":"b","name":"B"},{"id":"c","dependencies":["a"]}]}`,
		apitest.Options{}, node("A", waits), node("B", waits),
	)

	id := c.prepared(c.draft())
	wantStatus(t, c.post("/api/execute/"+id+"/start", ""), http.StatusOK)
	<-begun
	<-begun

	wantStatus(t, c.post("/api/v1/runs/"+id+"/stop", ""), http.StatusAccepted)
	f := c.ended(id)
	if diff := cmp.Diff(map[string]string{"a": "failed", "b": "failed", "c": "pending"}, f.States); diff != "" ||
		f.Status != "failed" {
		t.Errorf("f.Status = %v, %v", f.Status, diff)
	}
}

// E2, E3, E6, E7, E8: what cannot be planned, executed or read is answered so, in the source's words.
func TestGraphErrors(t *testing.T) {
	t.Parallel()
	c := graphs(t, `{"nodes":[{"id":"a","provider":"moon"}]}`, apitest.Options{})

	a := c.post("/api/plan", obj{"prompt": "Go."})
	wantProblem(t, a, http.StatusInternalServerError, nil)
	expect(t, a.JSON(t), obj{
		"detail": "Planning failed: Node a uses unavailable provider 'moon'. Available: default, scripted",
	})
	failed := a.Header.Get("Actlog-Plan-Id")

	for _, row := range []struct {
		path   string
		body   any
		status int
		field  any
	}{
		{"/api/plan", obj{}, http.StatusUnprocessableEntity, "prompt"},
		{"/api/plan", obj{"prompt": 7}, http.StatusUnprocessableEntity, "prompt"},
		{"/api/plan", obj{"prompt": "x", "nodes": []any{}}, http.StatusUnprocessableEntity, "nodes"},
		{"/api/plan", obj{"prompt": "x", "provider": "moon"}, http.StatusUnprocessableEntity, "provider"},
		{"/api/plan", "[", http.StatusBadRequest, nil},
		{"/api/execute", obj{}, http.StatusUnprocessableEntity, "plan_id"},
		{"/api/execute", obj{"plan_id": "none"}, http.StatusNotFound, nil},
		{"/api/execute", obj{"plan_id": failed}, http.StatusNotFound, nil},
		{"/api/execute/none/start", obj{}, http.StatusNotFound, nil},
		{"/api/execute/" + failed + "/start", obj{}, http.StatusNotFound, nil},
		{
			"/api/v1/runs", obj{"executor": "dag", "input": obj{"plan_id": "none"}}, http.StatusUnprocessableEntity,
			"input.plan_id",
		},
	} {
		wantProblem(t, c.post(row.path, row.body), row.status, row.field)
	}

	for _, path := range []string{
		"/api/plan/none", "/api/plan/" + failed, "/api/execution/none/status", "/api/execution/none/result",
		"/api/execution/none/load", "/api/execution/" + failed + "/load",
	} {
		wantProblem(t, c.Get(path), http.StatusNotFound, nil)
	}
	expect(t, c.Read("/api/executions"), obj{"executions.#": 0})
}

// E2: a planner that does not answer with JSON is 500, with the details.
func TestPlannerWithoutJSON(t *testing.T) {
	t.Parallel()
	a := graphs(t, "Sure!", apitest.Options{}).post("/api/plan", obj{"prompt": "Go."})
	wantProblem(t, a, http.StatusInternalServerError, nil)
	expect(t, a.JSON(t), obj{
		"detail": "Failed to parse planner response as JSON: invalid character 'S' looking for beginning of value",
	})
}

// E6: the same request with the same key is the same execution. A run that plans and carries out its graph at once is
// an execution, too, and its graph is stored.
func TestGraphIsRepeated(t *testing.T) {
	t.Parallel()
	c := graphs(t, twoNodes, apitest.Options{})
	planID := c.draft()
	first := c.post("/api/execute", obj{"plan_id": planID}, "Idempotency-Key", "k").JSON(t)
	expect(t, c.post("/api/execute", obj{"plan_id": planID}, "Idempotency-Key", "k").JSON(t), first.(obj))
	wantProblem(t, c.post("/api/execute", obj{"plan_id": planID, "scheduling": "eager"}, "Idempotency-Key", "k"),
		http.StatusUnprocessableEntity, "Idempotency-Key")

	a := c.post("/api/v1/runs", obj{"executor": "dag", "input": obj{"prompt": "Go."}}, "Prefer", "wait=60")
	wantStatus(t, a, http.StatusOK)
	id := a.JSON(t).(obj)["planId"].(string)
	expect(t, c.Read("/api/execution/"+id+"/status"), obj{"status": "completed", "plan_id": id})
	expect(t, c.Read("/api/plan/"+id), obj{"status": "completed", "title": "Two"})

	again := c.prepared(id)
	wantStatus(t, c.post("/api/execute/"+again+"/start", ""), http.StatusOK)
	c.ended(again)
}

// E19: a frame whenever something changed and at each beat; the last ten lines of the log; a last frame, and a close.
func TestSocket(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	c := graphs(t, twoNodes, apitest.Options{Server: func(c *apitest.Config) {
		c.Runs.SocketBeat = 10 * time.Millisecond
	}}, node("A", scriptmodel.Turn{Reply: func(context.Context, *scriptmodel.Request) (scriptmodel.Turn, error) {
		<-goOn
		return scriptmodel.Turn{Content: "found"}, nil
	}}))

	id := c.prepared(c.draft())
	first, second := c.opened(id), c.opened(id)
	count := 0
	held, err := c.frames(first, func(frame) bool { count++; return count == 5 })
	if diff := cmp.Diff(frame{"starting", map[string]string{"a": "pending", "b": "pending"}, []string{}},
		held[4]); diff != "" || err != nil {
		t.Error(diff, err)
	}

	wantStatus(t, c.post("/api/execute/"+id+"/start", ""), http.StatusOK)
	for _, conn := range []*websocket.Conn{first, second} {
		if _, err := c.frames(conn, func(f frame) bool {
			return f.Status == "executing" && f.States["a"] == "running"
		}); err != nil {
			t.Fatal(err)
		}
	}

	close(goOn)
	for _, conn := range []*websocket.Conn{first, second} {
		all, err := c.frames(conn, never)
		if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Fatal(err)
		}
		if last := all[len(all)-1]; last.Status != "completed" || last.States["b"] != "completed" || len(last.Logs) != 8 ||
			last.Logs[7] != "Execution completed. Status: completed" {
			t.Errorf("last = %+v", last)
		}
	}

	if f := c.ended(id); f.Status != "completed" { // one that comes late gets the last frame
		t.Errorf("c.ended(id) = %+v", f)
	}
}

// E19: without a change there is a frame a second, and with one at once: with a beat of an hour, the end is told all
// the same.
func TestSocketTellsChanges(t *testing.T) {
	t.Parallel()
	c := graphs(t, twoNodes, apitest.Options{Server: func(c *apitest.Config) { c.Runs.SocketBeat = time.Hour }})
	id := c.prepared(c.draft())
	conn := c.opened(id)
	if _, err := c.frames(conn, func(frame) bool { return true }); err != nil {
		t.Fatal(err)
	}

	wantStatus(t, c.post("/api/execute/"+id+"/start", ""), http.StatusOK)
	all, err := c.frames(conn, never)
	if websocket.CloseStatus(err) != websocket.StatusNormalClosure || all[len(all)-1].Status != "completed" {
		t.Errorf("c.frames(conn, never) = %v %+v", err, all)
	}
}

// E19: who may open a WebSocket: keys count as for other routes, a web page must be of the server's own origin.
func TestSocketIsGuarded(t *testing.T) {
	t.Parallel()
	reader, readerLine := apitest.NewKey(t, "reader", "read")
	writer, writerLine := apitest.NewKey(t, "writer", "write")
	runner, runnerLine := apitest.NewKey(t, "runner", "run")
	c := graphs(t, twoNodes, apitest.Options{Server: func(c *apitest.Config) {
		c.HTTP.Keys = apitest.Keys(t, readerLine, writerLine, runnerLine)
	}})

	as := func(key string) *client { return &client{c.As(key)} }
	id := as(runner).prepared(as(runner).draft())
	origin := func(value string) *websocket.DialOptions {
		return &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + reader}, "Origin": {value}}}
	}
	host := strings.TrimPrefix(c.Base, "http://")

	for name, row := range map[string]struct {
		key    string
		id     string
		o      *websocket.DialOptions
		status int
	}{
		"reader":         {reader, id, nil, http.StatusSwitchingProtocols},
		"no key":         {"", id, nil, http.StatusUnauthorized},
		"writer":         {writer, id, nil, http.StatusForbidden},
		"unknown":        {reader, "none", nil, http.StatusNotFound},
		"own origin":     {"", id, origin("http://" + host), http.StatusSwitchingProtocols},
		"foreign origin": {"", id, origin("http://evil.example"), http.StatusForbidden},
		"no origin":      {"", id, origin("null"), http.StatusForbidden},
		"other port":     {"", id, origin("http://127.0.0.1:1"), http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, answer, _ := (&client{as(row.key).For(t)}).socket(row.id, row.o)
			if answer == nil || answer.StatusCode != row.status {
				t.Errorf("answer = %+v", answer)
			}
		})
	}

	wantProblem(t, as(reader).Get("/ws/"+id), http.StatusUpgradeRequired, nil)
}

// E19: a client that does not read is cut. Frames are not queued for it: a new one replaces the one before.
func TestStalledSocketIsCut(t *testing.T) {
	t.Parallel()
	nodes := make([]string, 200)
	for i := range nodes {
		nodes[i] = fmt.Sprintf(`{"id":"%0100d"}`, i)
	}
	log := new(apitest.Log)
	c := graphs(t, `{"title":"Many","nodes":[`+strings.Join(nodes, ",")+`]}`,
		apitest.Options{Log: log, Server: func(c *apitest.Config) {
			c.Runs.SocketBeat, c.Runs.SocketPatience = time.Millisecond, 50*time.Millisecond
		}})

	conn := c.opened(c.prepared(c.draft()))
	if _, err := c.frames(conn, func(frame) bool { return true }); err != nil {
		t.Fatal(err)
	}
	storetest.Until(t, "the client is cut", func() bool { // a request is logged when it is over
		return len(log.Lines("route=/ws/:executionId", "status=101")) == 1
	})
}

// E1: while no worker lives that can plan, the client is told so after a while, and what becomes of the run: without
// an Idempotency-Key it is stopped, with one it goes on when a worker lives, and the same request gets its graph. A
// client that goes away before the run began leaves none behind.
func TestPlanWithoutWorker(t *testing.T) {
	t.Parallel()
	h := enginetest.Build(t, enginetest.Plans{
		Scenes:    []scriptmodel.Scene{{Name: "plan", Turns: []scriptmodel.Turn{{Content: twoNodes}}}},
		Executors: []engine.Executor{dag.Executor{}},
	})
	d := drafter{Engine: h.Engine, parts: h.Parts}
	patience := func(c *apitest.Config) { c.Runs.PlanPatience = 400 * time.Millisecond }
	c := &client{apitest.ServeWith(t,
		apitest.Options{DB: h.DB, Server: patience, Runtime: func(*runstore.Store) (runapi.Starter, runapi.Catalog) {
			return d, d
		}})}

	body := obj{"prompt": "Go."}
	refused := func(stays string, header ...string) string {
		a := c.post("/api/plan", body, header...)
		wantProblem(t, a, http.StatusServiceUnavailable, nil)
		detail, _ := apitest.Lookup(t, a.JSON(t), "detail").(string)
		if a.Header.Get("Retry-After") != "10" ||
			!strings.HasPrefix(detail, "No worker can carry the run. It needs: executor:dag, model:default.") ||
			!strings.Contains(detail, stays) {
			t.Errorf("a.Header = %v %s", a.Header, a.Body)
		}
		return a.Header.Get("Actlog-Plan-Id")
	}
	stopped, kept := refused("The run was stopped"), refused("begins when one lives", "Idempotency-Key", "k")

	ctx, leave := context.WithTimeout(t.Context(), 20*time.Second)
	go func() {
		storetest.Until(t, "the third run is there", func() bool {
			var n int
			return h.DB.Pool.QueryRow(t.Context(), "SELECT count(*) FROM actlog.run").Scan(&n) == nil && n == 3
		})
		leave()
	}()
	r := c.Request(ctx, http.MethodPost, "/api/plan", strings.NewReader(`{"prompt":"Go away."}`))
	r.Header.Set("Content-Type", "application/json")
	if answer, err := http.DefaultClient.Do(r); err == nil {
		_ = answer.Body.Close()
		t.Errorf("answer.Status = %s", answer.Status)
	}

	var left string
	storetest.Until(t, "the run of the client that left is to stop", func() bool {
		return h.DB.Pool.QueryRow(t.Context(), "SELECT plan_id FROM actlog.run WHERE desired = 'CANCEL' AND plan_id <> $1",
			stopped).Scan(&left) == nil
	})

	h.Work(h.Engine)
	a := c.post("/api/plan", body, "Idempotency-Key", "k")
	wantStatus(t, a, http.StatusOK)
	expect(t, a.JSON(t), obj{"plan_id": kept, "status": "draft"})

	for _, id := range []string{stopped, left} {
		c.until(id, "CANCELLED")
	}
	if n := len(h.Model.Requests()); n != 1 {
		t.Errorf("%d model calls", n)
	}
}
