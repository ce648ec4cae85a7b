package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/actlog/actlog/record"
)

// measureLarge reads a plan of 10,000 steps and a page of a list of a million plans over HTTP.
func measureLarge(ctx context.Context, b *bench) (figures []figure, err error) {
	srv, err := b.served(ctx, "large")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()
	db, s, server := srv.db, srv.store, srv.url
	steps, plans := b.n(10_000, 10), b.n(1_000_000, 100)
	root, changes := b.text.manySteps(steps)
	if err := write(ctx, s, changes); err != nil {
		return nil, err
	}
	if err := fillPlans(ctx, db, plans); err != nil {
		return nil, err
	}
	if err := db.settle(ctx); err != nil {
		return nil, err
	}
	client := newClient()
	defer client.CloseIdleConnections()

	plan := fmt.Sprintf("plan of %d steps", steps)
	list := fmt.Sprintf("page of 50 of %d plans", plans)
	for _, v := range []struct {
		name, path, encoding string
		ms                   *target
	}{
		{plan + ", gzip", "/api/executor/details/" + root, "gzip", atMost(150)},
		{plan + ", zstd", "/api/executor/details/" + root, "zstd", atMost(150)},
		{list, "/api/v1/plans?limit=50", "", atMost(20)},
		{list + ", of one user", "/api/v1/plans?limit=50&userId=user-7", "", nil},
	} {
		bytes := 0
		took, _, err := b.byTurns(ctx, func(ctx context.Context) (float64, error) {
			start := time.Now()
			n, err := get(ctx, client, server+v.path, v.encoding)
			bytes = n
			return ms(time.Since(start)), err
		}, nil)
		if err != nil {
			return nil, err
		}
		figures = append(figures, alone(v.name, "ms", took, v.ms))
		if v.encoding != "" {
			figures = append(figures, alone(v.name+", size", "MB", []float64{float64(bytes) / 1e6}, nil))
		}
	}
	return figures, nil
}

// get returns the size of the body of an answer in bytes, before decoding.
func get(ctx context.Context, client *http.Client, url, encoding string) (bytes int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	if encoding != "" {
		r.Header.Set("Accept-Encoding", encoding)
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || response.Header.Get("Content-Encoding") != encoding) {
		err = fmt.Errorf("%s: %s, encoded as %q", url, response.Status, response.Header.Get("Content-Encoding"))
	}
	return int(n), err
}

// manySteps makes a plan of many steps, each with one cycle and one tool call.
func (t *text) manySteps(n int) (root string, changes []record.Change) {
	r := rand.New(rand.NewPCG(t.seed, 4))
	root = record.NewPlanID()
	changes = append(changes, &record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new(t.title(r)), State: new(record.Running), StartTime: new(time.Now())})
	for i := range n {
		step := record.NewStepID()
		changes = append(changes,
			&record.AgentExecution{
				RootPlanID: root, PlanID: root, StepID: step, StepIndex: new(int64(i)), AgentName: new("agent"), State: new(record.Completed),
				AgentRequest: new(cut(r, t.prose, 150)), Result: new(cut(r, t.prose, 150)), StartTime: new(time.Now()), EndTime: new(time.Now()),
			},
			&record.ThinkAct{RootPlanID: root, StepID: step, ThinkOutput: new(t.title(r)), State: new(record.Completed)},
			&record.ActTool{RootPlanID: root, StepID: step, ToolCallID: record.NewToolCallID(), Name: new("tool"), Parameters: new(t.arg(r)), State: new(record.Completed)})
	}
	return root, changes
}

// fillPlans adds plans of one step, first seen one second apart.
func fillPlans(ctx context.Context, db *database, n int) error {
	_, err := db.pool.Exec(ctx, `
		INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, first_seen_at, name, title, user_id, told_state, start_time, end_time)
		SELECT id, id, DATE '2026-01-05', seen, 'kind-' || i % 20, 'A title of plan ' || i, 'user-' || i % 1000,
			CASE WHEN i % 20 = 0 THEN 'FAILED' ELSE 'COMPLETED' END, seen, seen + interval '1 minute'
		FROM generate_series(1, $1::integer) AS i, LATERAL (SELECT 'plan-' || md5(i::text) AS id, now() - make_interval(secs => i) AS seen) AS x`, n)
	if err == nil {
		_, err = db.pool.Exec(ctx, `
			INSERT INTO actlog.agent_execution_record (root_plan_id, step_id, plan_id, part, agent_name, told_state, model_calls, tool_calls, failures, input_tokens, output_tokens)
			SELECT root_plan_id, 'step-' || substr(root_plan_id, 6), root_plan_id, part, 'agent', 'COMPLETED', 4, 6, 0, 4000, 800
			FROM actlog.plan_execution_record WHERE root_plan_id LIKE 'plan-%' AND name IS NOT NULL`)
	}
	if err != nil {
		return fmt.Errorf("fill in plans: %w", err)
	}
	return nil
}
