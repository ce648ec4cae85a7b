package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	// talksOfPeriod is how many conversations a period has: 1 GB of prompts.
	talksOfPeriod = 950
	// turnsOfTalk is how many turns a conversation has: each tells the whole of it.
	turnsOfTalk = 30
)

// measureTextSearch searches what conversations say: in the present period, which has no index, and in a past one,
// which has. And it writes while somebody searches all the time.
func measureTextSearch(ctx context.Context, b *bench) (figures []figure, err error) {
	srv, err := b.served(ctx, "textsearch")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()

	client := newClient()
	defer client.CloseIdleConnections()
	talks := b.n(talksOfPeriod, 8)
	now := time.Now()
	past := now.AddDate(0, 0, -21)

	if err := b.fillTalks(ctx, srv, "past", past, talks); err != nil {
		return nil, err
	}
	if err := age(ctx, srv.db, past); err != nil {
		return nil, err
	}
	if err := b.fillTalks(ctx, srv, "present", now, talks); err != nil {
		return nil, err
	}

	size := func(what string) (n float64, err error) {
		err = srv.db.pool.QueryRow(ctx,
			"SELECT sum(pg_"+what+"(c.oid)) FROM pg_class AS c WHERE c.relnamespace = 'actlog'::regnamespace AND c.relname ~ $1",
			"^(content|think_act_record|act_tool_info)_p"+
				store.PeriodStart(past.UTC().Truncate(24*time.Hour), 7).Format("20060102")+"$").Scan(&n)
		return n, err
	}
	before, err := size("indexes_size")
	if err != nil {
		return nil, err
	}

	start := time.Now()
	u, err := upkeep.Start(ctx, srv.store, upkeep.Config{})
	if err != nil {
		return nil, err
	}

	err = u.Run(ctx)
	u.Close()
	if err != nil {
		return nil, err
	}

	took := time.Since(start)
	after, err := size("indexes_size")
	if err != nil {
		return nil, err
	}
	rows, err := size("table_size")
	if err != nil {
		return nil, err
	}

	figures = append(figures,
		alone(fmt.Sprintf("making the index of a past period of %d conversations", talks), "s", []float64{took.Seconds()},
			nil),
		alone("size of the index, a byte of the rows", "bytes", []float64{(after - before) / rows}, nil))
	if err := srv.db.settle(ctx); err != nil {
		return nil, err
	}

	middle := talks / 2
	for _, v := range []struct {
		name, q, filters string
		target           *target
	}{
		{"present period, rare identifier in the middle, first hit", talkID("present", middle), "&limit=1", atMost(1_000)},
		{"present period, no hit, all read or 0.7 s", "zyzzyva4711", "&since=7d", nil},
		{"present period, word that all have", "the", "&since=7d", atMost(100)},
		{"past period, rare identifier", talkID("past", middle), "&until=7d", atMost(50)},
		{
			"past period, rare identifier, in prompts, answers and calls", talkID("past", middle),
			"&until=7d&kind=thinkAct,actTool", atMost(50),
		},
		{"past period, no hit", "zyzzyva4711", "&until=7d", atMost(50)},
		{"past period, word that all have", "the", "&until=7d", atMost(200)},
		{"past period, words in a row that nobody has in a row", "the and of the to", "&until=7d", nil},
	} {
		hits := -1
		times, _, err := b.byTurns(ctx, func(ctx context.Context) (float64, error) {
			start := time.Now()
			n, err := searchOnce(ctx, client, srv.url, v.q, v.filters, strings.HasSuffix(v.name, "first hit"))
			took := time.Since(start)
			hits = n
			return ms(took), errors.Join(err, pg.Pause(ctx, took)) // the client has to rest
		}, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		figures = append(figures, alone(v.name, "ms", times, v.target).noted("%d hits", hits))
	}

	f, err := b.writeWhileSearched(ctx, srv, client)
	if err != nil {
		return nil, err
	}
	loaded, err := measureTextLoad(ctx, b)
	return slices.Concat(figures, []figure{f}, loaded), err
}

// searchOnce searches and returns how many hits came. If it is to find something, it goes on until there is a hit.
func searchOnce(ctx context.Context, client *http.Client, base, q, filters string, find bool) (int, error) {
	for cursor := ""; ; {
		var body strings.Builder
		if _, err := get(ctx, client, base+"/api/v1/search?q="+url.QueryEscape(q)+filters+cursor, "", &body); err != nil {
			return 0, err
		}
		var page struct {
			Items      []json.RawMessage
			NextCursor string
		}
		if err := json.Unmarshal([]byte(body.String()), &page); err != nil {
			return 0, err
		}

		if len(page.Items) > 0 || page.NextCursor == "" || !find {
			return len(page.Items), nil
		}
		cursor = "&cursor=" + url.QueryEscape(page.NextCursor)
	}
}

// writeWhileSearched writes runs at the rate of one client, alone and while another client searches for what nobody
// says.
func (b *bench) writeWhileSearched(ctx context.Context, srv *served, client *http.Client) (figure, error) {
	turn := 0
	writing := func(ctx context.Context) (float64, error) {
		turn++
		runs := b.n(150, 2)
		start := time.Now()
		for i := range runs {
			if err := write(ctx, srv.store, b.talk(fmt.Sprintf("while%d", turn), i, time.Now())); err != nil {
				return 0, err
			}
		}
		return float64(runs) / time.Since(start).Seconds(), nil
	}

	searched := func(ctx context.Context) (float64, error) {
		searching, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			for searching.Err() == nil {
				if _, err := get(searching, client, srv.url+"/api/v1/search?q=zyzzyva4711", "", io.Discard); err != nil &&
					searching.Err() == nil {
					done <- err
					return
				}
			}
			done <- nil
		}()

		rate, err := writing(ctx)
		stop()
		return rate, errors.Join(err, <-done)
	}

	ours, baseline, err := b.byTurns(ctx, searched, writing)
	return against("conversations written while a client searches all the time", "runs/s", ours, baseline,
		"nobody searches", atLeast(0.95)), err
}

// fillTalks writes conversations of a period.
func (b *bench) fillTalks(ctx context.Context, srv *served, of string, at time.Time, talks int) error {
	return concurrently(clients, func(client int) error {
		from, to := share(talks, client, clients)
		for i := from; i < to; i++ {
			if err := write(ctx, srv.store, b.talk(of, i, at)); err != nil {
				return err
			}
		}
		return nil
	})
}

// age moves all that is on record into the period of a time, as if it had been written then.
func age(ctx context.Context, db *database, at time.Time) error {
	day := store.PeriodStart(at.UTC().Truncate(24*time.Hour), 7).Format(time.DateOnly)
	for _, table := range []string{"think_act_record", "act_tool_info", "content"} {
		if _, err := db.pool.Exec(ctx, "SELECT actlog.add_partition($1, $2::text::date, $2::text::date + 7)", table,
			day); err != nil {
			return err
		}
	}

	for _, table := range append([]string{"content"}, recordTables...) {
		if _, err := db.pool.Exec(ctx, "UPDATE actlog."+table+" SET part = $1::text::date", day); err != nil {
			return err
		}
	}
	return nil
}

// talkID is an identifier that one conversation says, once.
func talkID(of string, i int) string { return fmt.Sprintf("order-%s-%06d", of, i) }

// talk returns a conversation that began in a period, the later the smaller i.
func (b *bench) talk(of string, i int, at time.Time) (changes []record.Change) {
	r := rand.New(rand.NewPCG(b.text.seed, uint64(i)))
	began := at.Add(-time.Duration(i) * time.Second)
	root := fmt.Sprintf("talk-%s-%06d", of, i)
	step := root + "-s"

	changes = append(changes,
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root, Title: new(b.text.title(r)), UserRequest: new(cut(r, b.text.prose, 300)),
			StartTime: &began, State: new(record.Completed),
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: step, AgentName: new("clerk"), State: new(record.Completed),
			Result: new(b.text.answer(r)),
		})

	said := []map[string]string{{"role": "system", "content": cut(r, b.text.prose, 1_500)}}
	for turn := range turnsOfTalk {
		text := cut(r, b.text.results, 1_500)
		if turn == turnsOfTalk/2 {
			text += " " + talkID(of, i)
		}
		said = append(said, map[string]string{"role": "user", "content": text})
		prompt, err := json.Marshal(said)
		if err != nil {
			panic(err) // maps of texts
		}

		answer := cut(r, b.text.prose, 400)
		said = append(said, map[string]string{"role": "assistant", "content": answer})
		changes = append(changes, &record.ThinkAct{
			RootPlanID: root, StepID: step, Seq: int64(turn), ThinkInput: new(string(prompt)), ThinkOutput: &answer,
			State: new(record.Completed),
		},
			&record.ActTool{
				RootPlanID: root, StepID: step, Seq: int64(turn), ToolCallID: fmt.Sprint("call-", turn), Name: new("look"),
				Parameters: new(b.text.arg(r)), Result: &text, State: new(record.Completed),
			})
	}

	return changes
}
