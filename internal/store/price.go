package store

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/record"
)

// Price is what a model costs from a day on, in US dollars per million tokens.
type Price struct {
	// Provider serves the model, as cycles tell it; empty: whoever does.
	Provider string
	// Model is its name; * stands for any characters.
	Model string
	// FromDay is the first UTC day of this price. The next one of the same provider
	// and model ends it.
	FromDay time.Time
	// Input is for tokens that no cache was used for.
	Input, Output float64
	// CacheRead and CacheWrite are for input tokens read from and written to a cache;
	// nil: as Input.
	CacheRead, CacheWrite *float64
	// Source says where the price is published, Seen when it was seen there.
	Source string
	Seen   *time.Time
}

// maxPrice bounds prices: beyond it, someone took the wrong unit.
const maxPrice = 1e6

func (p *Price) validate() error {
	invalid := func(field, reason string) error {
		return &record.InvalidError{Code: record.CodeInvalidValue, Field: field, Reason: reason}
	}
	switch {
	case strings.Trim(p.Model, "*") == "":
		return invalid("model", "must name a model")
	case len(p.Model) > record.MaxIDBytes || len(p.Provider) > record.MaxIDBytes:
		return invalid("model", fmt.Sprintf("and provider must be at most %d bytes long", record.MaxIDBytes))
	case p.FromDay.IsZero():
		return invalid("fromDay", "is required")
	}
	for field, amount := range map[string]*float64{"input": &p.Input, "output": &p.Output, "cacheRead": p.CacheRead, "cacheWrite": p.CacheWrite} {
		if amount != nil && !(*amount >= 0 && *amount <= maxPrice) {
			return invalid(field, fmt.Sprintf("must be from 0 to %g dollars per million tokens", float64(maxPrice)))
		}
	}
	return nil
}

// Prices lists what models cost, by provider, model and day.
func (s *Store) Prices(ctx context.Context) ([]Price, error) {
	rows, err := read(ctx, s, func(conn db.DBTX) ([]db.ActlogModelPrice, error) { return s.reads.ModelPrices(ctx, conn) })
	if err != nil {
		return nil, fmt.Errorf("reading prices: %w", err)
	}
	prices := make([]Price, len(rows))
	for i, r := range rows {
		prices[i] = Price{
			Provider: r.Provider, Model: r.Model, FromDay: r.FromDay,
			Input: r.InputUSD, Output: r.OutputUSD, CacheRead: r.CacheReadUSD, CacheWrite: r.CacheWriteUSD, Seen: r.Seen,
		}
		if r.Source != nil {
			prices[i].Source = *r.Source
		}
	}
	return prices, nil
}

// SetPrice keeps a price, in place of one of the same provider, model and day. It
// is for calls that are told from now on; servers follow within a minute. The
// error may be an [*record.InvalidError].
func (s *Store) SetPrice(ctx context.Context, p Price) error {
	p.Provider, p.Model = strings.ToLower(p.Provider), strings.ToLower(p.Model)
	if err := p.validate(); err != nil {
		return fmt.Errorf("setting a price: %w", err)
	}
	params := db.ModelPriceSetParams{
		Provider: p.Provider, Model: p.Model, FromDay: p.FromDay,
		InputUSD: p.Input, OutputUSD: p.Output, CacheReadUSD: p.CacheRead, CacheWriteUSD: p.CacheWrite, Seen: p.Seen,
	}
	if p.Source != "" {
		params.Source = &p.Source
	}
	if err := s.reads.ModelPriceSet(ctx, s.pool, params); err != nil {
		return fmt.Errorf("setting a price: %w", translate(err))
	}
	return s.loadPrices(ctx)
}

// DeletePrice takes a price out. It returns [record.ErrNotFound] where there is
// none of that provider, model and day. Calls keep the prices that they have.
func (s *Store) DeletePrice(ctx context.Context, provider, model string, fromDay time.Time) error {
	n, err := s.reads.ModelPriceDelete(ctx, s.pool, db.ModelPriceDeleteParams{
		Provider: strings.ToLower(provider), Model: strings.ToLower(model), FromDay: fromDay,
	})
	switch {
	case err != nil:
		return fmt.Errorf("deleting a price: %w", translate(err))
	case n == 0:
		return fmt.Errorf("deleting a price: %w", record.ErrNotFound)
	}
	return s.loadPrices(ctx)
}

// pricesEvery is how often prices are read anew.
const pricesEvery = time.Minute

func (s *Store) loadPrices(ctx context.Context) error {
	prices, err := s.Prices(ctx)
	if err != nil {
		return err
	}
	s.prices.Store(newPriceList(prices))
	return nil
}

// keepPrices follows the table of prices for as long as the store is open.
func (s *Store) keepPrices() {
	for pause(s.upkeep, pricesEvery) == nil {
		if err := s.loadPrices(s.upkeep); err != nil && s.upkeep.Err() == nil {
			s.log.Warn("prices stay as they were read last", "error", err)
		}
	}
}

// priceList finds the price of a call.
type priceList struct {
	models    []pricedModel // the most specific first, of one the newest price
	providers map[string]bool

	mu    sync.Mutex
	found map[[2]string][]*Price // by provider and model, in the same order
}

// pricedModel is a price and the names that it is for.
type pricedModel struct {
	Price
	names *regexp.Regexp
}

// maxFound bounds what is remembered of names that clients made up.
const maxFound = 10_000

func newPriceList(prices []Price) *priceList {
	l := &priceList{models: make([]pricedModel, len(prices)), providers: map[string]bool{}, found: map[[2]string][]*Price{}}
	for i, p := range prices {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(p.Model), `\*`, ".*")
		l.models[i] = pricedModel{p, regexp.MustCompile("^" + pattern + "$")}
		if p.Provider != "" {
			l.providers[p.Provider] = true
		}
	}
	literals := func(p Price) int { return len(p.Model) - strings.Count(p.Model, "*") }
	slices.SortStableFunc(l.models, func(a, b pricedModel) int {
		return cmp.Or(cmp.Compare(literals(b.Price), literals(a.Price)), b.FromDay.Compare(a.FromDay))
	})
	return l
}

// of gives the price of a model on a day; nil: none is known. Where the list knows
// the provider, its prices count, else anyone's.
func (l *priceList) of(provider, model string, day time.Time) *Price {
	for _, p := range l.lookUp(strings.ToLower(provider), strings.ToLower(model)) {
		if !day.Before(p.FromDay) {
			return p
		}
	}
	return nil
}

func (l *priceList) lookUp(provider, model string) []*Price {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := [2]string{provider, model}
	prices, ok := l.found[key]
	if !ok {
		// Names may come with a path: openai/gpt-5, models/gemini-2.5-pro.
		if prices = l.match(provider, model); prices == nil {
			prices = l.match(provider, model[strings.LastIndexByte(model, '/')+1:])
		}
		if len(l.found) >= maxFound {
			clear(l.found)
		}
		l.found[key] = prices
	}
	return prices
}

func (l *priceList) match(provider, model string) (prices []*Price) {
	for i := range l.models {
		m := &l.models[i]
		if (m.Provider == "" || m.Provider == provider || !l.providers[provider]) && m.names.MatchString(model) {
			prices = append(prices, &m.Price)
		}
	}
	return prices
}

// price sets the prices of a cycle that tells its model.
func (s *Store) price(c record.Change) {
	t, ok := c.(*record.ThinkAct)
	list := s.prices.Load()
	if !ok || t.ModelName == nil || list == nil {
		return
	}
	day, provider := time.Now(), ""
	switch {
	case t.ThinkStartTime != nil:
		day = *t.ThinkStartTime
	case t.ThinkEndTime != nil:
		day = *t.ThinkEndTime
	}
	if t.Provider != nil {
		provider = *t.Provider
	}
	if p := list.of(provider, *t.ModelName, day); p != nil {
		t.InputPrice, t.OutputPrice = &p.Input, &p.Output
		t.CacheReadPrice, t.CacheWritePrice = cmp.Or(p.CacheRead, &p.Input), cmp.Or(p.CacheWrite, &p.Input)
	}
}

// ApplyPrices gives prices to the cycles on record that have none and are of the UTC
// day of since or later, and rolls their costs up. It returns how many there were; done,
// where not nil, is told the same as it goes on. It may be called again after an
// error.
func (s *Store) ApplyPrices(ctx context.Context, since time.Time, done func(cycles int64)) (int64, error) {
	if err := s.loadPrices(ctx); err != nil {
		return 0, fmt.Errorf("applying prices: %w", err)
	}
	unpriced, err := s.reads.ModelUnpriced(ctx, s.pool, since)
	if err != nil {
		return 0, fmt.Errorf("applying prices: %w", translate(err))
	}
	var total int64
	for _, u := range unpriced {
		provider := ""
		if u.Provider != nil {
			provider = *u.Provider
		}
		p := s.prices.Load().of(provider, u.Model, u.Day)
		if p == nil {
			continue
		}
		for more := true; more; {
			var cycles int64
			err := s.transact(ctx, func(tx pgx.Tx) (err error) {
				cycles, more, err = s.applyPrice(ctx, tx, p, provider, u)
				return err
			})
			if err != nil {
				return total, fmt.Errorf("applying prices: %w", translate(err))
			}
			s.changed()
			if total += cycles; done != nil {
				done(total)
			}
		}
	}
	return total, nil
}

// applyPrice gives a price to the cycles of some steps; more: there may be others.
func (s *Store) applyPrice(ctx context.Context, tx pgx.Tx, p *Price, provider string, u db.ModelUnpricedRow) (cycles int64, more bool, err error) {
	steps, err := s.reads.ModelUnpricedSteps(ctx, tx, db.ModelUnpricedStepsParams{Day: u.Day, Model: u.Model, Provider: provider})
	if err != nil || len(steps) == 0 {
		return 0, false, err
	}
	wanted := make([]string, len(steps))
	for i, step := range steps {
		wanted[i] = step.RootPlanID
	}
	there, err := s.reads.PlanLock(ctx, tx, wanted)
	if err != nil {
		return 0, false, err
	}
	var roots, ids []string
	var rows []*record.Row
	for _, step := range steps {
		if slices.Contains(there, step.RootPlanID) { // else it was deleted meanwhile
			roots, ids = append(roots, step.RootPlanID), append(ids, step.StepID)
			rows = append(rows, record.Placeholder(&record.AgentExecution{RootPlanID: step.RootPlanID, StepID: step.StepID}))
		}
	}
	if len(rows) == 0 {
		return 0, true, nil
	}
	cycles, err = s.reads.ModelPriceApply(ctx, tx, db.ModelPriceApplyParams{
		InputUSD: p.Input, OutputUSD: p.Output, CacheReadUSD: *cmp.Or(p.CacheRead, &p.Input), CacheWriteUSD: *cmp.Or(p.CacheWrite, &p.Input),
		RootPlanIds: roots, StepIds: ids, Day: u.Day, Model: u.Model, Provider: provider,
	})
	if err != nil {
		return 0, false, err
	}
	rollUp, args, err := s.upsert(rows, time.Time{})
	if err != nil {
		return 0, false, err
	}
	if _, err := tx.Exec(ctx, rollUp, args...); err != nil {
		return 0, false, err
	}
	touched := slices.Compact(slices.Clone(roots))
	kinds := slices.Repeat([]string{string(record.KindThinkAct)}, len(touched))
	return cycles, true, s.reads.ChangeAppend(ctx, tx, db.ChangeAppendParams{RootPlanIds: touched, Kinds: kinds})
}
