//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// writeWithin is how long the server may take to write after the new primary does.
const writeWithin = 5 * time.Second

// What goes on at a time on a pair: workers, runs, and plans of clients that are followed. All runs are.
const (
	pairWorkers  = 2
	pairRuns     = 4
	pairWatchers = 4
)

// failovers are the ways in which the primary is replaced, by name. Each returns when another node is to take over,
// with what still has to be done once it has.
var failovers = map[string]func(d *driver, ctx context.Context, old *node) (after func() error, err error){
	"cut":    (*driver).cutNode,
	"kill":   (*driver).killNode,
	"stop":   (*driver).stopNode,
	"switch": (*driver).switchOver,
}

func failoverNames() []string { return slices.Sorted(maps.Keys(failovers)) }

// failover replaces the primary again and again, under the load of clients and of runs, while plans of both are
// followed.
func (d *driver) failover(ctx context.Context) error {
	h, w := d.house, newWatchers(d.urls())
	defer h.close()
	defer w.close()
	h.watch = w.follow

	if err := h.staff(ctx, pairWorkers, d.pair.primaryURL(), d.pair.flags); err != nil {
		return err
	}
	for range pairWatchers {
		w.followNewest(ctx, d.ledger)
	}

	if err := h.undisturbed(ctx, h.kinds); err != nil {
		return err
	}
	if err := h.disturbed(ctx, 0, d.replacePrimaries); err != nil {
		return err
	}
	if err := d.finish(ctx); err != nil {
		return err
	}

	w.finish(ctx)
	followed, err := w.check(ctx, d.violated)
	if err != nil {
		return err
	}

	rows, err := h.check(ctx)
	if err != nil {
		return err
	}
	h.report(slices.Concat(rows, followed))
	return nil
}

// replacePrimaries makes the failovers.
func (d *driver) replacePrimaries(ctx context.Context) error {
	end := time.Now().Add(d.config.duration)
	var round []string
	for n := range d.config.kills {
		if time.Now().After(end) {
			d.say("the time is up after %d of %d failovers", n, d.config.kills)
			break
		}
		if err := d.underLoad(ctx); err != nil {
			return err
		}

		if len(round) == 0 { // each comes once in a round
			round = slices.Clone(d.config.ways)
			d.rand.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		}
		if err := d.replacePrimary(ctx, n+1, round[0]); err != nil {
			return fmt.Errorf("failover %d, %s: %w", n+1, round[0], err)
		}
		round = round[1:]

		if (n+1)%5 == 0 && n+1 < d.config.kills {
			all := d.servers()
			if err := d.check(ctx, all[d.rand.IntN(len(all))], d.ledger.take(100, d.rand.IntN), false); err != nil {
				return err
			}
		}
	}

	return nil
}

// replacePrimary makes a failover, and waits until there is a pair again.
func (d *driver) replacePrimary(ctx context.Context, n int, name string) error {
	old, err := d.pair.primary(ctx)
	if err != nil {
		return err
	}

	began := time.Now()
	after, err := failovers[name](d, ctx, old)
	if err != nil {
		return err
	}
	if err := d.another(ctx, old); err != nil {
		return err
	}

	there := time.Now()
	stop := askOld(ctx, old)
	defer stop()

	took, err := d.recovered(ctx, there)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}

	if took > writeWithin {
		d.violated("after failover %d, %s: a server wrote %.1fs after the new primary was there", n, name, took.Seconds())
	}
	d.recoveries = append(d.recoveries, took)

	if err := d.underLoad(ctx); err != nil {
		return err
	}
	if err := after(); err != nil {
		return err
	}

	if err := d.pair.eventually(ctx, "the old primary follows", func(ctx context.Context) error {
		return d.pair.settled(ctx, 2)
	}); err != nil {
		return err
	}
	asked, acknowledged := stop()
	if acknowledged > 0 {
		d.violated("failover %d, %s: the old primary %s acknowledged %d of %d writes after another one had taken over", n,
			name, old.name, acknowledged, asked)
	}

	d.say("%4d %-6s of node %s: another primary after %.1fs, all servers wrote after %.2fs more, a pair again after "+
		"%.1fs, the old one refused %d writes", n, name, old.name,
		there.Sub(began).Seconds(), took.Seconds(), time.Since(there).Seconds(), asked-acknowledged)
	return nil
}

// askOld asks the old primary to write, again and again, until stop is called, which returns how often it was asked and
// how often it acknowledged.
func askOld(ctx context.Context, old *node) (stop func() (asked, acknowledged int)) {
	ctx, cancel := context.WithCancel(ctx)
	var asked, acknowledged int
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			try, done := context.WithTimeout(ctx, time.Second)
			err := sqlOn(try, old.url("actlog"), "INSERT INTO public.probe VALUES (now())")
			done()
			if asked++; err == nil {
				acknowledged++
			}
			pause(ctx, 100*time.Millisecond)
		}
	})

	return func() (int, int) {
		cancel()
		all.Wait()
		return asked, acknowledged
	}
}

// another waits until another node than the old one is the primary, and accepts a write.
func (d *driver) another(ctx context.Context, old *node) error {
	return d.pair.eventually(ctx, "another node is the primary", func(ctx context.Context) error {
		n, err := d.pair.primary(ctx)
		if err != nil {
			return err
		}
		if n == old {
			return fmt.Errorf("%s is", n.name)
		}
		return sqlOn(ctx, n.url("actlog"), "INSERT INTO public.probe VALUES (now())")
	})
}

// cutNode cuts the primary off from the monitor and the standby. Actlog still reaches it.
func (d *driver) cutNode(_ context.Context, old *node) (after func() error, err error) {
	old.cut(true)
	return func() error { old.cut(false); return nil }, nil
}

// killNode kills the primary and its keeper, and starts them again later.
func (d *driver) killNode(ctx context.Context, old *node) (after func() error, err error) {
	old.signal(syscall.SIGKILL)
	<-old.exited
	return func() error { return d.pair.start(ctx, old) }, nil
}

// stopNode stops all processes of the primary until another one is there. When it goes on, it still takes itself for
// the primary.
func (d *driver) stopNode(_ context.Context, old *node) (after func() error, err error) {
	stopped := old.processes()
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	stopped = append(stopped, old.processes()...)
	slices.Sort(stopped)
	for _, pid := range slices.Compact(stopped) {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}

	return func() error {
		for _, pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
		return nil
	}, nil
}

// switchOver makes the standby the primary, as for maintenance.
func (d *driver) switchOver(ctx context.Context, _ *node) (after func() error, err error) {
	err = sqlOn(ctx, d.pair.monitor.url("pg_auto_failover"), "SELECT pgautofailover.perform_failover()")
	return func() error { return nil }, err
}

// onPair makes two servers use a pair with failover, and prepares for runs on them.
func (d *driver) onPair(ctx context.Context) (err error) {
	if d.pair, err = newPair(ctx, filepath.Join(d.dir, "pair"), d.config.pooler); err != nil {
		return err
	}

	second, err := d.newServer("server2")
	if err != nil {
		return err
	}
	d.others = []*server{second}
	for _, s := range d.servers() {
		s.dataDir, s.database = "", d.pair.flags("postgres")
	}

	d.house, err = d.newHouse(pairRuns)
	return err
}
