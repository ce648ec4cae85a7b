package upkeep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
)

// textIndexAfter is how many days after its period a partition has its index for the search in texts made. Few rows
// come to it then: each would cost much more.
const textIndexAfter = 1

// indexTexts makes the indexes for the search in texts on the partitions whose period is over, newest first, unless
// another server is at it. The transaction that has the turn sees nothing, so Postgres does not wait for it.
func (u *Upkeep) indexTexts(ctx context.Context) error {
	begin := pgx.TxOptions{BeginQuery: "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0"}
	err := pgx.BeginTxFunc(ctx, u.db.Pool, begin, func(turn pgx.Tx) error {
		if mine, err := u.queries.TurnTake(ctx, turn, taskTexts); err != nil || !mine {
			return err
		}
		// Another statement ends the portal of the one before, and with it what the transaction sees.
		if _, err := turn.Exec(ctx, "SET LOCAL application_name = 'actlog'"); err != nil {
			return err
		}

		today, err := u.queries.Today(ctx, u.db)
		if err != nil {
			return err
		}
		partitions, err := listPartitions(ctx, u.db, searchedTables...)
		if err != nil {
			return err
		}

		slices.Reverse(partitions)
		for _, p := range partitions {
			if p.To.AddDate(0, 0, textIndexAfter).After(today) {
				continue
			}
			if err := u.indexPartition(ctx, p); err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
		}
		return nil
	})

	switch {
	case errors.Is(err, errNoTrigrams):
		if !u.loggedNoTrigrams.Swap(true) {
			u.log.Warn("past periods have no index for the search in texts, so it reads all of them: create the extension "+
				"pg_trgm", "error", err)
		}
	case errors.Is(err, errNotOwner) || pg.Denied(err): // a server that owns the tables will do it
		u.log.Debug("not allowed to make an index for the search in texts", "error", err)
	case errors.Is(err, errIndexing):
	case err != nil:
		return fmt.Errorf("index texts: %w", err)
	}
	return nil
}

// searchedTables are those whose partitions have an index for the search in texts.
var searchedTables = slices.Sorted(maps.Keys(store.SearchedTables))

// errIndexing means that an index is being made, perhaps for a server that is gone. Two would wait for each other.
var errIndexing = errors.New("an index is being made")

// errNoTrigrams means that the extension that the indexes need is not there, and cannot be created.
var errNoTrigrams = errors.New("no pg_trgm")

// indexPartition makes the index of a partition, unless it has one.
func (u *Upkeep) indexPartition(ctx context.Context, p partition) error {
	all, err := u.queries.TextIndexes(ctx, u.db, searchedTables)
	if err != nil {
		return err
	}

	name := p.Name + store.SearchIndexSuffix
	var useless []string // of an earlier release, or broken off
	for _, index := range all {
		switch {
		case *index.Partition != p.Name:
		case *index.Name == name && index.Complete:
			name = ""
		default:
			useless = append(useless, *index.Name)
		}
	}
	if name == "" && len(useless) == 0 {
		return nil
	}

	var owned bool
	if err := u.db.QueryRow(ctx, db.PartitionOwned, false, []string{p.Name}).Scan(&owned); err != nil {
		return err
	}
	if !owned {
		return errNotOwner
	}
	if busy, err := u.queries.TextIndexing(ctx, u.db); err != nil {
		return err
	} else if busy {
		return errIndexing
	}

	// Writers and readers go on meanwhile. It may wait long for their transactions, but nobody waits for it.
	conn, err := u.db.ConnectPatient(ctx)
	if err != nil {
		return err
	}
	defer pg.CloseConn(conn)

	for _, index := range useless {
		if _, err := conn.Exec(ctx, "DROP INDEX CONCURRENTLY IF EXISTS actlog."+
			pgx.Identifier{index}.Sanitize()); err != nil {
			return err
		}
	}

	if name == "" {
		return nil
	}
	schema, err := u.trigrams(ctx)
	if err != nil {
		return err
	}

	start := u.now()
	_, err = conn.Exec(ctx, fmt.Sprintf("CREATE INDEX CONCURRENTLY %s ON actlog.%s USING gin ((%s) %s.gin_trgm_ops)",
		pgx.Identifier{name}.Sanitize(), pgx.Identifier{p.Name}.Sanitize(), store.SearchedTables[p.Parent], schema))
	switch pg.State(err) {
	case "":
	case "42P01", "42P07": // the partition was dropped, or another server was quicker
		return nil
	}
	if err != nil {
		return err
	}

	u.log.Info("made an index for the search in texts", "partition", p.Name, "took", u.now().Sub(start))
	return nil
}

// trigrams returns the schema of the extension that the indexes need. It creates the extension if it is not there.
func (u *Upkeep) trigrams(ctx context.Context) (schema string, err error) {
	if schema, err = u.queries.TrigramClass(ctx, u.db); err != nil || schema != "" {
		return schema, err
	}

	_, err = u.db.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA actlog")
	switch {
	case err == nil:
		return u.queries.TrigramClass(ctx, u.db)
	case ctx.Err() != nil || pg.ConnectionLost(err):
		return "", err
	case pg.State(err) == "23505" || pg.State(err) == "42710": // another server creates it
		return u.queries.TrigramClass(ctx, u.db)
	}
	return "", fmt.Errorf("%w: %w", errNoTrigrams, err)
}
