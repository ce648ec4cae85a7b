package store_test

import (
	stdcmp "cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
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
	p := store.Price{Provider: provider, Model: model, FromDay: day(from)}
	p.Input, p.Output = input, output
	if len(cache) == 2 {
		p.CacheRead, p.CacheWrite = &cache[0], &cache[1]
	}
	if err := s.SetPrice(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// cost returns the cost of a step's first cycle and of the step. Unknown costs are -1.
func cost(t testing.TB, s *store.Store, step string) (cycle, rolledUp float64) {
	t.Helper()
	d := storetest.StepDetail(t, s, step)
	unknown := -1.0
	return *stdcmp.Or(d.Cycles[0].Record.CostUSD, &unknown), *stdcmp.Or(d.Figures.CostUSD, &unknown)
}

// TestCost checks that a call costs the same whether it is written at once or field by field, in
// any order.
func TestCost(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	setPrice(t, s, "", "dear-1", "2026-01-01", 3, 15, 0.3, 3.75)
	setPrice(t, s, "", "plain", "2026-01-01", 1, 2)
	setPrice(t, s, "", "free", "2026-01-01", 0, 0)

	if err := s.SetPrice(t.Context(),
		store.Price{Model: "tiered", FromDay: day("2026-01-01"),
			Rates: store.Rates{Input: 1, Output: 2, CacheRead: new(0.1)},
			Tiers: []store.Tier{
				{
					Above: 1000, Rates: store.Rates{
						Input: 10, Output: 20, CacheRead: new(1.0), CacheWrite: new(15.0), CacheWrite1h: new(30.0),
					},
				},
				{Above: 5000, Rates: store.Rates{Input: 100, Output: 200}},
			}}); err != nil {
		t.Fatal(err)
	}

	for n, tt := range []struct {
		name string
		call record.ThinkAct
		want float64
	}{
		{
			"plain tokens", record.ThinkAct{
				ModelName: new("dear-1"), InputTokens: new(int64(1000)), OutputTokens: new(int64(100)),
			}, 0.0045,
		},
		{"cached tokens are part of the input",
			record.ThinkAct{ModelName: new("dear-1"), InputTokens: new(int64(1000)), OutputTokens: new(int64(100)),
				CacheReadInputTokens: new(int64(600)), CacheCreationInputTokens: new(int64(200))},
			0.0006 + 0.00018 + 0.00075 + 0.0015},
		{
			"reasoning is part of the output",
			record.ThinkAct{ModelName: new("dear-1"), OutputTokens: new(int64(100)), ReasoningTokens: new(int64(90))}, 0.0015,
		},
		{"written for an hour", record.ThinkAct{ModelName: new("dear-1"), InputTokens: new(int64(1000)),
			CacheCreationInputTokens:   new(int64(300)),
			CacheCreation1hInputTokens: new(int64(200))}, 0.0021 + 0.000375 + 0.0012},
		{"written for an hour alone",
			record.ThinkAct{ModelName: new("dear-1"), InputTokens: new(int64(100_000)),
				CacheCreationInputTokens:   new(int64(100_000)),
				CacheCreation1hInputTokens: new(int64(100_000))}, 0.6},
		{"more written for an hour than in all",
			record.ThinkAct{ModelName: new("dear-1"), InputTokens: new(int64(1000)), CacheCreationInputTokens: new(int64(300)),
				CacheCreation1hInputTokens: new(int64(900))}, 0.0021 + 0.0018},
		{"no price for an hour", record.ThinkAct{ModelName: new("plain"), InputTokens: new(int64(1000)),
			CacheCreationInputTokens:   new(int64(1000)),
			CacheCreation1hInputTokens: new(int64(1000))}, 0.002},
		{
			"at the end of a tier", record.ThinkAct{
				ModelName: new("tiered"), InputTokens: new(int64(1000)), OutputTokens: new(int64(100)),
			}, 0.0012,
		},
		{"in the next tier", record.ThinkAct{ModelName: new("tiered"), InputTokens: new(int64(1001)),
			OutputTokens: new(int64(100)), CacheReadInputTokens: new(int64(1)),
			CacheCreationInputTokens: new(int64(200)), CacheCreation1hInputTokens: new(int64(100))},
			0.008 + 0.002 + 0.000001 + 0.0015 + 0.003},
		{"in the last tier", record.ThinkAct{ModelName: new("tiered"), InputTokens: new(int64(10_000)),
			OutputTokens: new(int64(100)), CacheCreationInputTokens: new(int64(1)),
			CacheCreation1hInputTokens: new(int64(1))}, 0.9999 + 0.0002 + 0.02},
		{
			"no prices for cached tokens",
			record.ThinkAct{ModelName: new("plain"), InputTokens: new(int64(1000)), CacheReadInputTokens: new(int64(900))},
			0.001,
		},
		{
			"more cached tokens than input",
			record.ThinkAct{ModelName: new("plain"), InputTokens: new(int64(100)), CacheReadInputTokens: new(int64(900))},
			0.0009,
		},
		{
			"a cost that was sent wins", record.ThinkAct{
				ModelName: new("dear-1"), InputTokens: new(int64(1000)), CostUSD: new(0.25),
			}, 0.25,
		},
		{
			"a sent cost of zero wins", record.ThinkAct{
				ModelName: new("dear-1"), InputTokens: new(int64(1000)), CostUSD: new(0.0),
			}, 0,
		},
		{"a free model", record.ThinkAct{ModelName: new("free"), InputTokens: new(int64(1000))}, 0},
		{"a model without a price", record.ThinkAct{ModelName: new("mystery"), InputTokens: new(int64(1000))}, -1},
		{"a model without tokens", record.ThinkAct{ModelName: new("dear-1")}, -1},
		{"tokens without a model", record.ThinkAct{InputTokens: new(int64(1000))}, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for split := range 6 { // first in one piece, then field by field
				root := fmt.Sprintf("cost-%d-%d", n, split)
				key := record.ThinkAct{RootPlanID: root, StepID: root, Seq: 0}
				whole := tt.call
				whole.RootPlanID, whole.StepID = root, root
				whole.ThinkStartTime = at(0)

				parts := []record.Change{&whole}
				if split > 0 {
					parts = nil
					for _, set := range []func(*record.ThinkAct){
						func(c *record.ThinkAct) { c.ModelName, c.ThinkStartTime = whole.ModelName, whole.ThinkStartTime },
						func(c *record.ThinkAct) { c.InputTokens = whole.InputTokens },
						func(c *record.ThinkAct) {
							c.OutputTokens, c.ReasoningTokens = whole.OutputTokens, whole.ReasoningTokens
						},
						func(c *record.ThinkAct) { c.CacheReadInputTokens = whole.CacheReadInputTokens },
						func(c *record.ThinkAct) { c.CacheCreationInputTokens = whole.CacheCreationInputTokens },
						func(c *record.ThinkAct) { c.CacheCreation1hInputTokens = whole.CacheCreation1hInputTokens },
						func(c *record.ThinkAct) { c.CostUSD = whole.CostUSD },
					} {
						part := key
						set(&part)
						parts = append(parts, &part)
					}
					r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
				}

				if split%2 == 1 { // in one transaction, or in one transaction per part
					storetest.Write(t, s, parts...)
				} else {
					for _, part := range parts {
						storetest.Write(t, s, part)
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

// TestPriceOfCall checks which price a call gets.
func TestPriceOfCall(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
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
		{"acme", "quick-large", "2026-02-28", 3}, // its own price begins later
		{"other", "quick", "2026-05-31", 5},
		{"other", "quick-small", "2026-05-31", -1}, // the provider has prices, but none for this model
		{"elsewhere", "quick", "2026-07-01", 2},    // a provider without prices: the newest of any provider
		{"", "quick", "2026-03-01", 5},
		{"acme", "mine-tuned", "2026-05-31", 6},
		{"", "quick.", "2026-05-31", -1},
	} {
		id := fmt.Sprintf("price-%d", n)
		c := &record.ThinkAct{
			RootPlanID: id, StepID: id, Seq: 0, ModelName: &tt.model, InputTokens: new(int64(1_000_000)),
			ThinkStartTime: new(day(tt.day).Add(time.Hour)),
		}
		if tt.provider != "" {
			c.Provider = &tt.provider
		}

		storetest.Write(t, s, c)
		if got, _ := cost(t, s, id); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}

		if tt.provider != "" {
			continue
		}
		if got := s.InputCost(tt.model, *c.ThinkStartTime, new(int64(500_000))); (got == nil) != (tt.want < 0) ||
			got != nil && *got != tt.want/2 {
			t.Errorf("%+v: the input alone costs %v", tt, got)
		}
	}
}

// TestOwnPriceOfAProxy checks that a price of the operator for a proxy counts, whoever's model it passes on.
func TestOwnPriceOfAProxy(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for n, tt := range []struct{ provider, model, priced string }{
		{"litellm", "bedrock/anthropic.claude-x", "bedrock/anthropic.claude-x"},
		{
			"litellm", "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
			"bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
		},
		{
			"litellm", "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-sonnet-4-5-20250929-v1:0",
			"*claude-sonnet-4-5*",
		},
		{"openrouter", "amazon/nova-pro-v1", "amazon/nova-pro-v1"},
		{"openrouter", "anthropic/claude-sonnet-4.5", "anthropic/claude-sonnet-4.5"},
		{"aws.bedrock", "anthropic.claude-haiku-4-5-20251001-v1:0", "anthropic.claude-haiku-4-5-20251001-v1:0"},
	} {
		setPrice(t, s, tt.provider, tt.priced, "2026-01-01", 7, 0)
		id := fmt.Sprintf("proxy-%d", n)
		storetest.Write(t, s, &record.ThinkAct{
			RootPlanID: id, StepID: id, Seq: 0, Provider: &tt.provider, ModelName: &tt.model, InputTokens: new(int64(100_000)),
			ThinkStartTime: new(day("2026-11-20")),
		})

		if got, _ := cost(t, s, id); math.Abs(got-0.7) > 1e-9 {
			t.Errorf("%+v costs %v", tt, got)
		}
	}
}

// TestPriceChange checks that a call keeps its price when the price changes, until a change names
// its model again. A deleted price is not used.
func TestPriceChange(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s, other := storetest.OpenURL(t, pg.URL), storetest.OpenURL(t, pg.URL)
	setPrice(t, s, "", "m", "2026-01-01", 1, 0)
	if err := store.LoadPrices(other, t.Context()); err != nil { // an open store does it each minute
		t.Fatal(err)
	}
	call := func(id string) *record.ThinkAct {
		return &record.ThinkAct{
			RootPlanID: id, StepID: id, Seq: 0, ModelName: new("m"), InputTokens: new(int64(1_000_000)), ThinkStartTime: at(0),
		}
	}

	storetest.Write(t, other, call("before"))
	setPrice(t, s, "", "m", "2026-01-01", 2, 0) // corrects the price
	storetest.Write(t, s, call("after"))
	storetest.Write(t, s, &record.ThinkAct{
		RootPlanID: "before", StepID: "before", Seq: 0, InputTokens: new(int64(3_000_000)),
	})

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
	storetest.Write(t, s, call("unknown"))
	if unknown, _ := cost(t, s, "unknown"); unknown != -1 {
		t.Errorf("cost with a deleted price: %v", unknown)
	}
}

// TestApplyPrices checks that calls since a day get the prices that were set after them, also in
// the figures of their steps and in the feed.
func TestApplyPrices(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	var changes []record.Change
	for n := range 1200 {
		root := fmt.Sprintf("r-%d", n%600)
		changes = append(changes, &record.ThinkAct{
			RootPlanID: root, StepID: root, Seq: int64(n / 600), ModelName: new("late"), Provider: new("acme"),
			InputTokens: new(int64(1000)), ThinkStartTime: at(n),
		})
	}

	storetest.Write(t, s, append(changes,
		&record.ThinkAct{
			RootPlanID: "old", StepID: "old", Seq: 0, ModelName: new("late"), InputTokens: new(int64(1000)),
			ThinkStartTime: new(at(0).AddDate(0, 0, -2)),
		},
		&record.ThinkAct{
			RootPlanID: "sent", StepID: "sent", Seq: 0, ModelName: new("late"), InputTokens: new(int64(1000)),
			CostUSD: new(7.0), ThinkStartTime: at(0),
		},
		&record.ThinkAct{
			RootPlanID: "else", StepID: "else", Seq: 0, ModelName: new("never"), InputTokens: new(int64(1000)),
			ThinkStartTime: at(0),
		})...)

	setPrice(t, s, "", "late", "2026-01-01", 2, 0)
	storetest.Exec(t, s, "DELETE FROM actlog.change")

	var progress []int64
	since := at(0).Truncate(24 * time.Hour)
	n, err := s.ApplyPrices(t.Context(), since, func(n int64) { progress = append(progress, n) })
	if err != nil || n != 1201 || progress[len(progress)-1] != n {
		t.Errorf("applied to %d calls (progress %v), %v", n, progress, err)
	}
	if n, err := s.ApplyPrices(t.Context(), since, nil); err != nil || n != 0 {
		t.Errorf("applied again to %d calls, %v", n, err)
	}

	got := map[string][2]float64{}
	for _, step := range []string{"r-0", "r-599", "old", "sent", "else"} {
		cycle, rolledUp := cost(t, s, step)
		got[step] = [2]float64{cycle, rolledUp}
	}

	// Prices that are applied later are those of the tier, too.
	storetest.Write(t, s, &record.ThinkAct{RootPlanID: "long", StepID: "long", Seq: 0, ModelName: new("long-1"),
		InputTokens:              new(int64(400_000)),
		CacheCreationInputTokens: new(int64(100_000)), CacheCreation1hInputTokens: new(int64(100_000)),
		ThinkStartTime: at(0)})
	if err := s.SetPrice(t.Context(),
		store.Price{
			Model: "long-1", FromDay: day("2026-01-01"), Rates: store.Rates{Input: 1}, Tiers: []store.Tier{
				{Above: 200_000, Rates: store.Rates{Input: 2}},
			},
		}); err != nil {
		t.Fatal(err)
	}

	if n, err := s.ApplyPrices(t.Context(), since, nil); err != nil || n != 1 {
		t.Errorf("applied to %d long calls, %v", n, err)
	}
	if cycle, rolledUp := cost(t, s, "long"); cycle != 1 || rolledUp != 1 {
		t.Errorf("the long call costs %v, its step %v", cycle, rolledUp)
	}

	want := map[string][2]float64{
		"r-0": {0.002, 0.004}, "r-599": {0.002, 0.004}, "old": {-1, -1}, "sent": {7, 7}, "else": {-1, -1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("costs of cycle and step (-want +got):\n%s", diff)
	}
	if n := storetest.Query[int](t, s,
		"SELECT count(DISTINCT root_plan_id) FROM actlog.change WHERE kinds = '{thinkAct}'"); n != 602 {
		t.Errorf("the feed reports %d trees", n)
	}
}

// TestUnpricedCallsWithoutStart checks that calls without a start time are reported as unpriced,
// and that ApplyPrices takes their end, or else the date of their tree.
func TestUnpricedCallsWithoutStart(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	call := func(id string) *record.ThinkAct {
		return &record.ThinkAct{
			RootPlanID: id, StepID: id, Seq: 0, ModelName: new("late"), InputTokens: new(int64(1_000_000)),
		}
	}

	ended, timeless := call("ended"), call("timeless")
	ended.ThinkEndTime = new(day("2024-11-20").Add(time.Hour))
	storetest.Write(t, s, ended, timeless)
	const sqlUnpriced = "SELECT concat_ws(' ', model_name, model_calls, first_call AT TIME ZONE 'utc', last_call > " +
		"first_call) FROM report.unpriced_model"
	if got, want := storetest.Query[string](t, s, sqlUnpriced), "late 2 2024-11-20 01:00:00 t"; got != want {
		t.Errorf("unpriced: %q, want %q", got, want)
	}

	setPrice(t, s, "", "late", "2024-01-01", 1, 0)
	setPrice(t, s, "", "late", "2024-11-21", 2, 0)
	// the whole first day counts
	if n, err := s.ApplyPrices(t.Context(), day("2024-11-20").Add(12*time.Hour), nil); n != 2 || err != nil {
		t.Errorf("applied to %d calls, %v", n, err)
	}

	endedCost, _ := cost(t, s, "ended")
	timelessCost, _ := cost(t, s, "timeless")
	if endedCost != 1 || timelessCost != 2 {
		t.Errorf("costs %v and %v", endedCost, timelessCost)
	}
}

// TestInvalidPrices checks that the error names the field of a price that is invalid.
func TestInvalidPrices(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for field, p := range map[string]store.Price{
		"model":      {Model: "**", FromDay: day("2026-01-01")},
		"fromDay":    {Model: "m"},
		"input":      {Model: "m", FromDay: day("2026-01-01"), Rates: store.Rates{Input: -1}},
		"output":     {Model: "m", FromDay: day("2026-01-01"), Rates: store.Rates{Output: math.NaN()}},
		"cacheRead":  {Model: "m", FromDay: day("2026-01-01"), Rates: store.Rates{CacheRead: new(1e7)}},
		"cacheWrite": {Model: "m", FromDay: day("2026-01-01"), Rates: store.Rates{CacheWrite: new(math.Inf(1))}},
	} {
		err := s.SetPrice(t.Context(), p)
		var invalid *record.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// TestPriceList checks that the prices that come with the migrations can be read and are plausible.
func TestPriceList(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
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
			t.Errorf("p = %+v", p)
		}
	}
}

// TestPriceNames checks which price the names get under which models are sold. Costs are of ten calls with 100,000
// input tokens.
func TestPriceNames(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for provider, names := range map[string]map[string]float64{
		"aws.bedrock": {
			"anthropic.claude-sonnet-4-5-20250929-v1:0":                                             3.3,
			"eu.anthropic.claude-sonnet-4-5-20250929-v1:0":                                          3.3,
			"us.anthropic.claude-sonnet-4-5-20250929-v1:0":                                          3.3,
			"apac.anthropic.claude-haiku-4-5-20251001-v1:0":                                         1.1,
			"jp.anthropic.claude-opus-4-6-v1":                                                       5.5,
			"au.anthropic.claude-opus-4-7":                                                          5.5,
			"us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0":                                      3.3,
			"global.anthropic.claude-sonnet-4-5-20250929-v1:0":                                      3,
			"global.anthropic.claude-opus-5-5":                                                      4,
			"us.anthropic.claude-opus-5-5":                                                          4.4,
			"us.anthropic.claude-fable-5-1":                                                         11,
			"claude-sonnet-4-5":                                                                     3.3, // no scope
			"claude-sonnet-4-5-20250929":                                                            3.3,
			"eu.anthropic.claude-sonnet-4-20250514-v1:0":                                            3, // before 4.5
			"anthropic.claude-3-5-sonnet-20240620-v1:0":                                             3,
			"us.anthropic.claude-3-5-sonnet-20241022-v2:0":                                          3,
			"anthropic.claude-3-haiku-20240307-v1:0:200k":                                           0.25,
			"anthropic.claude-opus-4-1-20250805-v1:0":                                               15,
			"bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0":                                  3.3,
			"bedrock/us-east-1/anthropic.claude-sonnet-4-5-20250929-v1:0":                           3.3,
			"arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-sonnet-4-5-20250929-v1:0": 3.3,
			"arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0":             3.3,
			"arn:aws:bedrock:eu-central-1:123456789012:inference-profile/global.anthropic.claude-sonnet-4-5-20250929-v1:0":         3,
			"arn:aws-us-gov:bedrock:us-gov-west-1:123456789012:inference-profile/us-gov.anthropic.claude-3-7-sonnet-20250219-v1:0": 3,

			"arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3":                       -1,
			"arn:aws:bedrock:us-east-1:123456789012:custom-model/anthropic.claude-3-haiku-20240307-v1:0/a1b2c3": -1,
			"arn:aws:bedrock:us-east-1:123456789012:provisioned-model/a1b2c3":                                   -1,
			"fake.anthropic.claude-sonnet-4-5-20250929-v1:0":                                                    -1,
			"xanthropic.claude-sonnet-4-5-20250929-v1:0":                                                        -1,
			"gpt-5-mini": -1,
		},
		"bedrock":          {"eu.anthropic.claude-haiku-4-5-20251001-v1:0": 1.1},
		"AWS Bedrock":      {"claude-haiku-4-5": 1.1},
		"amazon-bedrock":   {"global.anthropic.claude-haiku-4-5-20251001-v1:0": 1},
		"bedrock_converse": {"anthropic.claude-haiku-4-5-20251001-v1:0": 1.1},
		"gcp.vertex_ai": {
			"claude-sonnet-4-5@20250929":                             3,
			"claude-opus-4-1@20250805":                               15,
			"claude-haiku-4-5@default":                               1,
			"claude-sonnet-4@latest":                                 3,
			"publishers/anthropic/models/claude-sonnet-4-5@20250929": 3,
			"projects/p/locations/us-east5/publishers/anthropic/models/claude-sonnet-4-5": 3,
			"projects/p/locations/global/publishers/google/models/gemini-2.5-flash":       0.3,
			"gemini-2.0-flash-001":                               0.1,
			"projects/p/locations/us/endpoints/123456":           -1,
			"projects/p/locations/us/endpoints/gemini-2.5-flash": -1,
		},
		"openrouter": {
			"anthropic/claude-sonnet-4.5": 3, "anthropic/claude-3.5-haiku": 0.8, "anthropic/claude-3.7-sonnet:thinking": 3,
			"anthropic/claude-4.5-sonnet": 3,
			"openai/gpt-4o-mini":          0.15, "openai/gpt-5.2": 1.75, "google/gemini-2.5-pro": 1.25, "x-ai/grok-4": 3,
			"deepseek/deepseek-chat":               0.14,
			"openrouter/anthropic/claude-opus-4.8": 5, "anthropic/claude-sonnet-4.5:free": -1,
		},
		"anthropic": {
			"claude-opus-4-8[1m]": 5, "claude-opus-4-8": 5, "claude-sonnet-4-6[1m]": 3, "claude-3-5-haiku-latest": 0.8,
			"claude-3-5-haiku-20241022": 0.8,
			"claude-sonnet-4-0":         3, "claude-opus-4-20250514": 15, "anthropic:claude-haiku-4-5": 1,
			"Claude-Haiku-4-5": 1, " claude-haiku-4-5 ": 1,
			"claude-haiku-4-5-custom": -1, "my-claude-haiku-4-5": -1, "claude-haiku-4-5-20251001-mine": -1,
			"claude-haiku-4-5-2": -1, "claude-3-5-haiku-mine": -1,
			"gpt-4o": -1, "claude": -1, "": -1, "/": -1, "[1m]": -1, "@20250929": -1, "-20250929": -1, "arn:aws:bedrock": -1,
			":": -1, "ft:": -1,
			"eu.anthropic.claude-haiku-4-5-20251001-v1:0": 1.1, // its client for Bedrock
		},
		"openai": {
			"gpt-4o-mini-2024-07-18": 0.15, "gpt-4.1": 2, "gpt-4-1-mini": 0.4, "gpt-5-mini-2025-08-07": 0.25,
			"openai/gpt-5-mini": 0.25, "openai:gpt-5-mini": 0.25,
			"gpt-4o-2024-05-13": 5, "gpt-4o-2024-08-06": 2.5, "gpt-4o": 2.5,
			"ft:gpt-4o-mini-2024-07-18:acme::abc123": 0.3, "ft:gpt-4o-mini-2024-07-18:acme:support:abc123:ckpt-step-90": 0.3,
			"ft:gpt-4o-2024-08-06:acme::x":  3.75,
			"ft:gpt-4.1-2025-04-14:acme::x": 3, "openai/ft:gpt-4.1-mini-2025-04-14:acme::x": 0.8,
			"ft:gpt-4.1-nano-2025-04-14:a": 0.2, "ft:o4-mini-2025-04-16:a::x": 4,
			"ft:gpt-3.5-turbo-0125:a::x": -1, "ft:gpt-3.5-turbo:a::x": 3, "ft:gpt-5-mini-2025-08-07:acme::x": -1,
			"ft:claude-haiku-4-5:a":       -1,
			"anthropic/claude-sonnet-4.5": 3, "claude-sonnet-4-5": -1, "my-gpt-4o": -1, "gpt-4o-mini-tuned": -1,
			"gpt-4o-2024-mine": -1, "gpt-4o-mini-2024-07-18.ft-01": -1,
			"gpt-4o-20241399": -1, "not/a/gpt-4o/thing": -1,
		},
		"azure.ai.openai": {
			"gpt-4o": 2.5, "gpt-35-turbo": 0.5, "azure/gpt-4o-mini": 0.15,
			"https://x.openai.azure.com/openai/deployments/gpt-4o/chat/completions": 2.5, "our-deployment": -1,
		},
		"gcp.gemini": {
			"models/gemini-2.5-flash": 0.3, "gemini-2.5-flash-latest": 0.3, "gemini-2.5-flash-preview-09-2025": -1,
			"gemini-3-pro-preview-11-2025":            2,
			"models/gemini-2.5-flash:generateContent": 0.3, "tunedModels/gemini-2.5-flash": -1,
			"tunedModels/gemini-2.5-flash-x1": -1, "google-gla:gemini-2.5-flash": 0.3,
		},
		"mistral_ai": {"mistral-large-latest": 0.5, "mistral-large-2512": 0.5, "mistral-large-2407": -1},
		"groq":       {"openai/gpt-oss-120b": 0.15, "llama-3.3-70b-versatile": 0.59},
		"": {
			"gpt-5-mini": 0.25, "anthropic.claude-haiku-4-5-20251001-v1:0": 1.1, "vertex_ai/claude-haiku-4-5@20251001": 1,
		},
	} {
		for name, want := range names {
			id := fmt.Sprintf("%x", sha256.Sum256([]byte(provider+"|"+name)))[:32]
			c := &record.ThinkAct{
				RootPlanID: id, StepID: id, Seq: 0, ModelName: &name, Provider: &provider, InputTokens: new(int64(100_000)),
				ThinkStartTime: new(day("2026-11-20")),
			}

			storetest.Write(t, s, c)
			got, _ := cost(t, s, id)
			if got >= 0 {
				got *= 10
			}

			if math.Abs(got-want) > 1e-9 {
				t.Errorf("%s at %q costs %v, want %v", name, provider, got, want)
			}
			if d := storetest.StepDetail(t, s, id); name != "" && *d.Cycles[0].Record.ModelName != name {
				t.Errorf("the name %q is on record as %q", name, *d.Cycles[0].Record.ModelName)
			}
		}
	}
}
