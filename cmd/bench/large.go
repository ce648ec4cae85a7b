package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"syscall"
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

	db, s := srv.db, srv.store
	server := srv.url
	steps, plans := b.n(10_000, 10), b.n(1_000_000, 100)

	root, changes := b.text.manySteps(steps)
	if err := write(ctx, s, changes); err != nil {
		return nil, err
	}
	said, changes := b.text.manyCalls(steps)
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
	found := fmt.Sprintf("search in a run of %d rows of 4 kB", steps)
	list := fmt.Sprintf("page of 50 of %d plans", plans)

	for _, v := range []struct {
		name, path, encoding string
		ms                   *target
	}{
		{plan, "/api/executor/details/" + root, "", nil},
		{plan + ", gzip", "/api/executor/details/" + root, "gzip", atMost(150)},
		{plan + ", zstd", "/api/executor/details/" + root, "zstd", atMost(150)},
		{found + ", no hit", "/api/v1/plans/" + said + "/search?q=zyzzyva", "", nil},
		{found + ", 50 hits", "/api/v1/plans/" + said + "/search?q=e", "", atMost(150)},
		{list, "/api/v1/plans?limit=50", "", atMost(20)},
		{list + ", of one user", "/api/v1/plans?limit=50&userId=user-7", "", atMost(20)},
		{list + ", of one project", "/api/v1/plans?limit=50&project=project-7", "", atMost(20)},
		{list + ", of one tag", "/api/v1/plans?limit=50&tag=tag-7", "", atMost(20)},
		{list + ", of one agent", "/api/v1/plans?limit=50&agent=agent-7", "", atMost(20)},
		{list + ", of a user with one plan, the oldest", "/api/v1/plans?limit=50&userId=user-rare", "", atMost(20)},
		{list + ", of an agent with one plan, the oldest", "/api/v1/plans?limit=50&agent=agent-rare", "", atMost(20)},
	} {
		took, _, err := b.byTurns(ctx, func(ctx context.Context) (float64, error) {
			start := time.Now()
			_, err := get(ctx, client, server+v.path, v.encoding, io.Discard)
			return ms(time.Since(start)), err
		}, nil)
		if err != nil {
			return nil, err
		}
		figures = append(figures, alone(v.name, "ms", took, v.ms))
	}

	encodings, err := b.encodings(ctx, client, plan, server+"/api/executor/details/"+root)
	return append(figures, encodings...), err
}

// encodings measures what it takes to make an answer in each encoding, and its size, beside gzip at
// its default level: the answer that is not compressed, compressed by the standard library. It is the
// processor's time of client and server together, so that other programs do not matter.
func (b *bench) encodings(ctx context.Context, client *http.Client, name, url string) (figures []figure, err error) {
	plain, err := get(ctx, client, url, "", io.Discard)
	if err != nil {
		return nil, err
	}

	sizes := map[string]int{}
	served := func(encoding string) func() error {
		return func() (err error) {
			sizes[encoding], err = get(ctx, client, url, encoding, io.Discard)
			return err
		}
	}
	const usual = "gzip at its default level"
	compressed := func() error {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := get(ctx, client, url, "", w)
		err = errors.Join(err, w.Close())
		sizes[usual] = packed.Len()
		return err
	}

	for _, v := range []struct {
		name, encoding string
		baselineName   string
		baseline       func() error
	}{
		{"gzip", "gzip", usual, compressed},
		{"zstd", "zstd", usual, compressed},
		{"zstd against gzip", "zstd", "gzip", served("gzip")},
	} {
		ours, baseline, err := b.byTurns(ctx, processor(served(v.encoding)), processor(v.baseline))
		if err != nil {
			return nil, err
		}
		figures = append(figures, against(name+", "+v.name+", processor", "ms", ours, baseline, v.baselineName, atMost(1)))
	}

	for _, encoding := range []string{"gzip", "zstd", usual} {
		size := float64(sizes[encoding])
		figures = append(
			figures, alone(name+", "+encoding+", size", "MB", []float64{size / 1e6}, nil).noted("%s times smaller",
				digits(float64(plain)/size)),
		)
	}
	return figures, nil
}

// get writes the body of an answer as it was sent. It returns the number of bytes.
func get(ctx context.Context, client *http.Client, url, encoding string, into io.Writer) (bytes int, err error) {
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

	n, err := io.Copy(into, response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || response.Header.Get("Content-Encoding") != encoding) {
		err = fmt.Errorf("%s: %s, encoded as %q", url, response.Status, response.Header.Get("Content-Encoding"))
	}
	return int(n), err
}

// processor measures the milliseconds of processor time that this process takes for something.
func processor(do func() error) func(context.Context) (float64, error) {
	return func(context.Context) (float64, error) {
		var before, after syscall.Rusage
		err := errors.Join(syscall.Getrusage(syscall.RUSAGE_SELF, &before), do(),
			syscall.Getrusage(syscall.RUSAGE_SELF, &after))
		nanoseconds := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
		return ms(time.Duration(nanoseconds)), err
	}
}

// manySteps makes a plan of many steps, each with one cycle and one tool call. Its texts are not cut
// out of the stretches: these are so short for a plan that large that pieces would overlap, and zstd
// would find that.
func (t *text) manySteps(n int) (root string, changes []record.Change) {
	r, g := rand.New(rand.NewPCG(t.seed, 4)), newGenerator(t.seed+4)
	root = record.NewPlanID()
	changes = append(changes, &record.Plan{
		RootPlanID: root, CurrentPlanID: root, Title: new(t.title(r)), State: new(record.Running), StartTime: new(time.Now()),
	})

	for i := range n {
		step := record.NewStepID()
		changes = append(changes,
			&record.AgentExecution{
				RootPlanID: root, PlanID: root, StepID: step, StepIndex: new(int64(i)), AgentName: new("agent"),
				State:        new(record.Completed),
				AgentRequest: new(g.next(g.remark)), Result: new(g.next(g.remark)), StartTime: new(time.Now()),
				EndTime: new(time.Now()),
			},
			&record.ThinkAct{RootPlanID: root, StepID: step, ThinkOutput: new(t.title(r)), State: new(record.Completed)},
			&record.ActTool{
				RootPlanID: root, StepID: step, ToolCallID: record.NewToolCallID(), Name: new("tool"),
				Parameters: new(g.next(g.object)), State: new(record.Completed),
			})
	}
	return root, changes
}

// manyCalls makes a plan of many tool calls with results of 4 kB.
func (t *text) manyCalls(n int) (root string, changes []record.Change) {
	r := rand.New(rand.NewPCG(t.seed, 8))
	root = record.NewPlanID()
	step := record.NewStepID()
	changes = append(changes, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Running)},
		&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: step})

	for i := range n {
		changes = append(changes, &record.ActTool{
			RootPlanID: root, StepID: step, Seq: int64(i / 4), ToolCallID: record.NewToolCallID(), Name: new("tool"),
			Result: new(t.prompt(r)),
		})
	}
	return root, changes
}

// fillPlans adds plans of one step, first seen one second apart. A user, project, tag or agent has one of a thousand
// plans, the oldest plan has those that no other has.
func fillPlans(ctx context.Context, db *database, n int) error {
	const filled = `
		INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, first_seen_at, name, title, user_id, project, tags, told_state, start_time, end_time)
		SELECT id, id, DATE '2026-01-05', seen, 'kind-' || i % 20, 'A title of plan ' || i, 'user-' || k, 'project-' || k, ARRAY['tag-' || k, 'nightly'],
			CASE WHEN i % 20 = 0 THEN 'FAILED' ELSE 'COMPLETED' END, seen, seen + interval '1 minute'
		FROM generate_series(1, $1::integer) AS i, LATERAL (
			SELECT 'plan-' || md5(i::text) AS id, now() - make_interval(secs => i) AS seen,
				CASE WHEN i = $1::integer THEN 'rare' ELSE (i % 1000)::text END AS k
		) AS x`

	_, err := db.pool.Exec(ctx, filled, n)
	if err == nil {
		_, err = db.pool.Exec(ctx, `
			INSERT INTO actlog.agent_execution_record (root_plan_id, step_id, plan_id, part, agent_name, told_state, model_calls, tool_calls, failures, input_tokens, output_tokens)
			SELECT root_plan_id, 'step-' || substr(root_plan_id, 6), root_plan_id, part, replace(user_id, 'user', 'agent'), 'COMPLETED', 4, 6, 0, 4000, 800
			FROM actlog.plan_execution_record WHERE root_plan_id LIKE 'plan-%' AND name IS NOT NULL`)
	}
	if err != nil {
		return fmt.Errorf("fill in plans: %w", err)
	}
	return nil
}
