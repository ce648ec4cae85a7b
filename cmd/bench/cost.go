package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cost is what runs have used until now: processor time, and what Postgres wrote.
type cost struct {
	worker, postgres time.Duration
	wal              float64 // bytes
	transactions     float64 // those that wrote something
	stored           float64 // bytes of tables and indexes
}

// cost returns what was used until now. The processor time of the worker is that of this process if pid is 0, and
// otherwise that of the process and its children.
func (d *database) cost(ctx context.Context, b *bench, pid int) (c cost, err error) {
	if pid == 0 {
		c.worker, err = ownTime()
	} else {
		c.worker, err = processorTime(pid)
	}
	if err != nil {
		return c, err
	}
	if c.postgres, err = processorTime(b.postgres.PID()); err != nil {
		return c, err
	}

	err = d.pool.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn() - '0/0', pg_snapshot_xmax(pg_current_snapshot())::text::bigint`).
		Scan(&c.wal, &c.transactions)
	if err != nil {
		return c, err
	}

	// The change feed is not counted, because its rows are deleted soon.
	err = d.pool.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)
		FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'm') AND n.nspname !~ '^pg_|^information_schema$'
			AND c.oid IS DISTINCT FROM to_regclass('actlog.change')`).Scan(&c.stored)
	return c, err
}

// since returns the difference to an earlier cost.
func (c cost) since(earlier cost) cost {
	return cost{
		worker: c.worker - earlier.worker, postgres: c.postgres - earlier.postgres,
		wal: c.wal - earlier.wal, transactions: c.transactions - earlier.transactions, stored: c.stored - earlier.stored,
	}
}

// ownTime returns the processor time of this process.
func ownTime() (time.Duration, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, fmt.Errorf("processor time of this process: %w", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}

// processorTime returns the processor time of a process and of all that descend from it, those included that have
// ended. It is 0 where the system has no /proc.
func processorTime(pid int) (time.Duration, error) {
	type process struct {
		parent     int
		own, ended int64 // ticks; ended: of children that it waited for
	}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}

	all := map[int]process{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return 0, err
		}

		// The name of the program is in parentheses, and may have spaces.
		_, rest, _ := strings.Cut(string(content), " ")
		fields := strings.Fields(rest[strings.LastIndexByte(rest, ')')+1:])
		numbers := make([]int64, len(fields))
		for i, field := range fields {
			numbers[i], _ = strconv.ParseInt(field, 10, 64) // the state is a letter
		}

		id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || len(numbers) < 15 {
			return 0, errors.Join(fmt.Errorf("%s: unexpected content %q", file, content), err)
		}
		all[id] = process{int(numbers[1]), numbers[11] + numbers[12], numbers[13] + numbers[14]}
	}

	family := []int{pid}
	var ticks int64
	for i := 0; i < len(family); i++ {
		ticks += all[family[i]].own + all[family[i]].ended
		for id, p := range all {
			if p.parent == family[i] && !slices.Contains(family, id) {
				family = append(family, id)
			}
		}
	}
	const tick = 10 * time.Millisecond
	return time.Duration(ticks) * tick, nil
}
