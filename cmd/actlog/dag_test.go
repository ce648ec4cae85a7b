package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// E6, E7, E9, E19: the programs as users have them. The worker of a graph is killed while two nodes run side by side;
// another one goes on with it, and asks for no node again that has completed. A WebSocket of the server tells all of
// it; one whose server stops is told to connect again.
func TestGraphWhoseWorkerIsKilled(t *testing.T) {
	t.Parallel()
	scene := func(system string, turn scriptmodel.Turn) scriptmodel.Scene {
		return scriptmodel.Scene{Name: system, Match: scriptmodel.Match{System: system}, Turns: []scriptmodel.Turn{turn}}
	}
	var contexts atomic.Int64
	begun, killed := make(chan struct{}, 4), make(chan struct{})
	slow := scriptmodel.Turn{Reply: func(ctx context.Context, _ *scriptmodel.Request) (scriptmodel.Turn, error) {
		begun <- struct{}{}
		select {
		case <-killed:
			return scriptmodel.Turn{Content: "found"}, nil
		case <-ctx.Done():
			return scriptmodel.Turn{}, ctx.Err()
		}
	}}

	h := newHouse(t, "  helper: {description: Helps}\n",
		scene("acyclic graph", scriptmodel.Turn{
			Content: `{"title":"Three","nodes":[{"id":"a","name":"A"},{"id":"b","name":"B","dependencies":["a"]},{"id":"c","name":"C","dependencies":["a"]}]}`,
		}),
		scene(`"A"`, scriptmodel.Turn{Reply: func(context.Context, *scriptmodel.Request) (scriptmodel.Turn, error) {
			contexts.Add(1)
			return scriptmodel.Turn{Content: "context"}, nil
		}}), scene("carry out", slow))
	server := h.serve(t, 0)
	work := []string{"work", "--database-url", h.database, "--config", h.config, "--workers", "1"}
	doomed := begin(t, work...)

	post := func(path, body string) (got struct{ PlanID, ExecutionID string }) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}

		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()

		raw, err := io.ReadAll(answer.Body)
		var ids struct {
			PlanID      string `json:"plan_id"`
			ExecutionID string `json:"execution_id"`
		}
		if err != nil || answer.StatusCode != http.StatusOK || json.Unmarshal(raw, &ids) != nil {
			t.Fatalf("POST %s: %d %s %v", path, answer.StatusCode, raw, err)
		}
		return struct{ PlanID, ExecutionID string }(ids)
	}

	plan := post("/api/plan", `{"prompt":"Go."}`).PlanID
	id := post("/api/execute", `{"plan_id":"`+plan+`"}`).ExecutionID
	socket := func(id string) *websocket.Conn {
		t.Helper()
		conn, _, err := websocket.Dial(t.Context(), strings.Replace(server.url, "http", "ws", 1)+"/ws/"+id, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.CloseNow() })
		return conn
	}
	watched, held := socket(id), socket(post("/api/execute", `{"plan_id":"`+plan+`"}`).ExecutionID)
	if _, raw, err := watched.Read(t.Context()); err != nil || !strings.Contains(string(raw), `"status":"starting"`) {
		t.Fatalf("raw = %s %v", raw, err)
	}

	post("/api/execute/"+id+"/start", "")
	<-begun
	<-begun
	if err := doomed.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	close(killed)
	begin(t, work...)

	seen, last := map[string]bool{}, ""
	for {
		_, raw, err := watched.Read(t.Context())
		if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
			break
		}
		if err != nil {
			t.Fatal(err)
		}

		var f struct {
			Status string
			States map[string]string `json:"node_states"`
		}
		if err := json.Unmarshal(raw, &f); err != nil {
			t.Fatal(err)
		}
		last = f.Status + " " + f.States["b"] + " " + f.States["c"]
		seen[last] = true
	}

	if last != "completed completed completed" || !seen["executing running running"] {
		t.Errorf("%v, at last %q", seen, last)
	}
	if n := contexts.Load(); n != 1 {
		t.Errorf("the first node was asked %d times", n)
	}
	if run := body(t, server.url+"/api/v1/runs/"+id); !strings.Contains(run, `"takeovers":1`) ||
		!strings.Contains(run, `"status":"completed"`) {
		t.Errorf("run = %v", run)
	}

	closed := make(chan error, 1)
	go func() {
		for {
			if _, _, err := held.Read(context.WithoutCancel(t.Context())); err != nil {
				closed <- err
				return
			}
		}
	}()
	if err := server.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	storetest.Until(t, "the WebSocket is closed", func() bool { return len(closed) == 1 })
	if err := <-closed; websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Error(err)
	}
}
