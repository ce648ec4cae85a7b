package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/record"
)

const (
	// textRuns is how many short runs the present week has.
	textRuns = 300_000
	// turnsOfErrand is how many cycles a short run has, each with a tool call.
	turnsOfErrand = 2
	// textWriters write runs while somebody searches, each one every textWriterRest.
	textWriters    = 4
	textWriterRest = 100 * time.Millisecond
	// searchesOfRound is how often each text is searched in a turn.
	searchesOfRound = 8
)

// measureTextLoad searches the texts of many short runs of the present week while others write.
func measureTextLoad(ctx context.Context, b *bench) (figures []figure, err error) {
	srv, err := b.served(ctx, "textload")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()

	runs := b.texts
	if runs == 0 {
		runs = b.n(textRuns, 100)
	}

	start := time.Now()
	if err := b.fillErrands(ctx, srv, runs, start); err != nil {
		return nil, err
	}
	figures = append(figures, alone(fmt.Sprintf("writing %d runs to search", runs), "runs/s",
		[]float64{float64(runs) / time.Since(start).Seconds()}, nil))

	kept, err := b.keepTexts(ctx, srv, runs)
	if err != nil {
		return nil, err
	}
	figures = append(figures, kept...)

	rate, err := b.writeWhileKept(ctx, srv)
	if err != nil {
		return nil, err
	}
	figures = append(figures, rate)
	if _, err := catchUp(ctx, srv); err != nil {
		return nil, err
	}

	u, err := upkeep.Start(ctx, srv.store, upkeep.Config{})
	if err != nil {
		return nil, err
	}
	defer u.Close()

	stop := b.writeErrands(ctx, srv)
	defer func() { err = errors.Join(err, stop()) }()
	client := newClient()
	defer client.CloseIdleConnections()

	var all []float64
	for _, v := range []struct{ name, q string }{
		{"an identifier that a run says which began lately", errandID("kept", runs/100)},
		{"an identifier that the run in the middle says", errandID("kept", runs/2)},
		{"an identifier that no run says", "order-zyzzyva-4711"},
		{"a word that no run says", "zyzzyva"},
		{"a word that all runs say", "the"},
	} {
		var last answered
		var took []float64
		warm := false

		turns, _, err := b.byTurns(ctx, func(ctx context.Context) (float64, error) {
			var turn []float64
			for range b.n(searchesOfRound, 2) {
				start := time.Now()
				if last, err = searchPage(ctx, client, srv.url, v.q); err != nil {
					return 0, err
				}
				turn = append(turn, ms(time.Since(start)))
				if err := pg.Pause(ctx, time.Since(start)); err != nil { // the client has to rest
					return 0, err
				}
			}

			if warm {
				took = append(took, turn...)
			}
			warm = true
			slices.Sort(turn)
			return percentile(turn, 0.95), nil
		}, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}

		all = append(all, took...)
		figures = append(figures, alone("while others write, "+v.name+", p95", "ms", turns, atMost(1_000)).noted("%s", last))
	}

	slices.Sort(all)
	figures = append(figures, alone(fmt.Sprintf("all searches among %d runs of the present week while others write, p95",
		runs), "ms",
		[]float64{percentile(all, 0.95)}, atMost(1_000)))
	return figures, nil
}

// keepTexts keeps the texts of all runs on record for the search, as upkeep does after a migration.
func (b *bench) keepTexts(ctx context.Context, srv *served, runs int) (figures []figure, err error) {
	took, err := catchUp(ctx, srv)
	if err != nil {
		return nil, err
	}
	if err := srv.db.settle(ctx); err != nil {
		return nil, err
	}

	var kept int
	var words, table, index float64
	if err := srv.db.pool.QueryRow(ctx,
		`SELECT count(fold), COALESCE(sum(octet_length(fold)), 0), pg_total_relation_size('actlog.recent_text'), pg_total_relation_size('actlog.recent_gram')
		FROM actlog.recent_text`).Scan(&kept, &words, &table, &index); err != nil {
		return nil, err
	}

	if kept != runs {
		return nil, fmt.Errorf("the texts of %d of %d runs are kept", kept, runs)
	}
	return []figure{
		alone(fmt.Sprintf("keeping the texts of %d runs", runs), "ms/run", []float64{ms(took) / float64(runs)}, nil),
		alone("size of the kept words", "bytes/run", []float64{table / float64(runs)},
			nil).noted("%.0f bytes of words a run", words/float64(runs)),
		alone("size of their index", "bytes/run", []float64{index / float64(runs)}, nil),
	}, nil
}

// catchUp keeps the texts of all runs that have ended, and returns how long that took.
func catchUp(ctx context.Context, srv *served) (time.Duration, error) {
	u, err := upkeep.Start(ctx, srv.store, upkeep.Config{})
	if err != nil {
		return 0, err
	}
	defer u.Close()

	start := time.Now()
	for due := true; due && err == nil; { // this upkeep has its turns with another, which goes on by itself
		if err = u.Run(ctx); err == nil {
			err = srv.db.pool.QueryRow(ctx,
				`SELECT g.seq IS NULL OR g.before_at IS NOT NULL OR g.seq < (SELECT max(c.seq) FROM actlog.change AS c)
				OR EXISTS (SELECT FROM actlog.recent_text AS r WHERE r.fold IS NULL AND NOT r.passed) FROM actlog.recent_progress AS g`).Scan(&due)
		}
	}
	return time.Since(start), err
}

// writeWhileKept writes runs as fast as four clients can, while upkeep keeps their texts, and while nobody does.
func (b *bench) writeWhileKept(ctx context.Context, srv *served) (figure, error) {
	turn := 0
	writing := func(ctx context.Context) (float64, error) {
		turn++
		runs, start := b.n(2_000, 2), time.Now()
		err := concurrently(textWriters, func(writer int) error {
			for i := range runs {
				if err := write(ctx, srv.store, b.errand(fmt.Sprintf("turn%d-%d", turn, writer), i, time.Now())); err != nil {
					return err
				}
			}
			return nil
		})
		return float64(textWriters*runs) / time.Since(start).Seconds(), err
	}

	with := func(version int) func(context.Context) (float64, error) { // of another, upkeep keeps no texts
		return func(ctx context.Context) (rate float64, err error) {
			if _, err := catchUp(ctx, srv); err != nil {
				return 0, err
			}
			set := func(version int) {
				if err == nil {
					_, err = srv.db.pool.Exec(ctx, "UPDATE actlog.recent_progress SET version = $1", version)
				}
			}
			if set(version); err != nil {
				return 0, err
			}

			u, err := upkeep.Start(ctx, srv.store, upkeep.Config{})
			if err != nil {
				return 0, err
			}
			rate, err = writing(ctx)
			u.Close()
			set(store.RecentVersion)
			return rate, err
		}
	}

	ours, baseline, err := b.byTurns(ctx, with(store.RecentVersion), with(store.RecentVersion+1))
	return against("runs written by four clients while their texts are kept", "runs/s", ours, baseline, "not kept",
		atLeast(0.97)), err
}

// answered is what a search found, and whether it has looked everywhere, or has a page full.
type answered struct {
	Items      []json.RawMessage
	Incomplete bool
	Reached    *time.Time
}

func (a answered) String() string {
	if a.Incomplete {
		return fmt.Sprintf("%d hits; the time was over at the runs of %v ago", len(a.Items),
			time.Since(*a.Reached).Round(time.Second))
	}
	return fmt.Sprintf("%d hits", len(a.Items))
}

func searchPage(ctx context.Context, client *http.Client, base, q string) (a answered, err error) {
	var body strings.Builder
	if _, err := get(ctx, client, base+"/api/v1/search?perRun=3&q="+url.QueryEscape(q), "", &body); err != nil {
		return a, err
	}
	return a, json.Unmarshal([]byte(body.String()), &a)
}

// writeErrands writes runs until stop is called, which returns the first error.
func (b *bench) writeErrands(ctx context.Context, srv *served) (stop func() error) {
	writing, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- concurrently(textWriters, func(writer int) error {
			for i := 0; writing.Err() == nil; i++ {
				err := write(writing, srv.store, b.errand(fmt.Sprint("new", writer), i, time.Now()))
				if err == nil {
					err = pg.Pause(writing, textWriterRest)
				}
				if err != nil && writing.Err() == nil {
					return err
				}
			}
			return nil
		})
	}()

	return func() error {
		cancel()
		return <-done
	}
}

// fillErrands writes short runs that began one second after the other.
func (b *bench) fillErrands(ctx context.Context, srv *served, runs int, newest time.Time) error {
	const runsPerWrite = 40
	return concurrently(clients, func(client int) error {
		from, to := share(runs, client, clients)
		for ; from < to; from += runsPerWrite {
			var changes []record.Change
			for i := from; i < min(from+runsPerWrite, to); i++ {
				changes = append(changes, b.errand("kept", i, newest.Add(-time.Duration(i)*time.Second))...)
			}
			if err := write(ctx, srv.store, changes); err != nil {
				return err
			}
		}
		return nil
	})
}

// errandID is an identifier that one short run says, in a prompt and in the result of a call.
func errandID(of string, i int) string { return fmt.Sprintf("errand-%s-%06d", of, i) }

// errand returns a short run: two cycles, each with a tool call.
func (b *bench) errand(of string, i int, began time.Time) (changes []record.Change) {
	r := rand.New(rand.NewPCG(b.text.seed, uint64(i)))
	root := fmt.Sprintf("run-%s-%08d", of, i)
	step := root + "-s"

	changes = append(changes,
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root, Title: new(b.text.title(r)), UserRequest: new(cut(r, b.text.prose, 200)),
			StartTime: &began, State: new(record.Completed),
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: step, AgentName: new("runner"), State: new(record.Completed),
			Result: new(cut(r, b.text.prose, 300)),
		})

	prompt := cut(r, b.text.prose, 800)
	for turn := range turnsOfErrand {
		text := cut(r, b.text.results, 600)
		if turn == 0 {
			text += " " + errandID(of, i)
		}

		changes = append(changes,
			&record.ThinkAct{
				RootPlanID: root, StepID: step, Seq: int64(turn), ThinkInput: new(prompt),
				ThinkOutput: new(cut(r, b.text.prose, 200)), State: new(record.Completed),
			},
			&record.ActTool{
				RootPlanID: root, StepID: step, Seq: int64(turn), ToolCallID: fmt.Sprint("call-", turn), Name: new("look"),
				Parameters: new(b.text.arg(r)), Result: &text, State: new(record.Completed),
			})
		prompt += "\n" + text
	}
	return changes
}
