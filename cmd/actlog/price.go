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

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/terminal"
	"github.com/actlog/actlog/record"
)

type priceCmd struct {
	List   priceListCmd   `cmd:"" help:"List what models cost, in US dollars per million tokens."`
	Set    priceSetCmd    `cmd:"" help:"Set the price of a model. Servers use it within a minute; calls on record keep their cost."`
	Delete priceDeleteCmd `cmd:"" help:"Delete a price. Calls on record keep their cost."`
	Apply  priceApplyCmd  `cmd:"" help:"Compute the cost of calls on record that have none yet."`
}

type priceListCmd struct {
	databaseFlags
	Name string `arg:"" optional:"" help:"Only models, or providers, with this in their name."`
	JSON bool   `help:"Print the prices as JSON, one per line."`
}

// priceJSON is a price as --json prints it.
type priceJSON struct {
	Provider      string   `json:"provider"`
	Model         string   `json:"model"`
	FromDay       string   `json:"fromDay"`
	InputUSD      float64  `json:"inputUsd"`
	OutputUSD     float64  `json:"outputUsd"`
	CacheReadUSD  *float64 `json:"cacheReadUsd"`
	CacheWriteUSD *float64 `json:"cacheWriteUsd"`
	Source        string   `json:"source"`
	Seen          *string  `json:"seen"`
}

func (c *priceListCmd) Run(ctx context.Context, e *env) error {
	return withStore(ctx, c.databaseFlags, e, func(s *store.Store) error {
		prices, err := s.Prices(ctx)
		if err != nil {
			return err
		}
		name := strings.ToLower(c.Name)
		var found []priceJSON
		for _, p := range prices {
			if !strings.Contains(p.Model, name) && !strings.Contains(p.Provider, name) {
				continue
			}
			j := priceJSON{
				Provider: p.Provider, Model: p.Model, FromDay: p.FromDay.Format(time.DateOnly), InputUSD: p.Input, OutputUSD: p.Output,
				CacheReadUSD: p.CacheRead, CacheWriteUSD: p.CacheWrite, Source: p.Source,
			}
			if p.Seen != nil {
				j.Seen = new(p.Seen.Format(time.DateOnly))
			}
			found = append(found, j)
		}
		if c.JSON {
			return encodeAll(json.NewEncoder(e.stdout), found)
		}
		return printTable(e.stdout, "PROVIDER\tMODEL\tFROM\tINPUT\tOUTPUT\tCACHE READ\tCACHE WRITE\tSEEN", found, priceJSON.row)
	})
}

func (p priceJSON) row() string {
	amount := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return strconv.FormatFloat(*v, 'f', -1, 64)
	}
	seen := "-"
	if p.Seen != nil {
		seen = *p.Seen
	}
	return strings.Join([]string{
		cmp.Or(terminal.Line(p.Provider), "(any)"), terminal.Line(p.Model), p.FromDay,
		amount(&p.InputUSD), amount(&p.OutputUSD), amount(p.CacheReadUSD), amount(p.CacheWriteUSD), seen,
	}, "\t")
}

// pricedModel names what a price is for.
type pricedModel struct {
	Provider string `arg:"" help:"Provider of the model, as cycles report it; \"\" for any."`
	Model    string `arg:"" help:"Name of the model; * matches any characters."`
}

type priceSetCmd struct {
	databaseFlags
	pricedModel
	Input      float64  `required:"" help:"Dollars per million input tokens." placeholder:"USD"`
	Output     float64  `required:"" help:"Dollars per million output tokens, including reasoning." placeholder:"USD"`
	CacheRead  *float64 `help:"Dollars per million input tokens read from a cache. Default: the same as --input." placeholder:"USD"`
	CacheWrite *float64 `help:"Dollars per million input tokens written to a cache. Default: the same as --input." placeholder:"USD"`
	From       string   `help:"First day of the price (UTC). Default: today." placeholder:"YYYY-MM-DD"`
	Source     string   `help:"Where the price is published." placeholder:"URL"`
}

func (c *priceSetCmd) Run(ctx context.Context, e *env) error {
	from, err := parseDay("--from", cmp.Or(c.From, time.Now().UTC().Format(time.DateOnly)))
	if err != nil {
		return err
	}
	p := store.Price{
		Provider: c.Provider, Model: c.Model, FromDay: from, Input: c.Input, Output: c.Output,
		CacheRead: c.CacheRead, CacheWrite: c.CacheWrite, Source: c.Source,
	}
	return withStore(ctx, c.databaseFlags, e, func(s *store.Store) error {
		err := s.SetPrice(ctx, p)
		if invalid, ok := errors.AsType[*record.InvalidError](err); ok {
			return usageError(invalid.Error())
		}
		return err
	})
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
	day, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return day, usageError(fmt.Sprintf("%s must be a day such as 2026-11-20, not %q", flag, s))
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
