package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// watched collects output, so that a test can wait for a text in it.
type watched struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.String()
}

func (w *watched) await(t *testing.T, text string) {
	t.Helper()
	until(t, fmt.Sprintf("it prints %q", text), w, func() bool { return strings.Contains(w.String(), text) })
}

// startTail runs tail in the background.
func startTail(t *testing.T, args ...string) (out *watched, stop func(), code <-chan int) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop = func() { cancel(interruption{syscall.SIGINT}) }
	t.Cleanup(stop)
	ended := make(chan int, 1)
	out = new(watched)
	go func() { ended <- run(ctx, append([]string{"tail"}, args...), out, out) }()
	return out, stop, ended
}

func runningPlan(root string, more ...record.Change) []record.Change {
	return append([]record.Change{
		&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("Work"), State: new(record.Running)},
	}, more...)
}

func TestTail(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s, runningPlan("p",
		&record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: "s", AgentName: new("reader"), State: new(record.Running),
		})...)

	out, _, code := startTail(t, "p", "--server", url)
	out.await(t, "step s  reader  RUNNING")
	storetest.Write(t, s, &record.ActTool{
		RootPlanID: "p", StepID: "s", ToolCallID: "c", Name: new("grep\x1b[31m"), State: new(record.Running),
		Progress: json.RawMessage(`{"done":3,"total":10,"message":"main.go\u001b[2J"}`),
	})
	out.await(t, "tool c  grep [31m  RUNNING  3/10 main.go [2J")
	storetest.Write(t, s, &record.ActTool{
		RootPlanID: "p", StepID: "s", ToolCallID: "c", Name: new("grep\x1b[31m"), State: new(record.Failed),
		ErrorMessage: new("no such file"),
	})
	out.await(t, "tool c  grep [31m  FAILED  no such file")

	storetest.Write(t, s, &record.Plan{RootPlanID: "p", CurrentPlanID: "p", State: new(record.Failed)})
	if got := <-code; got != exitDone {
		t.Errorf("exit code %d", got)
	}
	if printed := out.String(); !strings.Contains(printed, "plan p  Work  FAILED") ||
		strings.Count(printed, "step s  reader  RUNNING\n") != 1 {
		t.Errorf("tail printed\n%s", printed)
	}

	// tail prints all of a plan that has ended, and exits.
	if printed := must(t, "tail", "p", "--server", url); !strings.Contains(printed, "plan p  Work  FAILED") {
		t.Errorf("tail printed\n%s", printed)
	}
}

func TestTailJSON(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s, fullRun()...)

	var events []string
	for line := range strings.Lines(must(t, "tail", "plan-1", "--json", "--server", url)) {
		var e struct {
			ID, Event string
			Data      struct{ Rows []struct{ Kind string } }
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Event == "rows" && len(e.Data.Rows) == 0 {
			t.Errorf("%v: %s", err, line)
		}
		events = append(events, e.Event)
	}

	if got := strings.Join(events, " "); got != "rows done" {
		t.Errorf("events: %s", got)
	}
}

func TestTailAllPlans(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s, runningPlan("p")...)

	out, stop, code := startTail(t, "--server", url)
	out.await(t, "  p  RUNNING")
	storetest.Write(t, s, runningPlan("q")...)
	out.await(t, "  q  RUNNING")
	storetest.Write(t, s, &record.Plan{
		RootPlanID: "q", CurrentPlanID: "q", State: new(record.Failed), ErrorKind: new("timeout"),
	})
	out.await(t, "  q  FAILED  timeout")

	stop()
	if got := <-code; got != 130 { // N5
		t.Errorf("exit code %d", got)
	}
}

func TestTailFails(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	if code, _, stderr := actlog(t, "tail", "p", "--server", url); code != exitFailed ||
		!strings.Contains(stderr, "plan p is not on record") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if code, _, stderr := actlog(t, "tail", "--server", "http://127.0.0.1:1"); code != exitFailed ||
		!strings.Contains(stderr, "no answer") {
		t.Errorf("exit code %d: %s", code, stderr)
	}

	storetest.Write(t, s, runningPlan("p")...)
	out, _, code := startTail(t, "p", "--server", url)
	out.await(t, "plan p  Work  RUNNING")
	if err := s.DeletePlan(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if got := <-code; got != exitFailed || !strings.Contains(out.String(), "plan p was deleted") {
		t.Errorf("exit code %d: %s", got, out)
	}
}

// breaking ends a stream after its first event.
type breaking struct {
	http.ResponseWriter
	stop context.CancelFunc
}

func (b *breaking) Unwrap() http.ResponseWriter { return b.ResponseWriter }

func (b *breaking) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("event: ")) {
		defer b.stop()
	}
	return b.ResponseWriter.Write(p)
}

// TestTailResumes breaks streams. tail must continue where the last one broke.
func TestTailResumes(t *testing.T) {
	t.Parallel()
	var streams, resumed atomic.Int64
	url, s := serve(t, apitest.Config{}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/events") {
				if r.URL.Query().Get("after") != "" {
					resumed.Add(1)
				}
				if n := streams.Add(1); n == 2 {
					http.Error(w, "away", http.StatusServiceUnavailable)
					return
				} else if n < 5 {
					ctx, cancel := context.WithCancel(r.Context())
					defer cancel()
					w, r = &breaking{w, cancel}, r.WithContext(ctx)
				}
			}
			h.ServeHTTP(w, r)
		})
	})

	storetest.Write(t, s, runningPlan("p")...)
	out, _, code := startTail(t, "p", "--server", url)
	out.await(t, "plan p  Work  RUNNING")
	for _, title := range []string{"One", "Two", "Three"} {
		storetest.Write(t, s, &record.Plan{RootPlanID: "p", CurrentPlanID: "p", Title: &title})
		out.await(t, "plan p  "+title+"  RUNNING")
	}

	storetest.Write(t, s, &record.Plan{RootPlanID: "p", CurrentPlanID: "p", State: new(record.Completed)})
	if got := <-code; got != exitDone || streams.Load() < 5 || resumed.Load() < 4 {
		t.Errorf("exit code %d after %d streams, %d of them resumed:\n%s", got, streams.Load(), resumed.Load(), out)
	}
}

func TestDrawingFitsTheScreen(t *testing.T) {
	t.Parallel()
	if got := bottom("a\nb\nc\n", 2); got != "b\nc\n" {
		t.Errorf("bottom = %q", got)
	}
	if got := bottom("a\n", 5); got != "a\n" {
		t.Errorf("bottom = %q", got)
	}

	var out bytes.Buffer
	d := &drawing{w: &out}
	p := &planView{CurrentPlanID: "p", State: "RUNNING"}
	d.draw(p, false)
	d.draw(p, false) // the same tree: nothing to draw
	for range 30 {
		p.AgentExecutionSequence = append(p.AgentExecutionSequence, &stepView{StepID: "s"})
	}

	d.draw(p, false)
	if n := strings.Count(out.String(), "\n"); n != 1+23 || d.lines != 23 {
		t.Errorf("%d lines, the cursor moves up %d:\n%s", n, d.lines, &out)
	}
	out.Reset()
	d.draw(p, true)
	if n := strings.Count(out.String(), "\n"); n != 31 {
		t.Errorf("%d lines in the last drawing:\n%s", n, &out)
	}
}
