//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// writeWithin is how long the server may take to write after the new primary does.
const writeWithin = 5 * time.Second

// failovers are the ways in which the primary is replaced, by name. Each returns when another primary is there, with what still has to be done.
var failovers = map[string]func(d *driver, ctx context.Context, old *node) (after func() error, err error){
	"kill":   (*driver).killNode,
	"stop":   (*driver).stopNode,
	"switch": (*driver).switchOver,
}

// failover replaces the primary again and again, under load.
func (d *driver) failover(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(failovers))
	for n := range d.config.kills {
		if err := d.underLoad(ctx); err != nil {
			return err
		}
		old, err := d.pair.primary(ctx)
		if err != nil {
			return err
		}
		if n%len(names) == 0 { // each comes once in a round
			d.rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		}
		name := names[n%len(names)]
		began := time.Now()
		after, err := failovers[name](d, ctx, old)
		if err != nil {
			return fmt.Errorf("failover %d, %s: %w", n+1, name, err)
		}
		there := time.Now()
		took, err := d.recovered(ctx, there)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			d.violated("after failover %d, %s: %v", n+1, name, err)
			return nil
		}
		if took > writeWithin {
			d.violated("after failover %d, %s: the server wrote %.1fs after the new primary was there", n+1, name, took.Seconds())
		}
		d.recoveries = append(d.recoveries, took)
		if err := d.underLoad(ctx); err != nil {
			return err
		}
		if err := after(); err != nil {
			return fmt.Errorf("failover %d, %s: %w", n+1, name, err)
		}
		if err := d.pair.eventually(ctx, "the old primary follows", func(ctx context.Context) error { return d.pair.settled(ctx, 2) }); err != nil {
			return err
		}
		d.say("%4d %-6s of node %s: another primary after %.1fs, written after %.2fs more, a pair again after %.1fs", n+1, name, old.name,
			there.Sub(began).Seconds(), took.Seconds(), time.Since(there).Seconds())
		if (n+1)%5 == 0 && n+1 < d.config.kills {
			if err := d.check(ctx, d.ledger.take(100, d.rand.IntN), false); err != nil {
				return err
			}
		}
	}
	return nil
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
		return sqlOn(ctx, n.url("postgres", "actlog"), "INSERT INTO public.probe VALUES (now())")
	})
}

// killNode kills the primary and its keeper, and starts them again later.
func (d *driver) killNode(ctx context.Context, old *node) (after func() error, err error) {
	old.signal(syscall.SIGKILL)
	<-old.exited
	return func() error { return d.pair.start(ctx, old) }, d.another(ctx, old)
}

// stopNode stops all processes of the primary until another one is there. When it goes on, it still takes itself for the primary. Nothing that it
// is asked to write then may be acknowledged.
func (d *driver) stopNode(ctx context.Context, old *node) (after func() error, err error) {
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
		asked, accepted := 0, 0
		for until := time.Now().Add(5 * time.Second); time.Now().Before(until) && ctx.Err() == nil; asked++ {
			try, cancel := context.WithTimeout(ctx, time.Second)
			err := sqlOn(try, old.url("postgres", "actlog"), "INSERT INTO public.probe VALUES (now())")
			cancel()
			if err == nil {
				accepted++
			}
			pause(ctx, 100*time.Millisecond)
		}
		if accepted > 0 {
			d.violated("the old primary %s acknowledged %d of %d writes after another one had taken over", old.name, accepted, asked)
		}
		return nil
	}, d.another(ctx, old)
}

// switchOver makes the standby the primary, as for maintenance.
func (d *driver) switchOver(ctx context.Context, old *node) (after func() error, err error) {
	cmd := d.pair.command(ctx, []string{"perform", "switchover", "--pgdata", d.pair.monitor.dir})
	if output, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, output)
	}
	return func() error { return nil }, d.another(ctx, old)
}

// onPair makes the server use a pair with failover.
func (d *driver) onPair(ctx context.Context) (err error) {
	if d.pair, err = newPair(ctx, filepath.Join(d.dir, "pair")); err != nil {
		return err
	}
	d.server.dataDir, d.server.databaseURL = "", d.pair.url()
	return nil
}
