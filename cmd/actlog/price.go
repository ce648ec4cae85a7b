package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

type priceCmd struct {
	List   priceListCmd   `cmd:"" help:"List what models cost, in US dollars per million tokens."`
	Set    priceSetCmd    `cmd:"" help:"Set the price of a model. Servers use it within a minute; calls on record keep their cost."`
	Import priceImportCmd `cmd:"" help:"Renew the list of prices from a file. Prices that you set yourself stay."`
	Delete priceDeleteCmd `cmd:"" help:"Delete a price. Calls on record keep their cost."`
	Apply  priceApplyCmd  `cmd:"" help:"Compute the cost of calls on record that have none yet."`
}

type priceListCmd struct {
	databaseFlags
	Name string `arg:"" optional:"" help:"Only models, or providers, with this in their name."`
	JSON bool   `help:"Print the prices as JSON, one per line."`
}

// priceJSON is a price as --json prints it, and as files for price import have it.
type priceJSON struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	FromDay  string `json:"fromDay"`
	ratesJSON
	Tiers    []tierJSON `json:"tiers"`
	Source   string     `json:"source"`
	Seen     *string    `json:"seen"`
	ListDate *string    `json:"listDate"`
}

type tierJSON struct {
	AboveTokens int64 `json:"aboveTokens"`
	ratesJSON
}

// ratesJSON are [store.Rates].
type ratesJSON struct {
	Input        float64  `json:"inputUsd"`
	Output       float64  `json:"outputUsd"`
	CacheRead    *float64 `json:"cacheReadUsd"`
	CacheWrite   *float64 `json:"cacheWriteUsd"`
	CacheWrite1h *float64 `json:"cacheWrite1hUsd"`
}

func newPriceJSON(p *store.Price) priceJSON {
	day := func(t *time.Time) *string {
		if t == nil {
			return nil
		}
		return new(t.Format(time.DateOnly))
	}

	j := priceJSON{
		Provider: p.Provider, Model: p.Model, FromDay: p.FromDay.Format(time.DateOnly), Tiers: []tierJSON{},
		ratesJSON: ratesJSON{p.Input, p.Output, p.CacheRead, p.CacheWrite, p.CacheWrite1h},
		Source:    p.Source, Seen: day(p.Seen), ListDate: day(p.ListDate),
	}
	for _, t := range p.Tiers {
		j.Tiers = append(j.Tiers, tierJSON{t.Above, ratesJSON(t.Rates)})
	}
	return j
}

func (c *priceListCmd) Run(ctx context.Context, e *env) error {
	return withStore(ctx, c.databaseFlags, e, func(s *store.Store) error {
		prices, err := s.Prices(ctx)
		if err != nil {
			return err
		}

		name := strings.ToLower(c.Name)
		var found []priceJSON
		var date *time.Time
		for i := range prices {
			p := &prices[i]
			if p.ListDate != nil && (date == nil || p.ListDate.After(*date)) {
				date = p.ListDate
			}
			if strings.Contains(p.Model, name) || strings.Contains(p.Provider, name) {
				found = append(found, newPriceJSON(p))
			}
		}

		if c.JSON {
			return encodeAll(json.NewEncoder(e.stdout), found)
		}

		var rows []string
		for _, p := range found {
			rows = append(rows, p.rows()...)
		}

		const columns = "PROVIDER\tMODEL\tFROM\tABOVE\tINPUT\tOUTPUT\tCACHE READ\tCACHE WRITE\tFOR 1H\tSEEN"
		if err := printTable(e.stdout, columns, rows, func(row string) string { return row }); err != nil {
			return err
		}
		if date != nil {
			fmt.Fprintf(e.stderr, "the price list is of %s; renew it with actlog price import\n", date.Format(time.DateOnly))
		}
		return nil
	})
}

// rows returns the rows of a table for a price: one for each tier.
func (p priceJSON) rows() (rows []string) {
	seen := "(own)"
	if p.Seen != nil {
		seen = *p.Seen
	}

	row := func(above string, r ratesJSON) {
		cells := []string{cmp.Or(terminal.Line(p.Provider), "(any)"), terminal.Line(p.Model), p.FromDay, above}
		for _, amount := range []*float64{&r.Input, &r.Output, r.CacheRead, r.CacheWrite, r.CacheWrite1h} {
			cell := "-"
			if amount != nil {
				cell = strconv.FormatFloat(*amount, 'f', -1, 64)
			}
			cells = append(cells, cell)
		}
		rows = append(rows, strings.Join(append(cells, seen), "\t"))
	}

	row("-", p.ratesJSON)
	for _, t := range p.Tiers {
		row(strconv.FormatInt(t.AboveTokens, 10), t.ratesJSON)
	}
	return rows
}

type pricedModel struct {
	Provider string `arg:"" help:"Provider of the model, as cycles report it; \"\" for any."`
	Model    string `arg:"" help:"Name of the model; * matches any characters."`
}

type priceSetCmd struct {
	databaseFlags
	pricedModel
	Input        float64  `required:"" help:"Dollars per million input tokens." placeholder:"USD"`
	Output       float64  `required:"" help:"Dollars per million output tokens, including reasoning." placeholder:"USD"`
	CacheRead    *float64 `help:"Dollars per million input tokens read from a cache. Default: the same as --input." placeholder:"USD"`
	CacheWrite   *float64 `help:"Dollars per million input tokens written to a cache. Default: the same as --input." placeholder:"USD"`
	CacheWrite1h *float64 `name:"cache-write-1h" help:"Dollars per million input tokens written to a cache for an hour. Default: twice --input." placeholder:"USD"`
	Tier         []string `help:"What longer prompts cost: above how many input tokens, then dollars for input, output, cache reads, cache writes and those for an hour; the last three may be left out. As often as there are tiers." placeholder:"TOKENS,USD,USD" sep:"none"`
	From         string   `help:"First day of the price (UTC). Default: today." placeholder:"YYYY-MM-DD"`
	Source       string   `help:"Where the price is published." placeholder:"URL"`
}

func (c *priceSetCmd) Run(ctx context.Context, e *env) error {
	from, err := parseDay("--from", cmp.Or(c.From, time.Now().UTC().Format(time.DateOnly)))
	if err != nil {
		return err
	}

	p := store.Price{
		Provider: c.Provider, Model: c.Model, FromDay: from, Source: c.Source, Rates: store.Rates{
			Input: c.Input, Output: c.Output, CacheRead: c.CacheRead, CacheWrite: c.CacheWrite, CacheWrite1h: c.CacheWrite1h,
		},
	}
	for _, text := range c.Tier {
		tier, err := parseTier(text)
		if err != nil {
			return err
		}
		p.Tiers = append(p.Tiers, tier)
	}

	return withStore(ctx, c.databaseFlags, e, func(s *store.Store) error {
		err := s.SetPrice(ctx, p)
		if invalid, ok := errors.AsType[*record.InvalidError](err); ok {
			return usageError(invalid.Error())
		}
		return err
	})
}

// parseTier reads TOKENS,INPUT,OUTPUT[,CACHE READ[,CACHE WRITE[,CACHE WRITE FOR AN HOUR]]].
func parseTier(text string) (t store.Tier, err error) {
	parts := strings.Split(text, ",")
	wrong := usageError(fmt.Sprintf("--tier must be like 200000,2.5,15 or 200000,2.5,15,0.25,3.125,5, not %q", text))
	if len(parts) < 3 || len(parts) > 6 {
		return t, wrong
	}
	if t.Above, err = strconv.ParseInt(parts[0], 10, 64); err != nil {
		return t, wrong
	}

	amounts := make([]*float64, 5)
	for i, part := range parts[1:] {
		amount, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return t, wrong
		}
		amounts[i] = &amount
	}

	t.Input, t.Output = *amounts[0], *amounts[1]
	t.CacheRead = amounts[2]
	t.CacheWrite, t.CacheWrite1h = amounts[3], amounts[4]
	return t, nil
}

type priceDeleteCmd struct {
	databaseFlags
	pricedModel
	From string `required:"" help:"First day of the price (UTC)." placeholder:"YYYY-MM-DD"`
}

func (c *priceDeleteCmd) Run(ctx context.Context, e *env) error {
	from, err := parseDay("--from", c.From)
	if err != nil {
		return err
	}

	return withStore(ctx, c.databaseFlags, e, func(s *store.Store) error {
		err := s.DeletePrice(ctx, c.Provider, c.Model, from)
		if errors.Is(err, record.ErrNotFound) {
			return fmt.Errorf("%q of %q has no price that begins on %s; see actlog price list", c.Model, c.Provider, c.From)
		}
		return err
	})
}

type priceApplyCmd struct {
	databaseFlags
	Since string `required:"" help:"When the first calls were made: a day (UTC), a time (RFC 3339), or how long ago, such as 24h, 3d or 2w." placeholder:"TIME"`
}

func (c *priceApplyCmd) Run(ctx context.Context, e *env) error {
	since, err := parseTime("--since", c.Since, time.Now(), time.UTC)
	if err != nil {
		return err
	}

	return withStore(ctx, c.databaseFlags, e, func(s *store.Store) error {
		last := time.Now()
		cycles, err := s.ApplyPrices(ctx, since, func(cycles int64) {
			if time.Since(last) > time.Second {
				fmt.Fprintf(e.stderr, "calls priced so far: %d\n", cycles)
				last = time.Now()
			}
		})
		fmt.Fprintf(e.stdout, "calls priced: %d\n", cycles)
		return err
	})
}

func parseDay(flag, s string) (time.Time, error) {
	day, err := dayOf(flag, s)
	if err != nil {
		return day, usageError(err.Error())
	}
	return day, nil
}

func dayOf(what, s string) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return day, fmt.Errorf("%s must be a day such as 2026-11-20, not %q", what, s)
	}
	return day, nil
}

func withStore(ctx context.Context, flags databaseFlags, e *env, do func(*store.Store) error) error {
	return flags.use(ctx, e, func(url string) error {
		s, err := store.Open(ctx, store.Config{DatabaseURL: url, Logger: e.log})
		if errors.Is(err, store.ErrNotMade) {
			return errors.New(noRecord)
		}
		if err != nil {
			return err
		}
		return errors.Join(do(s), s.Close(context.WithoutCancel(ctx)))
	})
}
