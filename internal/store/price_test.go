package store_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

func day(s string) time.Time {
	d, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return d
}

func setPrice(t testing.TB, s *store.Store, provider, model, from string, input, output float64, cache ...float64) {
	t.Helper()
	p := store.Price{Provider: provider, Model: model, FromDay: day(from), Input: input, Output: output}
	if len(cache) == 2 {
		p.CacheRead, p.CacheWrite = &cache[0], &cache[1]
	}
	if err := s.SetPrice(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// cost gives what the cycle and its step cost; -1: not known.
func cost(t testing.TB, s *store.Store, step string) (cycle, rolledUp float64) {
	t.Helper()
	d := stepDetail(t, s, step)
	known := func(v *float64) float64 {
		if v == nil {
			return -1
		}
		return *v
	}
	return known(d.Cycles[0].Record.CostUSD), known(d.Figures.CostUSD)
}

// TestCost: however a call is told, it costs the same.
func TestCost(t *testing.T) {
	t.Parallel()
	s := open(t)
	setPrice(t, s, "", "dear-1", "2026-01-01", 3, 15, 0.3, 3.75)
	setPrice(t, s, "", "plain", "2026-01-01", 1, 2)
	setPrice(t, s, "", "free", "2026-01-01", 0, 0)
	for n, tt := range []struct {
		name string
		call record.ThinkAct
		want float64
	}{
		{"plain tokens", record.ThinkAct{ModelName: new("dear-1"), InputTokens: new(int64(1000)), OutputTokens: new(int64(100))}, 0.0045},
		{"cached ones are part of the input", record.ThinkAct{ModelName: new("dear-1"), InputTokens: new(int64(1000)), OutputTokens: new(int64(100)),
			CacheReadInputTokens: new(int64(600)), CacheCreationInputTokens: new(int64(200))}, 0.0006 + 0.00018 + 0.00075 + 0.0015},
		{"reasoning is part of the output", record.ThinkAct{ModelName: new("dear-1"), OutputTokens: new(int64(100)), ReasoningTokens: new(int64(90))}, 0.0015},
		{"no prices of the cache", record.ThinkAct{ModelName: new("plain"), InputTokens: new(int64(1000)), CacheReadInputTokens: new(int64(900))}, 0.001},
		{"more cached than there is", record.ThinkAct{ModelName: new("plain"), InputTokens: new(int64(100)), CacheReadInputTokens: new(int64(900))}, 0.0009},
		{"a cost that was told wins", record.ThinkAct{ModelName: new("dear-1"), InputTokens: new(int64(1000)), CostUSD: new(0.25)}, 0.25},
		{"also nothing", record.ThinkAct{ModelName: new("dear-1"), InputTokens: new(int64(1000)), CostUSD: new(0.0)}, 0},
		{"a free model", record.ThinkAct{ModelName: new("free"), InputTokens: new(int64(1000))}, 0},
		{"a model that nobody knows", record.ThinkAct{ModelName: new("mystery"), InputTokens: new(int64(1000))}, -1},
		{"a model's name only", record.ThinkAct{ModelName: new("dear-1")}, -1},
		{"tokens of no model", record.ThinkAct{InputTokens: new(int64(1000))}, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for split := range 6 { // in one piece, then field by field, in any order
				root := fmt.Sprintf("cost-%d-%d", n, split)
				key := record.ThinkAct{RootPlanID: root, StepID: root, Seq: 0}
				whole := tt.call
				whole.RootPlanID, whole.StepID, whole.ThinkStartTime = root, root, at(0)
				parts := []record.Change{&whole}
				if split > 0 {
					parts = nil
					for _, of := range []func(*record.ThinkAct){
						func(c *record.ThinkAct) { c.ModelName, c.ThinkStartTime = whole.ModelName, whole.ThinkStartTime },
						func(c *record.ThinkAct) { c.InputTokens = whole.InputTokens },
						func(c *record.ThinkAct) {
							c.OutputTokens, c.ReasoningTokens = whole.OutputTokens, whole.ReasoningTokens
						},
						func(c *record.ThinkAct) { c.CacheReadInputTokens = whole.CacheReadInputTokens },
						func(c *record.ThinkAct) { c.CacheCreationInputTokens = whole.CacheCreationInputTokens },
						func(c *record.ThinkAct) { c.CostUSD = whole.CostUSD },
					} {
						part := key
						of(&part)
						parts = append(parts, &part)
					}
					r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
				}
				if split%2 == 1 { // folded in one transaction, or one each
					write(t, s, parts...)
				} else {
					for _, part := range parts {
						write(t, s, part)
					}
				}
				cycle, rolledUp := cost(t, s, root)
				if math.Abs(cycle-tt.want) > 1e-12 || math.Abs(rolledUp-tt.want) > 1e-12 {
					t.Errorf("split %d: the cycle costs %v, its step %v, want %v", split, cycle, rolledUp, tt.want)
				}
			}
		})
	}
}

// TestPriceOf: which price a call gets.
func TestPriceOf(t *testing.T) {
	t.Parallel()
	s := open(t)
	setPrice(t, s, "acme", "quick", "2026-01-01", 1, 0)
	setPrice(t, s, "acme", "quick", "2026-06-01", 2, 0)
	setPrice(t, s, "acme", "quick-*", "2026-01-01", 3, 0)
	setPrice(t, s, "acme", "quick-large", "2026-03-01", 4, 0)
	setPrice(t, s, "other", "quick", "2026-02-01", 5, 0)
	setPrice(t, s, "", "*-tuned", "2026-01-01", 6, 0)
	for n, tt := range []struct {
		provider, model, day string
		want                 float64
	}{
		{"acme", "quick", "2026-05-31", 1},
		{"acme", "quick", "2026-06-01", 2},
		{"acme", "quick", "2027-01-01", 2},
		{"acme", "quick", "2025-12-31", -1}, // before any price
		{"ACME", "Quick", "2026-05-31", 1},
		{"acme", "acme/quick", "2026-05-31", 1},
		{"acme", "models/eu/quick", "2026-05-31", 1},
		{"acme", "quicker", "2026-05-31", -1},
		{"acme", "quick-small", "2026-05-31", 3},
		{"acme", "quick-large", "2026-05-31", 4},
		{"acme", "quick-large", "2026-02-28", 3}, // its own comes later
		{"other", "quick", "2026-05-31", 5},
		{"other", "quick-small", "2026-05-31", -1}, // it is on the list, this is not
		{"elsewhere", "quick", "2026-07-01", 2},    // not on the list: the newest of anyone's
		{"", "quick", "2026-03-01", 5},
		{"acme", "mine-tuned", "2026-05-31", 6},
		{"", "quick.", "2026-05-31", -1},
	} {
		id := fmt.Sprintf("price-%d", n)
		c := &record.ThinkAct{RootPlanID: id, StepID: id, Seq: 0, ModelName: &tt.model, InputTokens: new(int64(1_000_000)), ThinkStartTime: new(day(tt.day).Add(time.Hour))}
		if tt.provider != "" {
			c.Provider = &tt.provider
		}
		write(t, s, c)
		if got, _ := cost(t, s, id); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// TestAPriceChanges: what was on record keeps its cost, until a model is told anew.
func TestAPriceChanges(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s, other := openURL(t, pg.URL), openURL(t, pg.URL)
	setPrice(t, s, "", "m", "2026-01-01", 1, 0)
	if err := store.LoadPrices(other, t.Context()); err != nil { // which it does each minute
		t.Fatal(err)
	}
	call := func(id string) *record.ThinkAct {
		return &record.ThinkAct{RootPlanID: id, StepID: id, Seq: 0, ModelName: new("m"), InputTokens: new(int64(1_000_000)), ThinkStartTime: at(0)}
	}
	write(t, other, call("before"))
	setPrice(t, s, "", "m", "2026-01-01", 2, 0) // it was wrong
	write(t, s, call("after"))
	write(t, s, &record.ThinkAct{RootPlanID: "before", StepID: "before", Seq: 0, InputTokens: new(int64(3_000_000))})
	before, _ := cost(t, s, "before")
	after, _ := cost(t, s, "after")
	if before != 3 || after != 2 {
		t.Errorf("before %v, after %v", before, after)
	}
	if err := s.DeletePrice(t.Context(), "", "M", day("2026-01-01")); err != nil {
		t.Fatal(err)
	}
	if err := s.DeletePrice(t.Context(), "", "m", day("2026-01-01")); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	write(t, s, call("unknown"))
	if unknown, _ := cost(t, s, "unknown"); unknown != -1 {
		t.Errorf("a price that was deleted: %v", unknown)
	}
}

func TestApplyPrices(t *testing.T) {
	t.Parallel()
	s := open(t)
	var changes []record.Change
	for n := range 1200 {
		root := fmt.Sprintf("r-%d", n%600)
		changes = append(changes, &record.ThinkAct{
			RootPlanID: root, StepID: root, Seq: int64(n / 600), ModelName: new("late"), Provider: new("acme"), InputTokens: new(int64(1000)), ThinkStartTime: at(n),
		})
	}
	write(t, s, append(changes,
		&record.ThinkAct{RootPlanID: "old", StepID: "old", Seq: 0, ModelName: new("late"), InputTokens: new(int64(1000)), ThinkStartTime: new(at(0).AddDate(0, 0, -2))},
		&record.ThinkAct{RootPlanID: "told", StepID: "told", Seq: 0, ModelName: new("late"), InputTokens: new(int64(1000)), CostUSD: new(7.0), ThinkStartTime: at(0)},
		&record.ThinkAct{RootPlanID: "else", StepID: "else", Seq: 0, ModelName: new("never"), InputTokens: new(int64(1000)), ThinkStartTime: at(0)})...)
	setPrice(t, s, "", "late", "2026-01-01", 2, 0)
	exec(t, s, "DELETE FROM actlog.change")
	var told []int64
	since := at(0).Truncate(24 * time.Hour)
	n, err := s.ApplyPrices(t.Context(), since, func(n int64) { told = append(told, n) })
	if err != nil || n != 1201 || told[len(told)-1] != n {
		t.Errorf("applied to %d (%v), %v", n, told, err)
	}
	if n, err := s.ApplyPrices(t.Context(), since, nil); err != nil || n != 0 {
		t.Errorf("applied again to %d, %v", n, err)
	}
	got := map[string][2]float64{}
	for _, step := range []string{"r-0", "r-599", "old", "told", "else"} {
		cycle, rolledUp := cost(t, s, step)
		got[step] = [2]float64{cycle, rolledUp}
	}
	want := map[string][2]float64{"r-0": {0.002, 0.004}, "r-599": {0.002, 0.004}, "old": {-1, -1}, "told": {7, 7}, "else": {-1, -1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("costs of cycle and step (-want +got):\n%s", diff)
	}
	if n := query[int](t, s, "SELECT count(DISTINCT root_plan_id) FROM actlog.change WHERE kinds = '{thinkAct}'"); n != 601 {
		t.Errorf("the feed tells of %d trees", n)
	}
}

// TestUnpricedCallsWithoutAStart are found and priced as those that have one.
func TestUnpricedCallsWithoutAStart(t *testing.T) {
	t.Parallel()
	s := open(t)
	call := func(id string) *record.ThinkAct {
		return &record.ThinkAct{RootPlanID: id, StepID: id, Seq: 0, ModelName: new("late"), InputTokens: new(int64(1_000_000))}
	}
	ended, timeless := call("ended"), call("timeless")
	ended.ThinkEndTime = new(day("2024-11-20").Add(time.Hour))
	write(t, s, ended, timeless)
	const sqlUnpriced = "SELECT concat_ws(' ', model_name, model_calls, first_call AT TIME ZONE 'utc', last_call > first_call) FROM report.unpriced_model"
	if got, want := query[string](t, s, sqlUnpriced), "late 2 2024-11-20 01:00:00 t"; got != want {
		t.Errorf("unpriced: %q, want %q", got, want)
	}
	setPrice(t, s, "", "late", "2024-01-01", 1, 0)
	setPrice(t, s, "", "late", "2024-11-21", 2, 0)
	if n, err := s.ApplyPrices(t.Context(), day("2024-11-20").Add(12*time.Hour), nil); n != 2 || err != nil { // days count as a whole
		t.Errorf("applied to %d, %v", n, err)
	}
	of, _ := cost(t, s, "ended")
	now, _ := cost(t, s, "timeless")
	if of != 1 || now != 2 {
		t.Errorf("costs %v and %v", of, now)
	}
}

func TestPricesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := open(t)
	for field, p := range map[string]store.Price{
		"model":      {Model: "**", FromDay: day("2026-01-01")},
		"fromDay":    {Model: "m"},
		"input":      {Model: "m", FromDay: day("2026-01-01"), Input: -1},
		"output":     {Model: "m", FromDay: day("2026-01-01"), Output: math.NaN()},
		"cacheRead":  {Model: "m", FromDay: day("2026-01-01"), CacheRead: new(1e7)},
		"cacheWrite": {Model: "m", FromDay: day("2026-01-01"), CacheWrite: new(math.Inf(1))},
	} {
		err := s.SetPrice(t.Context(), p)
		var invalid *record.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// TestTheListOfPrices: what comes with a migration can be read, and is plausible.
func TestTheListOfPrices(t *testing.T) {
	t.Parallel()
	s := open(t)
	prices, err := s.Prices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(prices) < 100 {
		t.Errorf("%d prices", len(prices))
	}
	for _, p := range prices {
		if p.Source == "" || p.Seen == nil || p.Provider == "" || p.Output < p.Input || p.Output > 200 ||
			p.CacheRead != nil && *p.CacheRead > p.Input || p.CacheWrite != nil && *p.CacheWrite < p.Input {
			t.Errorf("%+v", p)
		}
	}
}
