package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/record/store"
)

// measureReport runs each question of docs/reporting.md, for one day and for 30 days, on records of 3 and of 10 million
// rows of the last five weeks. Postgres plans with its default settings.
func measureReport(ctx context.Context, b *bench) (figures []figure, err error) {
	page, err := os.ReadFile(b.reporting)
	if errors.Is(err, fs.ErrNotExist) {
		return []figure{alone("queries", "ms", nil, nil).noted("not measured: there is no %s", b.reporting)}, nil
	}
	if err != nil {
		return nil, err
	}

	for _, rows := range []int{b.n(3_000_000, 5_000), b.n(10_000_000, 10_000)} {
		more, err := b.reportOn(ctx, rows, queriesOf(string(page)))
		if err != nil {
			return nil, err
		}
		figures = append(figures, more...)
	}
	return figures, nil
}

// reportPeriods are the periods that questions are asked for.
var reportPeriods = []struct {
	name   string
	days   int
	target float64 // ms
}{{"a day", 1, 500}, {"30 days", 30, 2_000}}

// reportOn asks questions of a record of so many rows.
func (b *bench) reportOn(ctx context.Context, rows int, questions []query) (figures []figure, err error) {
	db, err := b.database(ctx, "report")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	const callsOfPlan, rowsOfPlan = 50, 66 // see fillCalls
	if err := b.fillCalls(ctx, db, rows/rowsOfPlan*callsOfPlan, 5, 0); err != nil {
		return nil, err
	}

	if figures, err = b.charts(ctx, db, rows); err != nil {
		return nil, err
	}

	for _, q := range questions {
		for _, period := range reportPeriods {
			name, sql := fmt.Sprintf("%d rows: %s", rows, q.title), q.sql
			if q.hasPeriod() {
				name, sql = name+", "+period.name, q.of(period.days)
			}
			took, err := b.p95(ctx, db, sql)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			figures = append(figures, alone(name, "ms", []float64{took}, atMost(period.target)))

			if !q.hasPeriod() {
				break
			}
		}
	}
	return figures, nil
}

// charts measures the charts of 90 days: from all calls, as long as no day is closed, and then as upkeep leaves them.
func (b *bench) charts(ctx context.Context, db *database, rows int) (figures []figure, err error) {
	s, err := db.store(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()

	read := func() (float64, error) {
		start := time.Now()
		for _, by := range []store.ChartBy{store.ByDay, store.ByModel, store.ByAgent, store.ByTool} {
			f := store.ChartFilter{Since: time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -90), Timeout: time.Hour}
			if _, err := s.Chart(ctx, by, f); err != nil {
				return 0, err
			}
		}
		return ms(time.Since(start)), nil
	}

	open, err := read()
	if err != nil {
		return nil, err
	}

	start := time.Now()
	tag, err := db.pool.Exec(ctx, `SELECT actlog.close_day(day) FROM generate_series(
		date_trunc('day', now() - interval '40 days', 'UTC'), now() - interval '27 hours', '24 hours') AS day`)
	if err != nil {
		return nil, err
	}
	closing := time.Since(start)

	closed, _, err := b.byTurns(ctx, func(context.Context) (float64, error) { return read() }, nil)
	if err != nil {
		return nil, err
	}
	return []figure{
		alone(fmt.Sprintf("%d rows: all charts of 90 days, no day is closed", rows), "ms", []float64{open}, nil),
		alone(fmt.Sprintf("%d rows: all charts of 90 days", rows), "ms", closed, atMost(2_000)),
		alone(fmt.Sprintf("%d rows: to close a day", rows), "ms", []float64{ms(closing) / float64(tag.RowsAffected())}, nil),
	}, nil
}

// p95 returns how long a query takes, in ms: 95 percent of the times are not longer. It asks 20 times, or for ten
// seconds times the scale if that is shorter, but at least as often as figures are repeated. The first time does not
// count.
func (b *bench) p95(ctx context.Context, db *database, sql string) (float64, error) {
	var took []float64
	most := seconds(10 * b.scale)
	for begun := time.Now(); len(took) <= b.repeats || len(took) <= 20 && time.Since(begun) < most; {
		start := time.Now()
		rows, err := db.pool.Query(ctx, sql)
		if err != nil {
			return 0, err
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return 0, err
		}
		took = append(took, ms(time.Since(start)))
	}

	took = took[1:]
	slices.Sort(took)
	return took[len(took)*95/100], nil
}

// query is one query of a page.
type query struct{ title, sql string }

// periodOfQuery is how far back a question looks.
var periodOfQuery = regexp.MustCompile(`- interval '(\d+) (days?|hours?)'`)

// hasPeriod reports whether the question is for a period that ends now.
func (q query) hasPeriod() bool { return periodOfQuery.MatchString(q.sql) }

// of returns the question for the last days. What compares a period with the earlier half of it still does.
func (q query) of(days int) string {
	hours := func(period string) (n float64) {
		m := periodOfQuery.FindStringSubmatch(period)
		n, _ = strconv.ParseFloat(m[1], 64) // it has digits only
		if strings.HasPrefix(m[2], "day") {
			n *= 24
		}
		return n
	}

	longest := 0.0
	for _, period := range periodOfQuery.FindAllString(q.sql, -1) {
		longest = max(longest, hours(period))
	}
	return periodOfQuery.ReplaceAllStringFunc(q.sql, func(period string) string {
		return fmt.Sprintf("- interval '%g hours'", hours(period)/longest*float64(24*days))
	})
}

// queriesOf returns the queries of a page: every sql block that begins with SELECT or WITH. The
// title is the heading above it.
func queriesOf(page string) (all []query) {
	title := ""
	var block *strings.Builder
	for line := range strings.Lines(page) {
		mark := strings.TrimSpace(line)
		switch {
		case block == nil && mark == "```sql":
			block = new(strings.Builder)
		case block != nil && mark == "```":
			sql := strings.TrimSpace(block.String())
			if word := strings.ToUpper(strings.SplitN(sql, " ", 2)[0]); word == "SELECT" || word == "WITH" {
				all = append(all, query{title, sql})
			}
			block = nil
		case block != nil:
			block.WriteString(line)
		case strings.HasPrefix(line, "#"):
			title = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	return all
}
