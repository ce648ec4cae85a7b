package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

type priceImportCmd struct {
	databaseFlags
	File string `arg:"" help:"File with the prices: a document with date and prices, lines as of price list --json, or LiteLLM's model_prices_and_context_window.json. - for stdin."`
	Date string `help:"Date of the list (UTC). Default: the one in the file, else today." placeholder:"YYYY-MM-DD"`
}

func (c *priceImportCmd) Run(ctx context.Context, e *env) error {
	file := e.stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		file = f
	}

	var asked *time.Time
	if c.Date != "" {
		day, err := parseDay("--date", c.Date)
		if err != nil {
			return err
		}
		asked = &day
	}

	list, err := readPriceFile(file, asked)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	return withStore(ctx, c.databaseFlags, e, func(s *store.Store) error {
		renewed, err := s.ImportPrices(ctx, list.date, list.prices)
		if invalid, ok := errors.AsType[*record.InvalidError](err); ok {
			return usageError(c.File + ": " + invalid.Error())
		}
		if err != nil {
			return err
		}

		fmt.Fprintf(e.stdout, "price list of %s: %d of %d prices are new\n", list.date.Format(time.DateOnly), renewed,
			len(list.prices))
		if list.skipped > 0 {
			fmt.Fprintf(e.stdout, "%d entries that are no prices of models for text, or your own, were left out\n", list.skipped)
		}
		return nil
	})
}

// priceFile is a list of prices as a file has it.
type priceFile struct {
	date    time.Time
	prices  []store.Price
	skipped int // entries that have no prices of tokens, or are the operator's own
}

type priceDocument struct {
	Date   string      `json:"date"`
	Prices []priceJSON `json:"prices"`
}

// maxPriceFile bounds the file of a price list, in bytes.
const maxPriceFile = 64 << 20

// readPriceFile reads a list of prices in any of its forms. asked, if there is one, is its date, whatever the file
// says.
func readPriceFile(file io.Reader, asked *time.Time) (list priceFile, err error) {
	document, lite, skipped, err := decodePrices(file)
	if err != nil {
		return list, fmt.Errorf("read prices: %w", err)
	}
	list.skipped = skipped
	if list.date, err = document.date(); err != nil {
		return list, err
	}
	if asked != nil {
		list.date = *asked
	}

	for i := range document.Prices {
		price, err := document.Prices[i].price(list.date)
		if err != nil {
			return list, fmt.Errorf("price %d, of %s: %w", i+1, document.Prices[i].Model, err)
		}
		list.prices = append(list.prices, price)
	}

	if err := list.addLiteLLM(lite); err != nil {
		return list, err
	}
	if len(list.prices) == 0 {
		return list, errors.New("there are no prices in it")
	}
	return list, nil
}

// decodePrices reads the objects of a file: a document, or lines as of price list --json, or the models of LiteLLM.
// skipped is how many lines are the operator's own.
func decodePrices(file io.Reader) (document priceDocument, lite map[string]json.RawMessage, skipped int, err error) {
	var documentAt, liteAt, objects int
	d := json.NewDecoder(io.LimitReader(file, maxPriceFile))
	for {
		var raw json.RawMessage
		var object map[string]json.RawMessage
		if err = d.Decode(&raw); errors.Is(err, io.EOF) {
			break
		}

		if err == nil {
			err = json.Unmarshal(raw, &object)
		}
		if err != nil {
			return document, nil, 0, err
		}
		objects++

		_, isLine := object["model"]
		_, isDocument := object["prices"]
		switch {
		case isDocument:
			documentAt, err = objects, strictly(raw, &document)
		case isLine && string(object["listDate"]) == "null": // price list --json prints those that were set, too
			skipped++
		case isLine:
			var line priceJSON
			err = strictly(raw, &line)
			document.Prices = append(document.Prices, line)
		default:
			lite, liteAt = object, objects
		}
		if err != nil {
			return document, nil, 0, err
		}
	}

	switch {
	case liteAt > 0 && objects > 1: // LiteLLM's file is one object
		return document, nil, 0, fmt.Errorf("object %d has no model", liteAt)
	case documentAt > 0 && objects > 1:
		return document, nil, 0, fmt.Errorf("object %d has prices of its own: it must be the only one", documentAt)
	}
	return document, lite, skipped, nil
}

// date returns the date of a list: its own, or the last of its lines; today if there is none.
func (d *priceDocument) date() (time.Time, error) {
	day := d.Date
	for _, p := range d.Prices {
		if p.ListDate != nil {
			day = max(day, *p.ListDate)
		}
	}

	if day == "" {
		return time.Now().UTC().Truncate(24 * time.Hour), nil
	}
	return dayOf("date", day)
}

// strictly decodes an object whose members are all known.
func strictly(raw json.RawMessage, to any) error {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		bad.Field = strings.ReplaceAll(bad.Field, "ratesJSON.", "") // which is embedded: files have no such member
	}
	return err
}

// price returns a price of a list. Without a first day it holds from the date of the list.
func (p *priceJSON) price(date time.Time) (price store.Price, err error) {
	price = store.Price{
		Provider: p.Provider, Model: p.Model, FromDay: date, Source: p.Source, Rates: store.Rates(p.ratesJSON),
	}
	for _, t := range p.Tiers {
		price.Tiers = append(price.Tiers, store.Tier{Above: t.AboveTokens, Rates: store.Rates(t.ratesJSON)})
	}

	if p.FromDay != "" {
		if price.FromDay, err = dayOf("fromDay", p.FromDay); err != nil {
			return price, err
		}
	}
	if p.Seen != nil {
		seen, err := dayOf("seen", *p.Seen)
		price.Seen = &seen
		return price, err
	}
	return price, nil
}

// liteProviders are the providers of LiteLLM whose names differ from those of cycles.
var liteProviders = map[string]string{
	"gemini": "gcp.gemini", "bedrock": "aws.bedrock", "bedrock_converse": "aws.bedrock", "azure": "azure.ai.openai",
	"azure_ai": "azure.ai.inference",
	"xai":      "x_ai", "mistral": "mistral_ai", "cohere_chat": "cohere", "dashscope": "alibaba",
	"text-completion-openai": "openai",
}

var liteTier = regexp.MustCompile(`^input_cost_per_token_above_(\d+)k_tokens$`)

// addLiteLLM adds the models of LiteLLM's file that generate text for a price per token.
func (l *priceFile) addLiteLLM(models map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(models)) {
		var entry map[string]any
		if err := json.Unmarshal(models[name], &entry); err != nil {
			return fmt.Errorf("model %s: %w", name, err)
		}

		provider, _ := entry["litellm_provider"].(string)
		mode, _ := entry["mode"].(string)
		base, priced := liteRates(entry, "")
		if name == "sample_spec" || !priced || !slices.Contains([]string{"chat", "completion", "responses"}, mode) {
			l.skipped++
			continue
		}

		price := store.Price{
			Provider: cmp.Or(liteProviders[provider], provider), FromDay: l.date, Rates: base,
			Source: "LiteLLM model_prices_and_context_window.json",
		}
		price.Model = strings.TrimPrefix(name, provider+"/")
		if strings.HasPrefix(provider, "vertex_ai") { // vertex_ai-anthropic_models and so on
			price.Provider, price.Model = "gcp.vertex_ai", name[strings.LastIndexByte(name, '/')+1:]
		}

		for key := range entry {
			m := liteTier.FindStringSubmatch(key)
			if m == nil {
				continue
			}
			thousands, _ := strconv.ParseInt(m[1], 10, 32) // digits
			rates, _ := liteRates(entry, "_above_"+m[1]+"k_tokens")
			price.Tiers = append(price.Tiers, store.Tier{Above: thousands * 1000, Rates: rates})
		}

		slices.SortFunc(price.Tiers, func(a, b store.Tier) int { return cmp.Compare(a.Above, b.Above) })
		l.prices = append(l.prices, price)
	}

	return nil
}

// liteRates returns the rates of an entry whose names end with a suffix. What a tier leaves out is as in the base tier.
func liteRates(entry map[string]any, suffix string) (r store.Rates, priced bool) {
	rate := func(name string) *float64 {
		for _, key := range []string{name + suffix, name} {
			if amount, ok := entry[key].(float64); ok {
				return new(math.Round(amount*1e15) / 1e9) // of a million tokens
			}
		}
		return nil
	}

	input, output := rate("input_cost_per_token"), rate("output_cost_per_token")
	if input == nil || output == nil {
		return r, false
	}
	return store.Rates{
		Input: *input, Output: *output, CacheRead: rate("cache_read_input_token_cost"),
		CacheWrite:   rate("cache_creation_input_token_cost"),
		CacheWrite1h: rate("cache_creation_input_token_cost_above_1hr"),
	}, true
}
