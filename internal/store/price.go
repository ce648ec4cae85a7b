package store

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/pg"
	"github.com/actlog/actlog/record"
)

// Price is what a model costs from a day on, in US dollars per million tokens.
type Price struct {
	// Provider serves the model, as cycles name it; empty for any provider.
	Provider string
	// Model is its name; * matches any characters.
	Model string
	// FromDay is the first UTC day of this price. The next price of the same provider and
	// model ends it.
	FromDay time.Time
	// Input is for tokens for which no cache was used.
	Input, Output float64
	// CacheRead and CacheWrite are for input tokens read from and written to a cache; nil for
	// the same as Input.
	CacheRead, CacheWrite *float64
	// Source is where the price is published, Seen when it was read there.
	Source string
	Seen   *time.Time
}

// maxPrice bounds prices: a higher one is in the wrong unit.
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

// prices keeps the list of prices, and follows the table.
type prices struct {
	db      *pg.DB
	queries *db.Queries
	log     *slog.Logger
	list    atomic.Pointer[priceList]
}

// Prices lists what models cost, by provider, model and day.
func (p *prices) Prices(ctx context.Context) ([]Price, error) {
	rows, err := pg.Read(ctx, p.db, func() ([]db.ActlogModelPrice, error) { return p.queries.ModelPrices(ctx, p.db) })
	if err != nil {
		return nil, fmt.Errorf("read prices: %w", err)
	}
	list := make([]Price, len(rows))
	for i, r := range rows {
		list[i] = Price{
			Provider: r.Provider, Model: r.Model, FromDay: r.FromDay,
			Input: r.InputUSD, Output: r.OutputUSD, CacheRead: r.CacheReadUSD, CacheWrite: r.CacheWriteUSD, Seen: r.Seen,
		}
		if r.Source != nil {
			list[i].Source = *r.Source
		}
	}
	return list, nil
}

// SetPrice keeps a price, in place of one of the same provider, model and day. It is for calls
// that are written from now on. Other servers follow within a minute. The error may be a
// [*record.InvalidError].
func (p *prices) SetPrice(ctx context.Context, price Price) error {
	price.Provider, price.Model = strings.ToLower(price.Provider), strings.ToLower(price.Model)
	if err := price.validate(); err != nil {
		return fmt.Errorf("set price: %w", err)
	}
	params := db.ModelPriceSetParams{
		Provider: price.Provider, Model: price.Model, FromDay: price.FromDay,
		InputUSD: price.Input, OutputUSD: price.Output, CacheReadUSD: price.CacheRead, CacheWriteUSD: price.CacheWrite, Seen: price.Seen,
	}
	if price.Source != "" {
		params.Source = &price.Source
	}
	if err := p.queries.ModelPriceSet(ctx, p.db, params); err != nil {
		return fmt.Errorf("set price: %w", pg.Translate(err))
	}
	return p.load(ctx)
}

// DeletePrice removes a price. The error is [record.ErrNotFound] if there is none of that
// provider, model and day. Calls keep the prices that they have.
func (p *prices) DeletePrice(ctx context.Context, provider, model string, fromDay time.Time) error {
	n, err := p.queries.ModelPriceDelete(ctx, p.db, db.ModelPriceDeleteParams{
		Provider: strings.ToLower(provider), Model: strings.ToLower(model), FromDay: fromDay,
	})
	switch {
	case err != nil:
		return fmt.Errorf("delete price: %w", pg.Translate(err))
	case n == 0:
		return fmt.Errorf("delete price: %w", record.ErrNotFound)
	}
	return p.load(ctx)
}

func (p *prices) load(ctx context.Context) error {
	list, err := p.Prices(ctx)
	if err != nil {
		return err
	}
	p.list.Store(newPriceList(list))
	return nil
}

// pricesEvery is how often the table of prices is read.
const pricesEvery = time.Minute

// follow reads the table of prices from time to time, until ctx ends.
func (p *prices) follow(ctx context.Context) {
	for pg.Pause(ctx, pricesEvery) == nil {
		if err := p.load(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("read prices failed; the last ones stay in use", "error", err)
		}
	}
}

// apply sets the prices of a cycle that names its model.
func (p *prices) apply(c record.Change) {
	t, ok := c.(*record.ThinkAct)
	list := p.list.Load()
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
	if price := list.of(provider, *t.ModelName, day); price != nil {
		t.InputPrice, t.OutputPrice = &price.Input, &price.Output
		t.CacheReadPrice, t.CacheWritePrice = cmp.Or(price.CacheRead, &price.Input), cmp.Or(price.CacheWrite, &price.Input)
	}
}

// InputCost returns what input costs that a model reads, in US dollars; nil: it is not known.
func (p *prices) InputCost(model string, at time.Time, tokens *int64) *float64 {
	list := p.list.Load()
	if tokens == nil || list == nil {
		return nil
	}
	price := list.of("", model, at)
	if price == nil {
		return nil
	}
	return new(float64(*tokens) * price.Input / 1_000_000)
}

// priceList finds the price of a call.
type priceList struct {
	models    []pricedModel // the most specific first, and of one model the newest price
	providers map[string]bool

	mu    sync.Mutex
	found map[[2]string][]*Price // by provider and model, in the same order
}

// pricedModel is a price and the names that it is for.
type pricedModel struct {
	Price
	names *regexp.Regexp
}

// maxFound bounds what is remembered of names: clients make them up.
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

// of returns the price of a model on a day; nil if none is known. If the list has prices of
// the provider, only those count, and prices for any provider.
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
		// A name may have a path: openai/gpt-5, models/gemini-2.5-pro.
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
