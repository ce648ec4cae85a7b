package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// measureReport runs each query of docs/reporting.md on a million tool calls of the last four weeks.
func measureReport(ctx context.Context, b *bench) (figures []figure, err error) {
	page, err := os.ReadFile(b.reporting)
	if errors.Is(err, fs.ErrNotExist) {
		return []figure{alone("queries", "s", nil, nil).noted("not measured: there is no %s", b.reporting)}, nil
	}
	if err != nil {
		return nil, err
	}

	db, err := b.database(ctx, "report")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	if err := b.fillCalls(ctx, db, b.n(1_000_000, 5_000), 4, 0); err != nil {
		return nil, err
	}

	for _, q := range queriesOf(string(page)) {
		took, _, err := b.byTurns(ctx, func(ctx context.Context) (float64, error) {
			start := time.Now()
			rows, err := db.pool.Query(ctx, q.sql)
			if err != nil {
				return 0, err
			}
			rows.Close()
			return time.Since(start).Seconds(), rows.Err()
		}, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.title, err)
		}
		figures = append(figures, alone(q.title, "s", took, atMost(2)))
	}
	return figures, nil
}

// query is one query of a page.
type query struct{ title, sql string }

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
