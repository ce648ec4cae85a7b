package runapi_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/record"
)

// listener reads a stream of what happens in a run. What it heard is an id, a name and the step of each event.
type listener struct {
	t      *testing.T
	answer *http.Response
	lines  *bufio.Scanner
	lastID string
}

func (c *client) listen(t *testing.T, id, level, last string) *listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)

	r := c.Request(ctx, http.MethodGet, "/api/v1/runs/"+id+"/listen?level="+level, nil)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })

	l := &listener{t, answer, bufio.NewScanner(answer.Body), last}
	l.lines.Buffer(nil, 10<<20)
	return l
}

// hears reads so many events; fewer, if the stream ends.
func (l *listener) hears(n int) (heard []string) {
	l.t.Helper()
	name := ""
	for len(heard) < n && l.lines.Scan() {
		if value, ok := strings.CutPrefix(l.lines.Text(), "event: "); ok {
			name = value
		}
		if value, ok := strings.CutPrefix(l.lines.Text(), "id: "); ok {
			l.lastID = value
		}
		if data, ok := strings.CutPrefix(l.lines.Text(), "data: "); ok {
			_, step, _ := strings.Cut(data, `"stepId":"`)
			step, _, _ = strings.Cut(step, `"`)
			if name == "onExecutionCompleted" {
				step = ""
			}
			heard = append(heard, strings.TrimSpace(name+" "+step))
		}
	}
	return heard
}

// wantHeard checks what a listener hears next.
func (l *listener) wantHeard(want ...string) {
	l.t.Helper()
	if diff := cmp.Diff(want, l.hears(len(want))); diff != "" {
		l.t.Fatalf("(-want +heard):\n%s", diff)
	}
}

// stepChanges are the changes that begin a step, and those that end it, with a thought and a source.
func stepChanges(l runstore.Lease, step string, index int64) (begin, end []record.Change) {
	id := l.PlanID
	return []record.Change{
			&record.AgentExecution{
				RootPlanID: id, PlanID: id, StepID: step, StepIndex: &index, AgentName: new("GIT"), State: new(record.Running),
				StartTime: new(time.Now()),
			},
		},
		[]record.Change{
			&record.Thought{
				RootPlanID: id, PlanID: id, ThoughtID: "t" + step, StepID: &step, Type: new(record.ThoughtDecision),
				Content: new("why"), Time: new(time.Now()),
			},
			&record.Source{
				RootPlanID: id, PlanID: id, SourceID: "f" + step, StepID: &step, URI: new("file:///a.go"),
				Type: new(record.SourceFile),
			},
			&record.AgentExecution{
				RootPlanID: id, PlanID: id, StepID: step, State: new(record.Completed), EndTime: new(time.Now()),
			},
		}
}

// C23: listeners of a run that goes on are told what happens when it happens, each by its level. One that joins in
// the middle is told from the beginning, and one that comes back what it has not heard, and no more.
func TestListenWhileItRuns(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	l := c.claimed()
	id := l.PlanID

	begin1, end1 := stepChanges(l, "s1", 0)
	begin2, end2 := stepChanges(l, "s2", 1)
	begin3, end3 := stepChanges(l, "s3", 2)
	minimal := c.listen(t, id, "MINIMAL", "")
	standard := c.listen(t, id, "STANDARD", "")
	verbose := c.listen(t, id, "VERBOSE", "")

	c.work(l, begin1)
	for _, each := range []*listener{minimal, standard, verbose} {
		each.wantHeard("onStepStarted s1") // before the step ends
	}

	c.work(l, end1)
	minimal.wantHeard("onStepCompleted s1")
	standard.wantHeard("onSourcesDiscovered s1", "onStepCompleted s1")
	verbose.wantHeard("onReasoningCaptured s1", "onSourcesDiscovered s1", "onStepCompleted s1")

	c.work(l, begin3) // steps that run side by side may begin in any order
	verbose.wantHeard("onStepStarted s3")
	c.work(l, append(begin2, end2[0]))
	verbose.wantHeard("onStepStarted s2", "onReasoningCaptured s2")
	if verbose.lastID != "1.2r.2s.3s" {
		t.Errorf("the id is %q", verbose.lastID)
	}

	c.listen(t, id, "VERBOSE", "").wantHeard("onStepStarted s1", "onReasoningCaptured s1", "onSourcesDiscovered s1",
		"onStepCompleted s1", "onStepStarted s2", "onReasoningCaptured s2", "onStepStarted s3")
	back := c.listen(t, id, "VERBOSE", verbose.lastID)
	c.work(l, end3)
	back.wantHeard("onReasoningCaptured s3", "onSourcesDiscovered s3", "onStepCompleted s3")

	c.work(l, end2)
	back.wantHeard("onSourcesDiscovered s2", "onStepCompleted s2")
	if back.lastID != "1-3" {
		t.Errorf("the id is %q", back.lastID)
	}

	c.end(l, record.Plan{State: new(record.Completed)})
	back.wantHeard("onExecutionCompleted")
	for want, each := range map[string]*listener{
		"onExecutionCompleted onStepCompleted s2 onStepCompleted s3 onStepStarted s2 onStepStarted s3": minimal,
		"onExecutionCompleted onSourcesDiscovered s2 onSourcesDiscovered s3 onStepCompleted s2 onStepCompleted s3 " +
			"onStepStarted s2 onStepStarted s3": standard,
		"onExecutionCompleted onReasoningCaptured s3 onSourcesDiscovered s2 onSourcesDiscovered s3 onStepCompleted s2 " +
			"onStepCompleted s3": verbose,
		"": back,
	} {
		heard := each.hears(100)
		slices.Sort(heard) // of what happened before it was looked at, the order is that of the steps
		if got := strings.Join(heard, " "); got != want {
			t.Errorf("to the end it heard %s, want %s", got, want)
		}
	}

	if a := c.Get("/api/v1/runs/"+id+"/listen", "Last-Event-ID", back.lastID); a.Status != http.StatusNoContent {
		t.Errorf("who has heard all gets %d", a.Status)
	}
	for _, bad := range []string{"x", "1-", "3-1", "4z", "1..2", "1-999999999", "-1"} {
		wantProblem(t, c.Get("/api/v1/runs/"+id+"/listen", "Last-Event-ID", bad), http.StatusBadRequest, "Last-Event-ID")
	}
}

// C23: a listener that does not read is cut, and keeps neither the run nor other listeners back.
func TestStalledListener(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{Server: func(c *apitest.Config) { c.HTTP.AnswerPatience = 100 * time.Millisecond }})
	l := c.claimed()

	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
		})
	}}
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(c.Base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /api/v1/runs/%s/listen HTTP/1.1\r\nHost: localhost\r\n\r\n", l.PlanID)

	other := c.listen(t, l.PlanID, "MINIMAL", "")
	large := strings.Repeat("x", 1<<20)
	for n := range int64(8) {
		begin, end := stepChanges(l, fmt.Sprint("s", n), n)
		begin[0].(*record.AgentExecution).AgentRequest = &large
		c.work(l, append(begin, end...))
		other.wantHeard(fmt.Sprint("onStepStarted s", n), fmt.Sprint("onStepCompleted s", n))
	}

	c.WantMetric("actlog_http_answers_cut_total", 1)
	c.end(l, record.Plan{State: new(record.Completed)})
	other.wantHeard("onExecutionCompleted")
}
