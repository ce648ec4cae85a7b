package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/record"
)

// The step of the comparison.
const (
	readCycles = 5
	readTools  = 2 // per cycle
)

// measureRead reads trees and steps over HTTP from 8 clients. It compares them with reading one row
// by its key, as long as the answer, from a handler that does nothing else.
func measureRead(ctx context.Context, b *bench) (figures []figure, err error) {
	srv, err := b.served(ctx, "read")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()

	db, s := srv.db, srv.store
	server := srv.url
	runs := b.n(2_000, 20)

	if err := b.text.fill(ctx, s, 0, runs); err != nil {
		return nil, err
	}
	roots, err := ids(ctx, db, "SELECT root_plan_id FROM actlog.plan_execution_record ORDER BY 1", 1_000)
	if err != nil {
		return nil, err
	}

	steps := b.text.largerSteps(b.n(200, 4))
	if err := write(ctx, s, steps); err != nil {
		return nil, err
	}
	if err := db.settle(ctx); err != nil {
		return nil, err
	}

	large, err := ids(ctx, db, "SELECT step_id FROM actlog.agent_execution_record WHERE cycles = 5 ORDER BY 1", 1_000)
	if err != nil {
		return nil, err
	}
	small, err := ids(ctx, db, "SELECT step_id FROM actlog.agent_execution_record WHERE cycles = 2 ORDER BY 1", 1_000)
	if err != nil {
		return nil, err
	}

	rowServer, stopRow, err := b.serveRow(ctx, db)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopRow()) }()
	client := newClient()
	defer client.CloseIdleConnections()

	requests := b.n(8_000, 80)
	rate := func(prefix string, keys []string) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			rate, _, err := getAll(ctx, client, prefix, keys, requests)
			return rate, err
		}
	}

	for _, v := range []struct {
		name, prefix string
		keys         []string
	}{
		{fmt.Sprintf("tree of %d steps", stepsOfRun), server + "/api/executor/details/", roots},
		{
			fmt.Sprintf("step of %d cycles, %d tool calls", cyclesOfRun/stepsOfRun, toolsOfRun/stepsOfRun),
			server + "/api/executor/agent-execution/", small,
		},
		{
			fmt.Sprintf("step of %d cycles, %d tool calls", readCycles, readCycles*readTools),
			server + "/api/executor/agent-execution/", large,
		},
	} {
		_, bytes, err := getAll(ctx, client, v.prefix, v.keys, len(v.keys))
		if err != nil {
			return nil, err
		}
		if _, err := db.pool.Exec(ctx, "INSERT INTO texts VALUES ($1, $2) ON CONFLICT DO NOTHING", bytes,
			strings.ToValidUTF8(b.text.prompts[:bytes], "")); err != nil {
			return nil, err
		}

		ours, theirs, err := b.byTurns(ctx, rate(v.prefix, v.keys), rate(rowServer+"/text/", []string{fmt.Sprint(bytes)}))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		figures = append(
			figures, against(v.name, "requests/s", ours, theirs, "one row as long", atLeast(0.5)).noted("answers of %d bytes",
				bytes),
		)
	}

	return figures, nil
}

// largerSteps makes plans of one step, with the cycles and tool calls of the comparison.
func (t *text) largerSteps(n int) (changes []record.Change) {
	r := rand.New(rand.NewPCG(t.seed, 3))
	for range n {
		root, step := record.NewPlanID(), record.NewStepID()
		changes = append(changes, &record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: step, AgentName: new("agent"), Result: new(t.answer(r)),
			State: new(record.Completed), StartTime: new(time.Now()), EndTime: new(time.Now()),
		})
		for seq := range int64(readCycles) {
			changes = append(changes, &record.ThinkAct{
				RootPlanID: root, StepID: step, Seq: seq, ThinkInput: new(t.prompt(r)), ThinkOutput: new(t.answer(r)),
				State: new(record.Completed),
			})
			for i := range int64(readTools) {
				changes = append(changes, &record.ActTool{
					RootPlanID: root, StepID: step, Seq: seq, ToolCallID: record.NewToolCallID(), CallIndex: &i, Name: new("tool"),
					Parameters: new(t.arg(r)), Result: new(t.result(r)), State: new(record.Completed),
				})
			}
		}
	}

	return changes
}

// ids returns an even sample of the rows of a query, in order, at most most of them.
func ids(ctx context.Context, db *database, sql string, most int) ([]string, error) {
	rows, err := db.pool.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no rows", sql)
	}

	sample := make([]string, min(most, len(all)))
	for i := range sample {
		sample[i] = all[i*len(all)/len(sample)]
	}
	return sample, nil
}

// serveRow serves a row of one text by its key. It uses the same web framework and the same kind of
// pool as Actlog.
func (b *bench) serveRow(ctx context.Context, db *database) (url string, stop func() error, err error) {
	config, err := pgxpool.ParseConfig(db.url)
	if err != nil {
		return "", nil, err
	}

	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return "", nil, err
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE texts (bytes integer PRIMARY KEY, text text)"); err != nil {
		pool.Close()
		return "", nil, err
	}

	e := echo.New()
	e.GET("/text/:bytes", func(c echo.Context) error {
		var row struct {
			Text string `json:"text"`
		}
		err := pool.QueryRow(c.Request().Context(), "SELECT text FROM texts WHERE bytes = $1::text::integer",
			c.Param("bytes")).Scan(&row.Text)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, row)
	})

	url, stopServing, err := listen(ctx, e)
	if err != nil {
		pool.Close()
		return "", nil, err
	}

	return url, func() error {
		err := stopServing()
		pool.Close()
		return err
	}, nil
}

// getAll sends requests from all clients. It returns the requests per second and the mean size of a
// body.
func getAll(
	ctx context.Context, client *http.Client, prefix string, keys []string, requests int,
) (rate float64, bytes int, err error) {
	var got [clients]int
	start := time.Now()
	err = concurrently(clients, func(i int) error {
		from, to := share(requests, i, clients)
		for ; from < to; from++ {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, prefix+keys[from%len(keys)], nil)
			if err != nil {
				return err
			}
			body, err := ask(client, r)
			if err != nil {
				return err
			}
			got[i] += len(body)
		}
		return nil
	})

	took := time.Since(start)
	for _, n := range got {
		bytes += n
	}
	return float64(requests) / took.Seconds(), bytes / requests, err
}
