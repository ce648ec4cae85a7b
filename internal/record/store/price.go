package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// Price is what a model costs from a day on, in US dollars per million tokens.
type Price struct {
	// Provider serves the model, as cycles name it; empty for any provider.
	Provider string
	// Model is its name. In a price of the operator, * matches any characters.
	Model string
	// FromDay is the first UTC day of this price. The next price of the same provider and
	// model ends it.
	FromDay time.Time
	Rates
	// Tiers are the prices of longer prompts, the shortest first. The longest that a prompt reaches holds for all
	// tokens of a call.
	Tiers []Tier
	// Source is where the price is published, Seen when it was read there. Without Seen it is a price of the
	// operator, which counts before those of the list.
	Source string
	Seen   *time.Time
	// ListDate is the date of the list that has the price; nil for a price of the operator.
	ListDate *time.Time
}

// Rates are what tokens cost, in US dollars per million, as in a [Price].
type Rates struct {
	// Input is for tokens for which no cache was used.
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
	// CacheRead and CacheWrite are for input tokens read from and written to a cache; nil for
	// the same as Input. CacheWrite1h is for those that it keeps for an hour; nil for twice Input.
	CacheRead    *float64 `json:"cacheRead,omitempty"`
	CacheWrite   *float64 `json:"cacheWrite,omitempty"`
	CacheWrite1h *float64 `json:"cacheWrite1h,omitempty"`
}

// Tier is what tokens cost in calls with more than Above input tokens.
type Tier struct {
	Above int64 `json:"above"`
	Rates
}

// maxPrice bounds prices: a higher one is in the wrong unit.
const maxPrice = 1e6

const maxTiers = 10

func (p *Price) validate() error {
	switch {
	case strings.Trim(p.Model, "*") == "":
		return invalidPrice("model", "must name a model")
	case len(p.Model) > record.MaxIDBytes || len(p.Provider) > record.MaxIDBytes:
		return invalidPrice("model", fmt.Sprintf("and provider must be at most %d bytes long", record.MaxIDBytes))
	case p.FromDay.IsZero():
		return invalidPrice("fromDay", "is required")
	case len(p.Tiers) > maxTiers:
		return invalidPrice("tiers", fmt.Sprintf("must be at most %d", maxTiers))
	}

	if err := p.Rates.validate(""); err != nil {
		return err
	}

	above := int64(0)
	for _, t := range p.Tiers {
		if t.Above <= above || t.Above > record.MaxCount {
			return invalidPrice("tiers.above", "must be above 0, and rise from tier to tier")
		}
		if err := t.validate("tiers."); err != nil {
			return err
		}
		above = t.Above
	}
	return nil
}

func (r Rates) validate(prefix string) error {
	for field, amount := range map[string]*float64{
		"input": &r.Input, "output": &r.Output, "cacheRead": r.CacheRead, "cacheWrite": r.CacheWrite,
		"cacheWrite1h": r.CacheWrite1h,
	} {
		if amount != nil && !(*amount >= 0 && *amount <= maxPrice) {
			return invalidPrice(prefix+field, fmt.Sprintf("must be from 0 to %g dollars per million tokens", float64(maxPrice)))
		}
	}
	return nil
}

func invalidPrice(field, reason string) error {
	return &record.InvalidError{Code: record.CodeInvalidValue, Field: field, Reason: reason}
}

// whole returns the rates with those that follow from others.
func (r Rates) whole() Rates {
	return Rates{
		Input: r.Input, Output: r.Output, CacheRead: cmp.Or(r.CacheRead, &r.Input),
		CacheWrite:   cmp.Or(r.CacheWrite, &r.Input),
		CacheWrite1h: cmp.Or(r.CacheWrite1h, new(2*r.Input)),
	}
}

// times returns the rates with a surcharge.
func (r Rates) times(factor float64) Rates {
	times := func(amount *float64) *float64 {
		if amount == nil {
			return nil
		}
		return new(math.Round(*amount*factor*1e9) / 1e9)
	}

	return Rates{
		Input: *times(&r.Input), Output: *times(&r.Output),
		CacheRead: times(r.CacheRead), CacheWrite: times(r.CacheWrite), CacheWrite1h: times(r.CacheWrite1h),
	}
}

func (p *Price) times(factor float64) *Price {
	q := *p
	q.Rates = p.Rates.times(factor)
	q.Tiers = slices.Clone(p.Tiers)
	for i := range q.Tiers {
		q.Tiers[i].Rates = p.Tiers[i].times(factor)
	}
	return &q
}

// tariff returns all prices of a model, for calls whose prices depend on their tokens; nil: those of the base tier
// are all.
func (p *Price) tariff() json.RawMessage {
	if len(p.Tiers) == 0 && p.CacheWrite == nil && p.CacheWrite1h == nil && p.Seen != nil {
		return nil // nothing is written to a cache of the model
	}

	tiers := []Tier{{Rates: p.whole()}}
	for _, t := range p.Tiers {
		tiers = append(tiers, Tier{t.Above, t.whole()})
	}
	b, _ := json.Marshal(tiers) // numbers
	return b
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
			Provider: r.Provider, Model: r.Model, FromDay: r.FromDay, Seen: r.Seen, ListDate: r.ListDate,
			Source: optional.Value(r.Source),
			Rates:  Rates{r.InputUSD, r.OutputUSD, r.CacheReadUSD, r.CacheWriteUSD, r.CacheWrite1hUSD},
		}

		if len(r.Tiers) > 0 {
			if err := json.Unmarshal(r.Tiers, &list[i].Tiers); err != nil {
				return nil, fmt.Errorf("read the tiers of %s: %w", r.Model, err)
			}
		}
	}
	return list, nil
}

// SetPrice keeps a price, in place of one of the same provider, model and day. It is for calls
// that are written from now on. Other servers follow within a minute. The error may be a
// [*record.InvalidError].
func (p *prices) SetPrice(ctx context.Context, price Price) error {
	if _, err := p.set(ctx, p.db, &price); err != nil {
		return fmt.Errorf("set price: %w", err)
	}
	return p.load(ctx)
}

// ImportPrices renews the list of prices: it keeps those of another one that say something new, and returns how
// many. Prices of the operator stay as they are, and so do those of earlier days. The error may be a
// [*record.InvalidError].
func (p *prices) ImportPrices(ctx context.Context, date time.Time, list []Price) (renewed int, err error) {
	before, err := p.Prices(ctx)
	if err != nil {
		return 0, err
	}

	known := newPriceList(before)
	err = p.db.Transact(ctx, func(tx pgx.Tx) error {
		renewed = 0 // it may be tried again
		for _, price := range list {
			if price.Seen == nil {
				price.Seen = &date
			}
			price.ListDate = &date

			if strings.Contains(price.Model, "*") {
				return invalidPrice("model", "of a list names one model, without *")
			}
			if known.has(&price) {
				continue
			}

			n, err := p.set(ctx, tx, &price)
			if err != nil {
				return fmt.Errorf("price of %s: %w", price.Model, err)
			}
			renewed += int(n)
		}
		return p.queries.ModelPriceListed(ctx, tx, date)
	})
	if err != nil {
		return 0, fmt.Errorf("import prices: %w", err)
	}
	return renewed, p.load(ctx)
}

// set writes a price, and returns how many that were.
func (p *prices) set(ctx context.Context, to db.DBTX, price *Price) (int64, error) {
	price.Provider, price.Model = strings.ToLower(price.Provider), strings.ToLower(price.Model)
	if err := price.validate(); err != nil {
		return 0, err
	}

	params := db.ModelPriceSetParams{
		Provider: price.Provider, Model: price.Model, FromDay: price.FromDay, InputUSD: price.Input, OutputUSD: price.Output,
		CacheReadUSD: price.CacheRead, CacheWriteUSD: price.CacheWrite, CacheWrite1hUSD: price.CacheWrite1h,
		Seen: price.Seen, ListDate: price.ListDate, Source: orNil(price.Source),
	}
	if len(price.Tiers) > 0 {
		params.Tiers, _ = json.Marshal(price.Tiers) // numbers
	}

	n, err := p.queries.ModelPriceSet(ctx, to, params)
	return n, pg.Translate(err)
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

	day := time.Now()
	switch {
	case t.ThinkStartTime != nil:
		day = *t.ThinkStartTime
	case t.ThinkEndTime != nil:
		day = *t.ThinkEndTime
	}

	if price := list.of(optional.Value(t.Provider), *t.ModelName, day); price != nil {
		base := price.whole()
		t.InputPrice, t.OutputPrice = &base.Input, &base.Output
		t.CacheReadPrice, t.CacheWritePrice = base.CacheRead, base.CacheWrite
		t.Tariff = price.tariff()
	}
}

// Priced reports whether a model has a price at a time.
func (p *prices) Priced(provider, model string, at time.Time) bool {
	list := p.list.Load()
	return list != nil && list.of(provider, model, at) != nil
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
	own       []ownPrice          // the most specific first, and of one model the newest price
	listed    map[string][]*Price // by the name of the model, the newest first
	providers map[string]bool

	mu    sync.Mutex
	found map[[2]string][]*Price // by provider and model, the one that counts first
}

// ownPrice is a price of the operator, and the names that it is for.
type ownPrice struct {
	*Price
	names *regexp.Regexp
}

// maxFound bounds what is remembered of names: clients make them up.
const maxFound = 10_000

func newPriceList(prices []Price) *priceList {
	l := &priceList{listed: map[string][]*Price{}, providers: map[string]bool{}, found: map[[2]string][]*Price{}}
	for i := range prices {
		p := &prices[i]
		if p.Provider != "" {
			l.providers[p.Provider] = true
		}
		if p.ListDate != nil {
			l.listed[listed(p.Model)] = append(l.listed[listed(p.Model)], p)
			continue
		}

		pattern := strings.ReplaceAll(regexp.QuoteMeta(p.Model), `\*`, ".*")
		l.own = append(l.own, ownPrice{p, regexp.MustCompile("^" + pattern + "$")})
	}

	newest := func(a, b *Price) int { return b.FromDay.Compare(a.FromDay) }
	literals := func(p *Price) int { return len(p.Model) - strings.Count(p.Model, "*") }
	slices.SortStableFunc(l.own, func(a, b ownPrice) int {
		return cmp.Or(cmp.Compare(literals(b.Price), literals(a.Price)), newest(a.Price, b.Price))
	})
	for _, of := range l.listed {
		slices.SortStableFunc(of, newest)
	}
	return l
}

// of returns the price of a model on a day; nil if none is known. If the list has prices of
// the provider, only those count, those of the maker that the name tells, and prices for any provider.
func (l *priceList) of(provider, model string, day time.Time) *Price {
	for _, p := range l.lookUp(strings.ToLower(provider), strings.ToLower(model)) {
		if !day.Before(p.FromDay) {
			return p
		}
	}
	return nil
}

// has reports whether the price says nothing new: on its first day the list has the same for its provider and model.
func (l *priceList) has(price *Price) bool {
	for _, p := range l.listed[listed(price.Model)] {
		if p.Provider == strings.ToLower(price.Provider) && !price.FromDay.Before(p.FromDay) {
			return reflect.DeepEqual(p.Rates, price.Rates) && slices.EqualFunc(p.Tiers, price.Tiers, func(a, b Tier) bool {
				return reflect.DeepEqual(a, b)
			})
		}
	}
	return false
}

func (l *priceList) lookUp(provider, model string) []*Price {
	l.mu.Lock()
	defer l.mu.Unlock()

	key := [2]string{provider, model}
	prices, ok := l.found[key]
	if !ok {
		prices = l.match(provider, model)
		if len(l.found) >= maxFound {
			clear(l.found)
		}
		l.found[key] = prices
	}
	return prices
}

// surcharge is the factor of what Amazon Bedrock charges in a region to the price of the maker.
const surcharge = 1.1

// match returns the prices of a model: those of the operator, then those of the list.
func (l *priceList) match(provider, model string) (prices []*Price) {
	name := readModelName(provider, model)
	add := func(p *Price) {
		switch {
		case p.Provider == "" || name.bedrock && isBedrock(p.Provider):
		case name.bedrock && p.Provider == "anthropic":
			if !name.global && isRegional(p.Model) {
				p = p.times(surcharge)
			}
		case p.Provider == provider:
		case name.bedrock || l.providers[provider] && p.Provider != name.maker:
			return
		}

		prices = append(prices, p)
	}

	for _, own := range l.own {
		if own.names.MatchString(model) || own.names.MatchString(model[strings.LastIndexByte(model, '/')+1:]) ||
			slices.Contains(name.names, listed(own.Model)) {
			add(own.Price)
		}
	}
	for _, each := range name.names {
		for _, p := range l.listed[each] {
			add(p)
		}
	}
	return prices
}
