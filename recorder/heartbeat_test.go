package recorder_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

// beats returns, for each write after the first n, the plans whose signs of life it holds.
func (m *memory) beats(t *testing.T, n int) (out [][]string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()

	for _, w := range m.writes[n:] {
		var plans []string
		for _, c := range w {
			p, ok := c.(*record.Plan)
			if !ok || p.LastSeenAt == nil ||
				cmp.Diff(&record.Plan{RootPlanID: p.RootPlanID, CurrentPlanID: p.CurrentPlanID, LastSeenAt: p.LastSeenAt},
					p) != "" {
				t.Errorf("not a heartbeat: %+v", c)
				continue
			}
			plans = append(plans, p.CurrentPlanID)
		}
		out = append(out, plans)
	}
	return out
}

// seenNow checks that a plan was seen just now; signs of life are microseconds apart.
func seenNow(t *testing.T, m *memory, plan string) {
	t.Helper()
	if seen := m.plan(t, plan).LastSeenAt; seen == nil || time.Since(*seen).Abs() > time.Millisecond {
		t.Errorf("%s was seen at %v, and it is %s", plan, seen, time.Now())
	}
}

// Each beat holds one record per plan, from its start until its end, without any call of the agent.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		rec := recorder.New(m, recorder.Options{})
		ctx, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{ID: "p"})
		ok(t, err)
		seenNow(t, m, "p")

		ctx, step, err := plan.StartStep(ctx, recorder.StepInfo{})
		ok(t, err)
		cycle, err := step.StartCycle(ctx, recorder.CycleInfo{})
		ok(t, err)
		toolCtx, _, err := cycle.StartTool(ctx, recorder.ToolInfo{})
		ok(t, err)

		n := m.writeCount()
		time.Sleep(recorder.HeartbeatDefault)
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"p"}}, m.beats(t, n)); diff != "" {
			t.Errorf("m.beats(n) (-want +got):\n%s", diff)
		}
		seenNow(t, m, "p")

		subCtx, sub, err := rec.StartPlan(toolCtx, recorder.PlanInfo{ID: "sub"})
		ok(t, err)
		ok(t, plan.SetState(ctx, record.Waiting))
		n = m.writeCount()
		time.Sleep(2 * recorder.HeartbeatDefault)
		synctest.Wait()
		if got := m.beats(t, n); len(got) != 2 || len(got[0]) != 2 || len(got[1]) != 2 {
			t.Errorf("beats are %q", got)
		}

		ok(t, sub.End(subCtx, recorder.PlanResult{}))
		n = m.writeCount()
		time.Sleep(recorder.HeartbeatDefault)
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"p"}}, m.beats(t, n)); diff != "" {
			t.Errorf("m.beats(n) (-want +got):\n%s", diff)
		}

		ok(t, plan.End(ctx, recorder.PlanResult{}))
		n = m.writeCount()
		time.Sleep(time.Hour)
		if m.writeCount() != n {
			t.Errorf("%d writes after the end", m.writeCount()-n)
		}

		n = m.writeCount() // the next plan has a heartbeat again
		_, again, err := rec.StartPlan(t.Context(), recorder.PlanInfo{ID: "again"})
		ok(t, err)
		time.Sleep(recorder.HeartbeatDefault)
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"again"}}, m.beats(t, n+1)); diff != "" {
			t.Errorf("m.beats(n+1) (-want +got):\n%s", diff)
		}
		ok(t, again.Fail(t.Context(), nil))
	})
}

// A plan whose start is not on record has no heartbeat: that would create a run of which nothing
// else is known. It has one after a later call has sent the start.
func TestHeartbeatsAfterAFailedStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		rec := recorder.New(m, recorder.Options{})
		m.setFail(record.ErrUnavailable)
		ctx, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{ID: "p"})
		if !errors.Is(err, record.ErrUnavailable) {
			t.Fatalf("error = %v", err)
		}

		m.setFail(nil)
		time.Sleep(10 * recorder.HeartbeatDefault)
		synctest.Wait()
		if got := m.beats(t, 0); len(got) > 0 {
			t.Errorf("beats are %q", got)
		}

		_, step, err := plan.StartStep(ctx, recorder.StepInfo{})
		ok(t, err)
		n := m.writeCount()
		time.Sleep(recorder.HeartbeatDefault)
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"p"}}, m.beats(t, n)); diff != "" {
			t.Errorf("m.beats(n) (-want +got):\n%s", diff)
		}

		m.setFail(record.ErrUnavailable) // other unsent changes do not stop the heartbeat
		if err := step.End(ctx, recorder.StepResult{}); !errors.Is(err, record.ErrUnavailable) {
			t.Errorf("error = %v", err)
		}

		m.setFail(nil)
		n = m.writeCount()
		time.Sleep(recorder.HeartbeatDefault)
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"p"}}, m.beats(t, n)); diff != "" {
			t.Errorf("m.beats(n) (-want +got):\n%s", diff)
		}
		ok(t, plan.End(ctx, recorder.PlanResult{}))
	})
}

// There is no heartbeat while the start is under way, since it may still fail.
func TestHeartbeatsDuringAStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		rec := recorder.New(sinkFunc(func(ctx context.Context, changes []record.Change) (record.Result, error) {
			if p, ok := changes[0].(*record.Plan); ok && p.CurrentPlanID == "slow" && p.State != nil {
				<-ctx.Done()
				return record.Result{}, ctx.Err()
			}
			return m.Write(ctx, changes)
		}), recorder.Options{})

		ctx, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{ID: "p"})
		ok(t, err)
		short, cancel := context.WithTimeout(ctx, 2*recorder.HeartbeatDefault)
		defer cancel()
		_, slow, err := rec.StartPlan(short, recorder.PlanInfo{ID: "slow", Root: true})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v", err)
		}

		ok(t, plan.End(ctx, recorder.PlanResult{}))
		if plans := all[record.Plan](m, record.KindPlan); len(plans) != 1 {
			t.Errorf("%d plans are on record", len(plans))
		}
		runtime.KeepAlive(slow)
	})
}

// Without heartbeats no plan has a first sign of life either.
func TestNoHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		rec := recorder.New(m, recorder.Options{Heartbeat: -1})
		_, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{})
		ok(t, err)
		_, _, err = rec.OpenPlan(plan.Link()).StartStep(t.Context(), recorder.StepInfo{})
		ok(t, err)

		time.Sleep(time.Hour)
		unreported(t, "lastSeenAt", m.plan(t, plan.ID()).LastSeenAt)
		if m.writeCount() != 2 {
			t.Errorf("%d writes", m.writeCount())
		}
	})
}

// The heartbeats of a plan of OpenPlan begin with the first step, and end with the plan, whichever
// handle ends it.
func TestHeartbeatsOfAnOpenedPlan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		rec := recorder.New(m, recorder.Options{})
		plan := rec.OpenPlan(recorder.Link{PlanID: "p"})
		time.Sleep(time.Hour)
		if m.writeCount() != 0 {
			t.Errorf("%d writes", m.writeCount())
		}

		_, _, err := plan.StartStep(t.Context(), recorder.StepInfo{})
		ok(t, err)
		seenNow(t, m, "p")
		time.Sleep(recorder.HeartbeatDefault)
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"p"}}, m.beats(t, 1)); diff != "" {
			t.Errorf("m.beats(1) (-want +got):\n%s", diff)
		}

		ok(t, rec.OpenPlan(recorder.Link{PlanID: "p"}).End(t.Context(), recorder.PlanResult{}))
		time.Sleep(time.Hour)
		if m.writeCount() != 3 {
			t.Errorf("%d writes after the end", m.writeCount()-3)
		}

		ok(t, plan.End(t.Context(), recorder.PlanResult{}))
		// too late for a heartbeat
		if _, _, err = plan.StartStep(t.Context(), recorder.StepInfo{}); !errors.Is(err, record.ErrEnded) {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if m.writeCount() != 4 {
			t.Errorf("%d writes after the end", m.writeCount()-4)
		}
	})
}

// A plan that nothing can end any more has no heartbeat.
func TestForgottenPlans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		rec := recorder.New(m, recorder.Options{})

		var step *recorder.Step
		func() {
			_, _, err := rec.StartPlan(t.Context(), recorder.PlanInfo{ID: "forgotten"})
			ok(t, err)
			_, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{ID: "held"})
			ok(t, err)
			_, step, err = plan.StartStep(t.Context(), recorder.StepInfo{})
			ok(t, err)
		}()

		n := m.writeCount()
		runtime.GC()
		time.Sleep(recorder.HeartbeatDefault)
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"held"}}, m.beats(t, n)); diff != "" {
			t.Errorf("m.beats(n) (-want +got):\n%s", diff)
		}

		ok(t, step.End(t.Context(), recorder.StepResult{}))
		step = nil
		runtime.GC()
		n = m.writeCount()
		time.Sleep(time.Hour)
		if got := m.beats(t, n); len(got) > 0 {
			t.Errorf("beats are %q", got)
		}
	})
}

// The record keeps the latest sign of life, so each one is later than the one before, even if the
// clock is set back.
func TestHeartbeatsOfAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		_, plan, err := b.StartPlan(t.Context(), recorder.PlanInfo{ID: "p"})
		ok(t, err)

		for range 5 {
			before := b.sink.plan(t, "p").LastSeenAt
			b.clock.move(-time.Hour)
			time.Sleep(recorder.HeartbeatDefault)
			synctest.Wait()
			if after := b.sink.plan(t, "p").LastSeenAt; after.Sub(*before) < time.Microsecond { // the resolution of Postgres
				t.Fatalf("seen at %s, then at %s", before, after)
			}
		}
		ok(t, plan.End(t.Context(), recorder.PlanResult{}))
	})
}

// Failed heartbeats are logged and not repeated. One at a time is under way, and the end of the plan
// ends it.
func TestFailingHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := &gated{memory: newMemory(), gate: make(chan struct{}, 1)}
		rec := recorder.New(g, recorder.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		g.gate <- struct{}{}
		_, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{ID: "p"})
		ok(t, err)

		time.Sleep(10 * recorder.HeartbeatDefault) // no beat gets through
		synctest.Wait()
		if n := strings.Count(log.String(), "a heartbeat is not on record"); n < 4 || n > 5 {
			t.Errorf("%d logged:\n%s", n, log.String())
		}

		g.gate <- struct{}{}
		time.Sleep(recorder.HeartbeatDefault)
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"p"}}, g.beats(t, 1)); diff != "" {
			t.Errorf("g.beats(1) (-want +got):\n%s", diff)
		}

		time.Sleep(2 * recorder.HeartbeatDefault)
		synctest.Wait() // a beat hangs
		log.Reset()
		g.gate <- struct{}{}
		g.gate <- struct{}{}

		ok(t, plan.End(t.Context(), recorder.PlanResult{}))
		synctest.Wait()
		if log.Len() > 0 {
			t.Errorf("logged: %s", log.String())
		}
	})
}

// While the record is away heartbeats do not pile up in a Buffer, and take no room that a call needs.
// When it is back, the newest go with the first batch.
func TestHeartbeatsPastABuffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		buffer := recorder.NewBuffer(m, recorder.BufferOptions{MaxRecords: 2})
		first, second := recorder.New(buffer, recorder.Options{}), recorder.New(buffer, recorder.Options{})
		ctx, p1, err := first.StartPlan(t.Context(), recorder.PlanInfo{ID: "p1"})
		ok(t, err)
		_, p2, err := second.StartPlan(t.Context(), recorder.PlanInfo{ID: "p2"})
		ok(t, err)
		ok(t, buffer.Flush(t.Context()))

		n := m.writeCount()
		time.Sleep(recorder.HeartbeatDefault)
		synctest.Wait()
		if got := m.beats(t, n); len(got) == 0 || len(got) > 2 {
			t.Errorf("beats are %q", got)
		}
		for _, id := range []string{"p1", "p2"} {
			seenNow(t, m, id)
		}

		m.setFail(record.ErrUnavailable)
		time.Sleep(time.Hour + time.Second) // only beats fail, and what follows happens between two of them
		if buffer.Pending() != 0 {
			t.Errorf("%d records wait", buffer.Pending())
		}

		ok(t, buffer.Flush(t.Context()))
		ok(t, p1.Thought(ctx, recorder.ThoughtInfo{}))
		ok(t, p1.Thought(ctx, recorder.ThoughtInfo{})) // now it is full
		time.Sleep(time.Hour)
		if buffer.Pending() != 2 {
			t.Errorf("%d records wait", buffer.Pending())
		}

		n = m.writeCount()
		m.setFail(nil)
		time.Sleep(recorder.HeartbeatDefault)
		synctest.Wait()
		for _, id := range []string{"p1", "p2"} {
			if seen := *m.plan(t, id).LastSeenAt; time.Since(seen) > recorder.HeartbeatDefault {
				t.Errorf("%s was seen %s ago", id, time.Since(seen))
			}
		}
		if n := m.writeCount() - n; n > 3 {
			t.Errorf("%d writes", n)
		}

		ok(t, errors.Join(p1.End(ctx, recorder.PlanResult{}), p2.End(ctx, recorder.PlanResult{})))
		closeNow(t, buffer)
		if err := buffer.Beat(nil); !errors.Is(err, record.ErrClosed) {
			t.Errorf("error = %v", err)
		}
	})
}

// A heartbeat that arrives after the end of its plan changes nothing else.
func TestALateHeartbeat(t *testing.T) {
	t.Parallel()
	url, s := serveRecord(t)
	sink, err := recorder.NewHTTP(url, recorder.HTTPOptions{Client: client(t)})
	ok(t, err)
	ctx, plan, err := recorder.New(sink, recorder.Options{}).StartPlan(t.Context(), recorder.PlanInfo{Title: "T"})
	ok(t, err)
	ok(t, plan.End(ctx, recorder.PlanResult{Summary: "S"}))

	before, _, err := s.PlanTree(t.Context(), "", plan.ID())
	ok(t, err)
	late := before.Record.EndTime.Add(time.Hour)
	write(t, sink, &record.Plan{RootPlanID: plan.ID(), CurrentPlanID: plan.ID(), LastSeenAt: &late})

	after, _, err := s.PlanTree(t.Context(), "", plan.ID())
	ok(t, err)
	want(t, "lastSeenAt", after.Record.LastSeenAt, late)
	before.Record.LastSeenAt = after.Record.LastSeenAt
	if diff := cmp.Diff(before.Record, after.Record); diff != "" {
		t.Errorf("after.Record (-want +got):\n%s", diff)
	}
}

// client has connections of its own, for tests that look for leaks.
func client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// asAgent names a server, and turns the test binary into an agent that writes to it.
const asAgent = "ACTLOG_RECORDER_TEST_SERVER"

// runAgent calls a tool that never returns.
func runAgent(url string) error {
	sink, err := recorder.NewHTTP(url, recorder.HTTPOptions{})
	if err != nil {
		return err
	}
	rec := recorder.New(sink, recorder.Options{Heartbeat: 100 * time.Millisecond})
	plan, err := callTool(context.Background(), rec)
	if err != nil {
		return err
	}

	fmt.Println(plan.ID())
	_, err = io.Copy(io.Discard, os.Stdin) // until it is killed
	runtime.KeepAlive(plan)
	return err
}

// callTool starts a run, up to a running tool call.
func callTool(ctx context.Context, rec *recorder.Recorder) (*recorder.Plan, error) {
	ctx, plan, err := rec.StartPlan(ctx, recorder.PlanInfo{})
	ctx, step, err2 := plan.StartStep(ctx, recorder.StepInfo{})
	cycle, err3 := step.StartCycle(ctx, recorder.CycleInfo{})
	_, _, err4 := cycle.StartTool(ctx, recorder.ToolInfo{Name: "slow"})
	return plan, errors.Join(err, err2, err3, err4)
}

// A killed agent is marked INTERRUPTED. An agent whose tool takes as long is not.
func TestAKilledAgentIsInterrupted(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	u := storetest.Upkeep(t, s, upkeep.Config{InterruptAfter: 3 * time.Second})
	server := httptest.NewServer(apitest.New(t, s, apitest.Config{
		HTTP: httpd.Config{Logger: storetest.Logger(t)}, Upkeep: u,
	}))
	t.Cleanup(server.Close)
	state := func(plan string) record.State {
		p, _, err := s.PlanTree(t.Context(), "", plan)
		ok(t, err)
		return *p.Record.State
	}

	sink, err := recorder.NewHTTP(server.URL, recorder.HTTPOptions{Client: client(t)})
	ok(t, err)
	alive, err := callTool(t.Context(), recorder.New(sink, recorder.Options{Heartbeat: 100 * time.Millisecond}))
	ok(t, err)

	agent := exec.CommandContext(t.Context(), os.Args[0])
	agent.Env = append(os.Environ(), asAgent+"="+server.URL)
	in, err := agent.StdinPipe()
	ok(t, err)
	defer in.Close()
	out, err := agent.StdoutPipe()
	ok(t, err)
	ok(t, agent.Start())

	line, err := bufio.NewReader(out).ReadString('\n')
	ok(t, err)
	killed := strings.TrimSpace(line)
	ok(t, agent.Process.Kill())
	_ = agent.Wait() // it was killed

	for tick := time.NewTicker(50 * time.Millisecond); state(killed) == record.Running; {
		<-tick.C
	}
	p, _, err := s.PlanTree(t.Context(), "", killed)
	ok(t, err)
	want(t, "state", p.Record.State, record.Interrupted)
	want(t, "errorKind", p.Record.ErrorKind, record.NotSeen)

	if got := state(alive.ID()); got != record.Running {
		t.Errorf("the living agent is %s", got)
	}
	ok(t, alive.End(t.Context(), recorder.PlanResult{}))
	if got := state(alive.ID()); got != record.Completed {
		t.Errorf("the ended agent is %s", got)
	}
}
