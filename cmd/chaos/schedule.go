//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
)

// schedule ticks every two seconds during the faults.
type schedule struct {
	name string
	kind kind
	how  object // what it does with ticks that come late, or while a run of it goes on
	all  bool   // each tick starts a run
}

const (
	ticksEach = "*/2 * * * * *"
	tickGap   = 2 // seconds
)

var schedules = []schedule{
	{name: "every", kind: agentRun("quick"), how: object{"overlap": "queue", "catchUp": "all"}, all: true},
	{name: "some", kind: agentRun("brief"), how: object{"overlap": "skip", "catchUp": "last"}},
}

// scheduledKinds are those of the runs of schedules.
func scheduledKinds() (kinds []kind) {
	for _, s := range schedules {
		kinds = append(kinds, s.kind)
	}
	return kinds
}

func (h *house) startSchedules(ctx context.Context) {
	for _, s := range schedules {
		body := object{"cron": ticksEach}
		maps.Copy(body, s.how)
		maps.Copy(body, s.kind.request)
		h.call(ctx, http.MethodPut, "/schedules/"+s.name, "", body, nil)
	}
}

// endSchedules pauses the schedules, and waits until their runs have ended. Many may be queued, and end one by one.
func (h *house) endSchedules(ctx context.Context) error {
	for _, s := range schedules {
		h.call(ctx, http.MethodPost, "/schedules/"+s.name+"/pause", "", object{}, nil)
	}

	open, before := 1, 0
	for end := time.Now(); open > 0 && ctx.Err() == nil; pause(ctx, 300*time.Millisecond) {
		if err := h.db.QueryRow(ctx, `SELECT count(*) FROM actlog.run WHERE schedule IS NOT NULL AND NOT done`).
			Scan(&open); err != nil {
			return fmt.Errorf("wait for the runs of schedules: %w", err)
		}

		switch {
		case open != before:
			before, end = open, time.Now().Add(endsWithin)
		case open > 0 && time.Now().After(end):
			h.violated("of %d runs of schedules none has ended for %s", open, endsWithin)
			return h.addScheduled(ctx)
		}
	}
	return h.addScheduled(ctx)
}

// addScheduled adds the runs of the schedules to those that are compared with undisturbed ones.
func (h *house) addScheduled(ctx context.Context) error {
	for _, s := range schedules {
		rows, err := h.db.Query(ctx, `SELECT r.plan_id, p.state FROM actlog.run AS r
			JOIN actlog.plan_execution_record AS p ON p.root_plan_id = r.root_plan_id AND p.current_plan_id = r.plan_id
			WHERE r.schedule = $1 AND r.parent_plan_id IS NULL ORDER BY r.tick_at`, s.name)
		if err != nil {
			return err
		}

		runs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*oneRun, error) {
			r := &oneRun{kind: s.kind, about: s.name}
			return r, row.Scan(&r.planID, &r.state)
		})
		if err != nil {
			return err
		}
		h.runs = append(h.runs, runs...)
	}
	return nil
}

// checkTicks checks that each tick has one outcome, and each that started a run started one, while no other run of its
// schedule went on.
func (h *house) checkTicks(ctx context.Context) (rows [][2]any, err error) {
	for what, query := range map[string]string{
		"schedule that left out ticks: %s": fmt.Sprintf(`SELECT schedule || ' ' || count(*) || ' from ' || min(tick) || ' to ' || max(tick)
			FROM actlog.schedule_tick GROUP BY schedule HAVING EXTRACT(epoch FROM max(tick) - min(tick)) <> %d * (count(*) - 1)`, tickGap),
		"tick without its run: %s": `SELECT t.schedule || ' ' || t.tick FROM actlog.schedule_tick AS t
			LEFT JOIN actlog.run AS r ON r.plan_id = t.plan_id AND r.schedule = t.schedule AND r.tick_at = t.tick
			WHERE (t.outcome = 'started') <> (r.plan_id IS NOT NULL)`,
		"run of no tick, or not of the only one: %s": `SELECT r.schedule || ' ' || r.plan_id FROM actlog.run AS r
			WHERE r.schedule IS NOT NULL AND r.parent_plan_id IS NULL AND NOT EXISTS (
				SELECT FROM actlog.schedule_tick AS t WHERE t.schedule = r.schedule AND t.tick = r.tick_at AND t.plan_id = r.plan_id)`,
		"run of a schedule that began before the one before it had ended: %s": `SELECT x.schedule || ' ' || x.plan_id FROM (
				SELECT r.schedule, r.plan_id, w.began, lag(w.ended) OVER (PARTITION BY r.schedule ORDER BY r.tick_at) AS before
				FROM actlog.run AS r CROSS JOIN LATERAL (
					SELECT min(w.id) FILTER (WHERE w.state = 'CLAIM') AS began, max(w.id) FILTER (WHERE w.state = 'DONE') AS ended
					FROM chaos.written AS w WHERE w.row = 'run' AND w.plan_id = r.plan_id
				) AS w
				WHERE r.schedule IS NOT NULL AND r.parent_plan_id IS NULL
			) AS x WHERE x.began < x.before`,
	} {
		if err := h.none(ctx, what, query); err != nil {
			return nil, err
		}
	}

	for _, s := range schedules {
		var all, started, skipped, missed int
		if err := h.db.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE outcome = 'started'),
				count(*) FILTER (WHERE outcome = 'skipped'), count(*) FILTER (WHERE outcome = 'missed')
			FROM actlog.schedule_tick WHERE schedule = $1`, s.name).Scan(&all, &started, &skipped, &missed); err != nil {
			return nil, err
		}

		if all == 0 || s.all && started < all {
			h.violated("schedule %s started %d of %d ticks", s.name, started, all)
		}
		rows = append(rows, [2]any{
			"ticks of " + s.name, fmt.Sprintf("%d: %d started, %d skipped, %d missed", all, started, skipped, missed),
		})
	}
	return rows, nil
}
