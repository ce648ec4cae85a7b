package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// uncut keeps every text whole, in its row.
var uncut = content.Sizes{Cut: math.MaxInt, Least: 1, Average: 1, Most: 1}

// talk says how the prompts of a conversation are made of its messages.
type talk struct {
	name string
	// prompt returns the prompt of a turn, from the messages before it and what begins it.
	prompt func(turn int, front string, messages []message) string
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func asJSON(front string, messages []message) string {
	b, _ := json.Marshal(append([]message{{"system", front}}, messages...)) // texts
	return string(b)
}

func asText(front string, messages []message) string {
	var b strings.Builder
	b.WriteString("System: " + front + "\n\n")
	for _, m := range messages {
		b.WriteString(m.Role + ": " + m.Content + "\n\n")
	}
	return b.String()
}

// keptMessages is how many of the last messages stay when a conversation is compacted.
const keptMessages = 10

var talks = []talk{
	{"JSON", func(_ int, front string, messages []message) string { return asJSON(front, messages) }},
	{"plain", func(_ int, front string, messages []message) string { return asText(front, messages) }},
	{"time in front", func(turn int, front string, messages []message) string {
		return asJSON(fmt.Sprintf("It is %02d:%02d:%02d. %s", turn/60%24, turn%60, turn*7%60, front), messages)
	}},
	{"compacted", func(turn int, front string, messages []message) string {
		if whole := turn / 20 * 40; whole > keptMessages { // every 20 turns, what is older becomes a summary
			old := messages[:whole-keptMessages]
			summary := fmt.Sprintf("%d messages before: %s", len(old), old[len(old)-1].Content)
			messages = append([]message{{"user", summary}}, messages[len(old):]...)
		}
		return asJSON(front, messages)
	}},
}

// conversation returns the rows of a run of one step, whose cycles are the turns of a conversation. The
// same i makes the same texts, under new ids.
func (t *text) conversation(k talk, i, turns int) (changes []record.Change) {
	r := rand.New(rand.NewPCG(t.seed, uint64(1000+i)))
	root, step := record.NewPlanID(), record.NewStepID()
	start := time.Now()
	front := cut(r, t.prose, 6_000)
	messages := []message{{"user", cut(r, t.prose, 300)}}

	changes = append(changes,
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root, Title: new(t.title(r)), State: new(record.Completed), StartTime: &start,
			EndTime: &start,
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: step, AgentName: new("agent"), State: new(record.Completed),
			StartTime: &start, EndTime: &start,
		})

	for turn := range turns {
		answer, arg := t.answer(r), t.arg(r)
		result := cut(r, t.results, 5_000)
		changes = append(changes,
			&record.ThinkAct{
				RootPlanID: root, StepID: step, Seq: int64(turn), ThinkInput: new(k.prompt(turn, front, messages)),
				ThinkOutput: &answer, State: new(record.Completed),
				ModelName: new("large-1"), InputTokens: new(int64(3_000)), OutputTokens: new(int64(300)), ThinkStartTime: &start,
				ThinkEndTime: &start,
			},
			&record.ActTool{
				RootPlanID: root, StepID: step, Seq: int64(turn), ToolCallID: record.NewToolCallID(), Name: new("tool"),
				Parameters: &arg, Result: &result,
				State: new(record.Completed), StartTime: &start, EndTime: &start,
			})
		messages = append(messages, message{"assistant", answer + arg}, message{"tool", result})
	}
	return changes
}

// conversations returns the batches of each client for so many conversations.
func (b *bench) conversations(ctx context.Context, k talk, n, turns int) ([clients][][]record.Change, error) {
	return b.batches(ctx, n, 50, func(_ context.Context, from, to int) (all []record.Change, err error) {
		for i := from; i < to; i++ {
			all = append(all, b.text.conversation(k, i, turns)...)
		}
		return all, nil
	})
}

// contentBench has two stores on a database: one that keeps texts once, and one that keeps them whole.
type contentBench struct {
	*bench
	db          *database
	once, whole *store.Store
}

func measureContent(ctx context.Context, b *bench) (figures []figure, err error) {
	db, err := b.database(ctx, "content")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()

	c := &contentBench{bench: b, db: db}
	for to, sizes := range map[**store.Store]content.Sizes{&c.once: content.DefaultSizes, &c.whole: uncut} {
		s, err := db.storeWith(ctx, sizes)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, closing(s.Close)) }()
		*to = s
	}

	for _, measure := range []func(context.Context) ([]figure, error){c.space, c.rate, c.nothingRepeats, c.reads} {
		more, err := measure(ctx)
		if err != nil {
			return nil, err
		}
		figures = append(figures, more...)
	}
	return figures, nil
}

// contentTurns are the lengths of conversations, and how many of each are written.
var contentTurns = []struct{ turns, conversations int }{{5, 400}, {10, 160}, {30, 40}, {100, 8}}

// space measures what a turn takes on disk and in the WAL.
func (c *contentBench) space(ctx context.Context) (figures []figure, err error) {
	for _, k := range talks {
		before := map[int]float64{}
		disk, wal := map[int]float64{}, map[int]float64{}
		var note []string
		for _, n := range contentTurns {
			conversations := c.n(n.conversations, 1)
			if before[n.turns], _, err = c.sizeOf(ctx, c.whole, k, conversations, n.turns); err != nil {
				return nil, err
			}
			if disk[n.turns], wal[n.turns], err = c.sizeOf(ctx, c.once, k, conversations, n.turns); err != nil {
				return nil, err
			}

			note = append(note, fmt.Sprintf("%d turns: disk %s, WAL %s, disk with whole texts %s kB a turn",
				n.turns, digits(disk[n.turns]), digits(wal[n.turns]), digits(before[n.turns])))
		}

		figures = append(figures,
			against(k.name+", disk a turn", "kB", []float64{disk[100]}, []float64{disk[10]}, "of 10 turns",
				atMost(1.3)).noted("%s", strings.Join(note, "; ")),
			against(k.name+", WAL a turn", "kB", []float64{wal[100]}, []float64{wal[10]}, "of 10 turns", atMost(1.3)))
	}

	return figures, nil
}

// sizeOf writes conversations and returns what a turn takes, in kB.
func (c *contentBench) sizeOf(
	ctx context.Context, s *store.Store, k talk, conversations, turns int,
) (disk, wal float64, err error) {
	before, err := c.emptied(ctx)
	if err != nil {
		return 0, 0, err
	}
	if _, err := c.write(ctx, s, k, conversations, turns); err != nil {
		return 0, 0, err
	}

	after, err := c.sizes(ctx)
	per := float64(conversations*turns) * 1e3
	return float64(after.disk-before.disk) / per, float64(after.wal-before.wal) / per, err
}

// sizes are those of the tables with detail, and how far the WAL has come.
type sizes struct{ disk, wal int64 }

func (c *contentBench) emptied(ctx context.Context) (sizes, error) {
	if err := c.db.empty(ctx); err != nil {
		return sizes{}, err
	}
	return c.sizes(ctx)
}

func (c *contentBench) sizes(ctx context.Context) (z sizes, err error) {
	err = c.db.pool.QueryRow(ctx,
		`SELECT sum(pg_total_relation_size(p.relid))::bigint, (pg_current_wal_insert_lsn() - '0/0')::bigint
		FROM unnest('{actlog.think_act_record,actlog.act_tool_info,actlog.content}'::regclass[]) AS t, pg_partition_tree(t) AS p`).Scan(&z.disk, &z.wal)
	return z, err
}

// write writes new conversations from all clients and returns how long it took.
func (c *contentBench) write(
	ctx context.Context, s *store.Store, k talk, conversations, turns int,
) (time.Duration, error) {
	batches, err := c.conversations(ctx, k, conversations, turns)
	if err != nil {
		return 0, err
	}
	return writeAll(ctx, s, batches)
}

// writeAll writes batches from all clients and returns how long it took.
func writeAll(ctx context.Context, s *store.Store, batches [clients][][]record.Change) (time.Duration, error) {
	start := time.Now()
	err := concurrently(clients, func(i int) error {
		for _, batch := range batches[i] {
			if err := write(ctx, s, batch); err != nil {
				return err
			}
		}
		return nil
	})
	return time.Since(start), err
}

// rate compares the writing of conversations with COPY of their whole rows, and with a store that keeps
// texts whole.
func (c *contentBench) rate(ctx context.Context) (figures []figure, err error) {
	for _, v := range []struct {
		turns, conversations int
		target               *target
	}{{5, 400, nil}, {30, 40, nil}, {100, 8, atLeast(1.5)}} {
		n := c.n(v.conversations, 1)
		if err := c.db.empty(ctx); err != nil {
			return nil, err
		}
		if _, err := c.write(ctx, c.whole, talks[0], n, v.turns); err != nil {
			return nil, err
		}

		copied, err := ceilingOf(ctx, c.db)
		if err != nil {
			return nil, err
		}
		rate := func(s *store.Store) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) {
				if err := c.db.empty(ctx); err != nil {
					return 0, err
				}
				took, err := c.write(ctx, s, talks[0], n, v.turns)
				return copied.perSecond(took), err
			}
		}

		ours, baseline, err := c.byTurns(ctx, rate(c.once), func(ctx context.Context) (float64, error) {
			took, err := copied.copy(ctx)
			return copied.perSecond(took), err
		})
		if err != nil {
			return nil, err
		}
		figures = append(
			figures, against(fmt.Sprintf("conversations of %d turns, written", v.turns), mbPerSecond, ours, baseline,
				"COPY of whole rows", v.target).noted("%s", copied.note(valueOf(ours))),
		)

		ours, baseline, err = c.byTurns(ctx, rate(c.once), rate(c.whole))
		if err != nil {
			return nil, err
		}
		figures = append(figures, against(fmt.Sprintf("conversations of %d turns, written", v.turns), mbPerSecond, ours,
			baseline, "whole texts", nil))
	}

	return figures, nil
}

// nothingRepeats writes the runs of the other benchmarks, whose prompts have nothing in common.
func (c *contentBench) nothingRepeats(ctx context.Context) ([]figure, error) {
	runs := c.n(clients*runsOfClient, clients)
	rate := func(s *store.Store) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			if err := c.db.empty(ctx); err != nil {
				return 0, err
			}
			batches, err := c.batches(ctx, runs, batchRecords, c.text.whole)
			if err != nil {
				return 0, err
			}
			took, err := writeAll(ctx, s, batches)
			return float64(runs*rowsOfRun) / took.Seconds(), err
		}
	}

	ours, baseline, err := c.byTurns(ctx, rate(c.once), rate(c.whole))
	if err != nil {
		return nil, err
	}
	return []figure{against("nothing repeats, written", "rows/s", ours, baseline, "whole texts", atLeast(0.95))}, nil
}

// reads compares steps whose texts are kept once with the same that are kept whole, over HTTP.
func (c *contentBench) reads(ctx context.Context) (figures []figure, err error) {
	url, stop, err := listen(ctx, newAPI(c.once))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	client := newClient()
	defer client.CloseIdleConnections()

	for _, v := range []struct {
		turns, steps, requests int
		target                 *target
	}{{5, 100, 4_000, nil}, {30, 20, 600, atMost(1)}, {100, 4, 80, atMost(1)}} {
		if err := c.db.empty(ctx); err != nil {
			return nil, err
		}

		keys := map[*store.Store][]string{}
		for _, s := range []*store.Store{c.once, c.whole} {
			for i := range c.n(v.steps, 1) {
				changes := c.text.conversation(talks[0], i, v.turns)
				if err := write(ctx, s, changes); err != nil {
					return nil, err
				}
				keys[s] = append(keys[s], changes[1].(*record.AgentExecution).StepID)
			}
		}

		if err := c.db.settle(ctx); err != nil {
			return nil, err
		}

		bytes := 0
		took := func(s *store.Store) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) {
				start := time.Now()
				for i := range c.n(v.requests, 2) {
					r, err := http.NewRequestWithContext(ctx, http.MethodGet,
						url+"/api/executor/agent-execution/"+keys[s][i%len(keys[s])], nil)
					if err != nil {
						return 0, err
					}

					body, err := ask(client, r)
					if err != nil {
						return 0, err
					}
					bytes = len(body)
				}
				return ms(time.Since(start)) / float64(c.n(v.requests, 2)), nil
			}
		}

		ours, baseline, err := c.byTurns(ctx, took(c.once), took(c.whole))
		if err != nil {
			return nil, err
		}
		figures = append(
			figures, against(fmt.Sprintf("step of %d cycles, read", v.turns), "ms", ours, baseline, "whole texts",
				v.target).noted("answers of about %d bytes", bytes),
		)
	}

	return figures, nil
}
