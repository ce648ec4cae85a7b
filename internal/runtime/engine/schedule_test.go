package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/runtime/schedule"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// minutely is a schedule of agent a whose last tick is 30 seconds ago, so that none is on time.
func minutely(set ...func(*define.Schedule)) define.Schedule {
	d := define.NewSchedule()
	d.Cron = fmt.Sprintf("%d * * * * *", time.Now().UTC().Add(-30*time.Second).Second())
	d.Start = define.Start{Executor: "agent", Input: json.RawMessage(`{"agent":"a","request":"Count."}`)}
	for _, f := range set {
		f(&d)
	}
	return d
}

func put(h *enginetest.House, name string, d define.Schedule) {
	h.T.Helper()
	if _, err := h.Engine.PutSchedule(h.T.Context(), name, d, ""); err != nil {
		h.T.Fatal(err)
	}
}

// asOf makes a schedule as if nobody had looked at it for some time.
func asOf(h *enginetest.House, name string, ago time.Duration) {
	h.T.Helper()
	s := scheduled(h, name)
	ticks, err := schedule.NewTicks(s.Cron, s.Timezone)
	if err != nil {
		h.T.Fatal(err)
	}
	sql(h, "UPDATE actlog.schedule SET next_at = $2, due_at = $2 WHERE name = $1", name, ticks.Next(s.Now.Add(-ago)))
}

func scheduled(h *enginetest.House, name string) *runstore.Schedule {
	h.T.Helper()
	s, err := h.Runs.Reader.Schedule(h.T.Context(), name)
	if err != nil {
		h.T.Fatal(err)
	}
	return s
}

// ticks returns what came of the ticks of a schedule, the oldest first, and the runs that they started.
func ticks(h *enginetest.House, name string) (outcomes []string, runs []string) {
	h.T.Helper()
	all, err := h.Runs.Reader.Ticks(h.T.Context(), name, time.Now().Add(time.Hour), 1000)
	if err != nil {
		h.T.Fatal(err)
	}
	slices.Reverse(all)
	for _, tick := range all {
		outcomes = append(outcomes, tick.Outcome)
		if tick.PlanID != nil {
			runs = append(runs, *tick.PlanID)
		}
	}
	return outcomes, runs
}

// counted returns how often each outcome comes in a row, such as "2 missed, 1 started".
func counted(outcomes []string) string {
	var words []string
	for len(outcomes) > 0 {
		n := slices.IndexFunc(outcomes, func(o string) bool { return o != outcomes[0] })
		if n < 0 {
			n = len(outcomes)
		}
		words = append(words, fmt.Sprint(n, " ", outcomes[0]))
		outcomes = outcomes[n:]
	}
	return strings.Join(words, ", ")
}

// TestCatchUp: ticks that were missed are made up for as the schedule says, within its window.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		catchUp define.CatchUpPolicy
		window  time.Duration
		want    string
	}{
		{define.CatchUpNone, time.Hour, "6 missed"}, {define.CatchUpLast, time.Hour, "5 missed, 1 started"},
		{define.CatchUpAll, time.Hour, "6 started"}, {define.CatchUpAll, 3 * time.Minute, "3 missed, 3 started"},
		{define.CatchUpLast, 15 * time.Second, "6 missed"},
	} {
		t.Run(fmt.Sprint(c.catchUp, c.window), func(t *testing.T) {
			t.Parallel()
			h := timed(t)
			put(h, "s", minutely(func(d *define.Schedule) {
				d.CatchUp, d.Window = c.catchUp, define.Span(c.window)
				d.Overlap = define.OverlapQueue
			}))
			asOf(h, "s", 6*time.Minute)
			h.Engine.Look(t.Context())

			outcomes, runs := ticks(h, "s")
			if got := counted(outcomes); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			s := scheduled(h, "s")
			if int(s.Started+s.Skipped+s.Missed) != len(outcomes) || int(s.Started) != len(runs) || !s.NextAt.After(s.Now) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestOverlap: what a tick does while a run of its schedule goes on.
func TestOverlap(t *testing.T) {
	t.Parallel()
	for policy, want := range map[define.OverlapPolicy]string{
		define.OverlapSkip: "1 started, 2 skipped", define.OverlapQueue: "3 started", define.OverlapCancel: "3 started",
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			h := timed(t)
			put(h, "s", minutely(func(d *define.Schedule) { d.Overlap, d.CatchUp = policy, define.CatchUpAll }))
			asOf(h, "s", 3*time.Minute)
			h.Engine.Look(t.Context()) // nobody works: the first run stays open

			outcomes, runs := ticks(h, "s")
			if got := counted(outcomes); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
			for i, id := range runs {
				d := detail(h, id)
				queues := slices.Equal(d.WaitingFor, []string{"schedule:s"}) && d.DueAt == nil
				if *d.Schedule != "s" || d.TickAt == nil || i > 0 && !queues && policy == define.OverlapQueue {
					t.Errorf("run %d: %+v", i, d)
				}
			}

			if policy == define.OverlapQueue { // to pause and to resume it does not let it pass
				for _, action := range []runstore.Action{runstore.Pause, runstore.Resume} {
					if err := h.Runs.Control(t.Context(), runs[1], action, ""); err != nil {
						t.Fatal(err)
					}
				}
			}

			h.Work(h.Engine)
			for i, id := range runs {
				state := record.Completed
				if policy == define.OverlapCancel && i < len(runs)-1 {
					state = record.Cancelled
				}
				h.Await(id, state)
			}
			if n := storetest.Query[int](t, h.Store, `SELECT count(*) FROM actlog.run AS a JOIN actlog.run AS b
				ON a.tick_at < b.tick_at AND b.first_claimed_at < a.done_at`); n > 0 {
				t.Errorf("%d runs began before another one had ended", n)
			}
		})
	}
}

// TestTicksOnce: however many look, and however often one of them is killed, each tick starts one run, and none is left
// out.
func TestTicksOnce(t *testing.T) {
	t.Parallel()
	h := timed(t)
	put(h, "s", minutely(func(d *define.Schedule) {
		d.Cron = "* * * * * *"
		d.Overlap, d.CatchUp = define.OverlapQueue, define.CatchUpAll
	}))
	const missed = 60
	asOf(h, "s", missed*time.Second)

	ctx, cancel := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	another := func() *engine.Engine {
		s := storetest.OpenURL(t, h.DB.URL)
		return h.NewEngine(func(c *engine.Config) { c.Store = runstore.New(s) })
	}

	for range 2 {
		e := another()
		looking.Go(func() { e.KeepTime(ctx) })
	}
	victim := another()
	looking.Go(func() {
		for after := time.Millisecond; ctx.Err() == nil; after = after%(20*time.Millisecond) + time.Millisecond {
			dies, kill := context.WithTimeout(ctx, after) // in the middle of whatever it does
			victim.KeepTime(dies)
			kill()
		}
	})

	storetest.Until(t, "the ticks are decided about", func() bool {
		return scheduled(h, "s").Started > missed+3
	})
	cancel()
	looking.Wait()

	outcomes, runs := ticks(h, "s")
	slices.Sort(runs)
	if got, want := counted(outcomes), fmt.Sprint(len(runs), " started"); got != want ||
		len(slices.Compact(runs)) != len(outcomes) {
		t.Errorf("%s, of %d runs", got, len(runs))
	}

	if got := storetest.Query[string](t, h.Store, `SELECT concat_ws(' ', count(*), count(DISTINCT tick_at),
		extract(epoch FROM max(tick_at) - min(tick_at))::int + 1) FROM actlog.run`); got != fmt.Sprint(len(runs), " ",
		len(runs), " ", len(runs)) {
		t.Errorf("runs, their ticks, and the seconds between the first and the last: %s; %d ticks", got, len(runs))
	}

	// A clock that is set back brings no tick again.
	sql(h, "UPDATE actlog.schedule SET next_at = next_at - interval '30 s', due_at = due_at - interval '30 s'")
	h.Engine.Look(t.Context())
	if n := storetest.Query[int](t, h.Store, "SELECT count(*) - count(DISTINCT tick_at) FROM actlog.run"); n != 0 {
		t.Errorf("%d ticks came again", n)
	}
}

// TestPauseSchedule: a paused schedule does not tick, and later from now on. Someone may run it nevertheless.
func TestPauseSchedule(t *testing.T) {
	t.Parallel()
	h := timed(t)
	put(h, "s", minutely())
	pause := func(paused bool) {
		t.Helper()
		if err := h.Engine.PauseSchedule(t.Context(), "s", paused); err != nil {
			t.Fatal(err)
		}
	}
	pause(true)
	pause(true)

	if next, err := engine.NextTicks(scheduled(h, "s"), 10); len(next) > 0 || err != nil {
		t.Errorf("the next ticks of a paused schedule: %v, %v", next, err)
	}
	sql(h, "UPDATE actlog.schedule SET last_at = now() - interval '1 hour'")
	h.Engine.Look(t.Context())
	pause(false)
	h.Engine.Look(t.Context())
	if outcomes, _ := ticks(h, "s"); len(outcomes) > 0 {
		t.Errorf("it ticked: %s", counted(outcomes))
	}

	s := scheduled(h, "s")
	if next, err := engine.NextTicks(s, 10); len(next) != 10 || err != nil || !next[0].Equal(*s.NextAt) ||
		!next[0].After(s.Now) {
		t.Errorf("the next ticks: %v, %v", next, err)
	}

	for _, key := range []string{"", "k", "k"} {
		started, err := h.Engine.RunSchedule(t.Context(), "s", runstore.Who{Name: "ann"}, key)
		if err != nil {
			t.Fatal(err)
		}
		if d := detail(h, started.PlanID); *d.Schedule != "s" || d.TickAt != nil || d.Starter != "ann" {
			t.Errorf("%+v", d)
		}
	}
	if n := storetest.Query[int](t, h.Store, "SELECT count(*) FROM actlog.run"); n != 2 {
		t.Errorf("%d runs, one of them with an idempotency key", n)
	}
	for _, err := range []error{
		h.Engine.PauseSchedule(t.Context(), "none", true), h.Runs.DeleteSchedule(t.Context(), "none"),
	} {
		if !errors.Is(err, record.ErrNotFound) {
			t.Errorf("of a schedule that is not there: %v", err)
		}
	}
}

// TestFileSchedules: what the configuration defines is on record, and nobody else changes it. To pause it stays, until
// the file says something else of that. A process without it starts nothing of it.
func TestFileSchedules(t *testing.T) {
	t.Parallel()
	h := timed(t)
	d := minutely()
	h.Parts.Scheduled = map[string]define.Schedule{"nightly": d}
	h.Engine.Look(t.Context())

	if s := scheduled(h, "nightly"); s.Source != runstore.SourceFile || s.Paused || s.NextAt == nil {
		t.Errorf("%+v", s)
	}
	if _, err := h.Engine.PutSchedule(t.Context(), "nightly", d, ""); !errors.Is(err, runstore.ErrOfFile) {
		t.Errorf("put: %v", err)
	}
	if err := h.Runs.DeleteSchedule(t.Context(), "nightly"); !errors.Is(err, runstore.ErrOfFile) {
		t.Errorf("delete: %v", err)
	}

	if err := h.Engine.PauseSchedule(t.Context(), "nightly", true); err != nil {
		t.Fatal(err)
	}
	restarted := h.NewEngine(nil)
	restarted.Look(t.Context())
	if !scheduled(h, "nightly").Paused {
		t.Error("a restart let it tick again")
	}

	d.Paused = true
	h.Parts.Scheduled = map[string]define.Schedule{"nightly": d}
	restarted.Look(t.Context())
	d.Paused = false
	h.Parts.Scheduled = map[string]define.Schedule{"nightly": d}
	restarted.Look(t.Context())
	if scheduled(h, "nightly").Paused {
		t.Error("the file does not let it tick again")
	}

	asOf(h, "nightly", 3*time.Minute)
	h.Parts.Scheduled = nil
	h.NewEngine(nil).Look(t.Context())
	if outcomes, _ := ticks(h, "nightly"); len(outcomes) > 0 {
		t.Errorf("a process without it decided: %s", counted(outcomes))
	}

	h.Parts.Scheduled = map[string]define.Schedule{"nightly": d}
	h.NewEngine(nil).Look(t.Context())
	if outcomes, _ := ticks(h, "nightly"); counted(outcomes) != "2 missed, 1 started" {
		t.Errorf("a process that has it: %s", counted(outcomes))
	}

	sql(h, "UPDATE actlog.schedule SET seen_at = now() - interval '2 minutes'")
	if _, err := h.Runs.Reader.Schedule(t.Context(), "nightly"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("a schedule that no process has any more: %v", err)
	}
	put(h, "nightly", d)
}

// TestFileWinsAgain: what a file defines is on record again, also if its process put it before: when a process with
// another file has been silent for a minute, and when somebody deleted it or took it over. Two files that are there do
// not take turns.
func TestFileWinsAgain(t *testing.T) {
	t.Parallel()
	silent := func(h *enginetest.House) { sql(h, "UPDATE actlog.schedule SET seen_at = now() - interval '2 minutes'") }
	h := timed(t)
	d := minutely()
	fileOf := func(cron string) {
		d.Cron = cron
		h.Parts.Scheduled = map[string]define.Schedule{"nightly": d}
	}
	look := func(e *engine.Engine, cron, want string) {
		t.Helper()
		fileOf(cron)
		e.Look(t.Context())
		if s := scheduled(h, "nightly"); s.Cron != want || s.Source != runstore.SourceFile {
			t.Errorf("%s of %s, want %s", s.Cron, s.Source, want)
		}
	}

	const older, newer = "0 1 * * *", "0 2 * * *"
	look(h.Engine, newer, newer)
	restarted := h.NewEngine(nil)
	look(restarted, older, older)
	look(h.Engine, newer, older)
	look(restarted, older, older)

	silent(h)
	look(h.Engine, newer, newer)
	silent(h)
	put(h, "nightly", d)
	look(h.Engine, newer, newer)

	silent(h)
	if err := h.Runs.DeleteSchedule(t.Context(), "nightly"); err != nil {
		t.Fatal(err)
	}
	look(h.Engine, newer, newer)

	version := scheduled(h, "nightly").Version
	look(h.Engine, newer, newer)
	if s := scheduled(h, "nightly"); s.Version != version {
		t.Error("it is put again and again")
	}
}

// TestNoSecretInSchedules: what must not be on record is not in a schedule either, whoever defines it.
func TestNoSecretInSchedules(t *testing.T) {
	t.Parallel()
	h := timed(t)
	h.Parts.Secret = "planted-secret"
	d := minutely(func(d *define.Schedule) { d.Input = json.RawMessage(`{"agent":"a","request":"Say planted-secret."}`) })
	h.Parts.Scheduled = map[string]define.Schedule{"of-file": d}
	h.Engine.Look(t.Context())
	put(h, "of-request", d)

	for _, name := range []string{"of-file", "of-request"} {
		if start := string(scheduled(h, name).Start); !strings.Contains(start, "Say [secret].") {
			t.Errorf("%s: %s", name, start)
		}
	}
}

// TestCannotStart: a tick that this process cannot start stays due, says why, and is missed when its window is over.
func TestCannotStart(t *testing.T) {
	t.Parallel()
	h := timed(t)
	put(h, "s", minutely(func(d *define.Schedule) { d.Window = define.Span(5 * time.Minute) }))
	asOf(h, "s", 3*time.Minute)
	agent := h.Parts.Definitions["agent.a"]
	delete(h.Parts.Definitions, "agent.a")

	h.Engine.Look(t.Context())
	s := scheduled(h, "s")
	outcomes, _ := ticks(h, "s")
	if s.Error == nil || !strings.Contains(*s.Error, `"a"`) || counted(outcomes) != "2 missed" || s.NextAt.After(s.Now) {
		t.Errorf("%s: %+v", counted(outcomes), s)
	}

	h.Parts.Definitions["agent.a"] = agent
	h.Engine.Look(t.Context())
	s = scheduled(h, "s")
	if outcomes, _ = ticks(h, "s"); s.Error != nil || counted(outcomes) != "2 missed, 1 started" {
		t.Errorf("%s: %+v", counted(outcomes), s)
	}
}

// TestCannotStartBeforeOne: many schedules that cannot start keep no other one from that.
func TestCannotStartBeforeOne(t *testing.T) {
	t.Parallel()
	h := timed(t)
	put(h, "a", minutely())
	asOf(h, "a", 2*time.Minute)

	sql(h, `INSERT INTO actlog.schedule (name, source, cron, timezone, jitter_seconds, overlap, catch_up, window_seconds, start,
			starter, paused, next_at, due_at)
		SELECT 'z' || n, source, cron, timezone, jitter_seconds, overlap, catch_up, window_seconds, '{"executor":"none"}', starter,
			paused, next_at, due_at FROM actlog.schedule, generate_series(1, 150) AS n`)
	sql(h, "UPDATE actlog.schedule SET name = 'zz' WHERE name = 'a'")

	h.Engine.Look(t.Context())
	if _, runs := ticks(h, "zz"); len(runs) != 1 {
		t.Errorf("%d runs were started behind those that cannot", len(runs))
	}
}

// TestDeleteSchedule: its runs stay, those that wait for others are stopped, and another one of the name begins anew.
func TestDeleteSchedule(t *testing.T) {
	t.Parallel()
	h := timed(t)
	d := minutely(func(d *define.Schedule) { d.Overlap, d.CatchUp = define.OverlapQueue, define.CatchUpAll })
	put(h, "s", d)
	asOf(h, "s", 2*time.Minute)
	h.Engine.Look(t.Context())
	_, runs := ticks(h, "s")

	if err := h.Runs.DeleteSchedule(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	h.Work(h.Engine)
	h.Await(runs[0], record.Completed)
	h.Await(runs[1], record.Cancelled)

	put(h, "s", d)
	if s := scheduled(h, "s"); s.Started != 0 || !s.NextAt.After(s.Now) {
		t.Errorf("%+v", s)
	}
}

// TestRunsOutliveTheirSchedule: a run that waits for others begins when they have ended, also if its schedule is not
// there any more; one that was stopped and is retried begins, too.
func TestRunsOutliveTheirSchedule(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(h *enginetest.House, waits string){
		"forgotten": func(h *enginetest.House, _ string) {
			sql(h, "UPDATE actlog.schedule SET source = 'file', seen_at = now() - interval '40 days'")
			if err := h.Runs.ForgetTicks(h.T.Context()); err != nil {
				h.T.Fatal(err)
			}
			h.Work(h.Engine)
		},
		"deleted": func(h *enginetest.House, waits string) {
			if err := h.Runs.DeleteSchedule(h.T.Context(), "s"); err != nil {
				h.T.Fatal(err)
			}
			h.Work(h.Engine)
			h.Await(waits, record.Cancelled)
			if err := h.Engine.Retry(h.T.Context(), engine.RetryRequest{PlanID: waits}); err != nil {
				h.T.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := timed(t)
			put(h, "s", minutely(func(d *define.Schedule) { d.Overlap, d.CatchUp = define.OverlapQueue, define.CatchUpAll }))
			asOf(h, "s", 2*time.Minute)
			h.Engine.Look(t.Context())
			_, runs := ticks(h, "s")

			gone(h, runs[1])
			h.Await(runs[1], record.Completed)
			if queued := storetest.Query[bool](t, h.Store, "SELECT bool_or(queued) FROM actlog.run"); queued {
				t.Error("a run is still said to wait for others")
			}
		})
	}
}

// TestForgetTicks: the last 1,000 ticks of each schedule stay.
func TestForgetTicks(t *testing.T) {
	t.Parallel()
	h := timed(t)
	for _, name := range []string{"s", "other"} {
		put(h, name, minutely(func(d *define.Schedule) { d.Cron, d.CatchUp = "* * * * * *", define.CatchUpNone }))
		asOf(h, name, 25_000*time.Second)
	}
	h.Engine.Look(t.Context())
	if s := scheduled(h, "s"); s.Missed < 24_000 {
		t.Errorf("%d ticks were missed", s.Missed)
	}

	if err := h.Runs.ForgetTicks(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := storetest.Query[string](t, h.Store, `SELECT string_agg(concat(schedule, ' ', n), ', ' ORDER BY schedule)
		FROM (SELECT schedule, count(*) AS n FROM actlog.schedule_tick GROUP BY 1) AS x`); !strings.HasSuffix(got, "s 1000") {
		t.Errorf("ticks on record: %s", got)
	}
}
