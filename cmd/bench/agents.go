package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/agent/tool"
)

const (
	// cyclesOfAgent is how many cycles an agent takes. Each has a call of the model and a call of a tool.
	cyclesOfAgent = 10
	callsOfAgent  = 2 * cyclesOfAgent
	// agentsAtOnce is the number of runs that one worker carries at the same time.
	agentsAtOnce = 100
)

// atOnce returns how many runs are carried at the same time: 100, unless the scale is tiny.
func (b *bench) atOnce() int { return min(agentsAtOnce, b.n(10*agentsAtOnce, 10)) }

// script has what the model and the tool of an agent answer, 1.4 KB a cycle.
type script struct {
	Answers []string `json:"answers"`
	Results []string `json:"results"`

	tools     *tool.Set
	next, got atomic.Int64
}

// newScript returns texts of which no run uses one twice.
func newScript(t *text) *script {
	s := new(script)
	r := rand.New(rand.NewPCG(t.seed, 1))
	for range 997 {
		s.Answers = append(s.Answers, cut(r, t.prose, 400))
		s.Results = append(s.Results, cut(r, t.results, 700))
	}
	return s.ready()
}

// ready makes the tools of the script.
func (s *script) ready() *script {
	s.tools = looking(func(string) string { return s.Results[int(s.got.Add(1))%len(s.Results)] })
	return s
}

func (s *script) answer() string { return s.Answers[int(s.next.Add(1))%len(s.Answers)] }

// agents carries runs of agents: our runtime, or that of somebody else.
type agents interface {
	// carry carries a number of runs at the same time, until all have ended durably. first is the time from the start
	// of the first run until its first call of a model.
	carry(ctx context.Context, runs int) (took, first time.Duration, err error)
	// bare does what one run does, without a record.
	bare(ctx context.Context) (time.Duration, error)
	// cost returns what was used until now.
	cost(ctx context.Context) (cost, error)
}

// agentTurn is what some runs of agents took and used.
type agentTurn struct {
	runs  int
	took  time.Duration
	first time.Duration // mean
	bare  time.Duration // of a run
	used  cost
}

func (t agentTurn) calls() float64  { return float64(t.runs * callsOfAgent) }
func (t agentTurn) cycles() float64 { return float64(t.runs * cyclesOfAgent) }

func (t agentTurn) callsPerSecond() float64   { return t.calls() / t.took.Seconds() }
func (t agentTurn) untilFirstCall() float64   { return ms(t.first) }
func (t agentTurn) transactions() float64     { return t.used.transactions / t.cycles() }
func (t agentTurn) walOfCall() float64        { return t.used.wal / t.calls() }
func (t agentTurn) workerSeconds() float64    { return t.used.worker.Seconds() / t.calls() * 1000 }
func (t agentTurn) postgresSeconds() float64  { return t.used.postgres.Seconds() / t.calls() * 1000 }
func (t agentTurn) processorSeconds() float64 { return t.workerSeconds() + t.postgresSeconds() }

// overBare returns how much longer a cycle takes than without a record, in ms.
func (t agentTurn) overBare() float64 {
	return ms(t.took)/t.cycles() - ms(t.bare)/cyclesOfAgent
}

// agentTurns are repeats of the same runs.
type agentTurns []agentTurn

func (all agentTurns) each(value func(agentTurn) float64) (values []float64) {
	for _, t := range all {
		values = append(values, value(t))
	}
	return values
}

// agentTurn measures runs that one worker carries, atOnce at the same time: again and again for three seconds times the
// scale, and at least so many times.
func (b *bench) agentTurn(ctx context.Context, a agents, atOnce, least int) (t agentTurn, err error) {
	before, err := a.cost(ctx)
	if err != nil {
		return t, err
	}

	waves := 0
	for ; waves < least || t.took < seconds(3*b.scale); waves++ {
		took, first, err := a.carry(ctx, atOnce)
		if err != nil {
			return t, err
		}
		t.took += took
		t.first += first
	}
	t.runs = waves * atOnce
	t.first /= time.Duration(waves)

	after, err := a.cost(ctx)
	if err != nil {
		return t, err
	}
	t.used = after.since(before)
	if t.used.worker < 0 || t.used.postgres < 0 {
		return t, errors.New("a process ended while its time was measured")
	}

	t.bare, err = a.bare(ctx)
	return t, err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// ourAgents carries agents with a worker of this process.
type ourAgents struct {
	*working
	b     *bench
	db    *database
	l     loop
	ended chan string
	began *atomic.Int64 // when the first call was made, in ns since 1970
}

// startOurs starts a worker. stop ends it, and everything else that it needed.
func startOurs(ctx context.Context, db *database, texts *script) (_ *ourAgents, stop func() error, err error) {
	s, err := db.store(ctx)
	if err != nil {
		return nil, nil, err
	}

	a := &ourAgents{db: db, ended: make(chan string, agentsAtOnce), began: new(atomic.Int64)}
	a.l = loop{cycles: cyclesOfAgent, calls: 1, script: texts}
	a.l.ended = func(id string) { a.ended <- id }
	a.l.thinks = func() { a.began.CompareAndSwap(0, time.Now().UnixNano()) }
	if a.working, err = work(ctx, s, a.l, 0); err != nil {
		return nil, nil, errors.Join(err, closing(s.Close))
	}
	return a, func() error { return errors.Join(a.working.stop(), closing(s.Close)) }, nil
}

func (a *ourAgents) carry(ctx context.Context, runs int) (took, first time.Duration, err error) {
	a.began.Store(0)
	start := time.Now()
	err = a.runs(ctx, runs, a.ended)
	return time.Since(start), time.Unix(0, a.began.Load()).Sub(start), err
}

func (a *ourAgents) bare(ctx context.Context) (time.Duration, error) {
	const runs = 100
	took, err := a.bareRuns(ctx, runs)
	return took / runs, err
}

func (a *ourAgents) bareRuns(ctx context.Context, runs int) (time.Duration, error) {
	start := time.Now()
	for range runs {
		if err := a.l.bare(ctx); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

func (a *ourAgents) cost(ctx context.Context) (cost, error) { return a.db.cost(ctx, a.b, 0) }

// measureAgents measures runs of agents that take ten cycles, each with one call of the model and one of a tool: how
// many calls a worker makes in a second, with one run and with 100, and what a call costs.
func measureAgents(ctx context.Context, b *bench) (_ []figure, err error) {
	db, err := b.database(ctx, "agents")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()

	one, many, stored, err := b.agentsAlone(ctx, db)
	if err != nil {
		return nil, err
	}
	updates, err := db.heapOnlyUpdates(ctx)
	if err != nil {
		return nil, err
	}

	runs := fmt.Sprintf("%d runs", b.atOnce())
	return append([]figure{
		alone("calls of models and tools a second, 1 run", "", one.each(agentTurn.callsPerSecond), nil),
		alone("the same, "+runs, "", many.each(agentTurn.callsPerSecond), atLeast(1500)),
		alone("processor time of 1,000 calls, "+runs, "s", many.each(agentTurn.processorSeconds), atMost(0.8)),
		alone("the same, of the worker", "s", many.each(agentTurn.workerSeconds), nil),
		alone("the same, of Postgres", "s", many.each(agentTurn.postgresSeconds), atMost(0.4)),
		alone("a cycle over the bare loop, 1 run", "ms", one.each(agentTurn.overBare), atMost(4)),
		alone("from start to first call, 1 run", "ms", one.each(agentTurn.untilFirstCall), atMost(4)),
		alone("transactions a cycle, 1 run", "", one.each(agentTurn.transactions), nil),
		alone("the same, "+runs, "", many.each(agentTurn.transactions), nil),
		alone("WAL a call, "+runs, "bytes", many.each(agentTurn.walOfCall), nil),
		alone("tables and indexes of a run of 10 cycles", "kB", []float64{stored}, atMost(40)),
	}, updates...), nil
}

// agentsAlone runs agents one by one and many at once, by turns. stored is how many kB the tables and indexes of a run
// take: of all runs together, because Postgres adds many pages to a table when several sessions need one.
func (b *bench) agentsAlone(ctx context.Context, db *database) (one, many agentTurns, stored float64, err error) {
	a, stop, err := startOurs(ctx, db, newScript(b.text))
	if err != nil {
		return nil, nil, 0, err
	}
	a.b = b
	defer func() { err = errors.Join(err, stop()) }()

	before, err := a.cost(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	runs := 0
	for turn := range b.repeats + 1 {
		single, err := b.agentTurn(ctx, a, 1, 5)
		if err != nil {
			return nil, nil, 0, err
		}
		together, err := b.agentTurn(ctx, a, b.atOnce(), 1)
		if err != nil {
			return nil, nil, 0, err
		}

		runs += single.runs + together.runs
		if turn > 0 { // the first one is a warm-up
			one, many = append(one, single), append(many, together)
		}
	}

	after, err := a.cost(ctx)
	return one, many, after.since(before).stored / float64(runs) / 1000, err
}

// heapOnlyUpdates returns which share of the updates of some tables wrote no entry of an index. The sessions that
// wrote must have ended: before that, Postgres does not know what they did.
func (d *database) heapOnlyUpdates(ctx context.Context) (figures []figure, err error) {
	for _, of := range []struct{ what, table string }{
		{"steps", "agent_execution_record"}, {"cycles", "think_act_record"}, {"calls", "act_tool_info"},
	} {
		var all, heapOnly float64
		err := d.pool.QueryRow(ctx, `SELECT sum(n_tup_upd), sum(n_tup_hot_upd) FROM pg_stat_user_tables
			WHERE schemaname = 'actlog' AND (relname = $1 OR relname LIKE $1 || '\_%')`, of.table).Scan(&all, &heapOnly)
		if err != nil {
			return nil, err
		}
		if all == 0 {
			return nil, errors.New("Postgres counted no update of " + of.table)
		}

		f := alone("heap-only updates of "+of.what, "", []float64{heapOnly / all}, atLeast(0.9))
		figures = append(figures, f.noted("%.0f updates", all))
	}
	return figures, nil
}
