package testdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/migrations"
)

// sqlEmpty empties every table of the schema except the table of goose. On small tables DELETE
// is much faster than TRUNCATE. The role of a replica switches off foreign keys and triggers.
const sqlEmpty = `
DO $$
DECLARE name regclass;
BEGIN
	PERFORM set_config('session_replication_role', 'replica', true);
	FOR name IN ` + sqlTables + ` LOOP
		EXECUTE format('DELETE FROM %s', name);
	END LOOP;
END $$`

// sqlTruncate does the same for users that may not set session_replication_role.
const sqlTruncate = `
DO $$
DECLARE names text := (SELECT string_agg(name::text, ', ') FROM (` + sqlTables + `) AS t (name));
BEGIN
	IF names <> '' THEN
		EXECUTE 'TRUNCATE ' || names;
	END IF;
END $$`

// sqlTables lists the tables without their partitions.
const sqlTables = `
	SELECT oid::regclass FROM pg_class
	WHERE relnamespace = '` + migrations.Schema + `'::regnamespace
	AND relkind IN ('r', 'p') AND NOT relispartition AND oid <> '` + migrations.VersionTable + `'::regclass`

// sqlShape returns a hash of the relations of all schemas, except the system schemas.
const sqlShape = `
	SELECT coalesce(md5(string_agg(concat_ws(' ', nspname, relname, relkind, relnatts, relchecks, relhastriggers,
		pg_get_expr(relpartbound, c.oid)), ',' ORDER BY nspname, relname)), 'none')
	FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
	WHERE nspname <> 'information_schema' AND nspname NOT LIKE 'pg\_%'`

// reset empties a database. It reports false if the schema is not that of a new clone any
// more, or if the database cannot be emptied.
func (c *cluster) reset(ctx context.Context, name string) (clean bool, err error) {
	c.mu.Lock()
	shape, reusable := c.shape, c.reusable
	c.mu.Unlock()
	if !reusable {
		return false, nil
	}

	err = c.inside(ctx, name, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, sqlEmpty)
		if denied := (*pgconn.PgError)(nil); errors.As(err, &denied) && denied.Code == "42501" {
			_, err = conn.Exec(ctx, sqlTruncate)
		}
		if err != nil {
			return err
		}

		var newShape string
		err = conn.QueryRow(ctx, sqlShape).Scan(&newShape)
		clean = newShape == shape
		return err
	})
	return clean, err
}

// learnShape reads the shape of the first clone, before a test uses it.
func (c *cluster) learnShape(ctx context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shape != "" {
		return nil
	}

	return c.inside(ctx, name, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT t::text FROM (`+sqlTables+`) AS _ (t)`)
		if err != nil {
			return err
		}
		tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}

		c.reusable = true
		for _, table := range tables {
			// Emptying the tables would delete rows that a migration inserted.
			var hasRows bool
			if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+table+`)`).Scan(&hasRows); err != nil {
				return err
			}
			c.reusable = c.reusable && !hasRows
		}
		return conn.QueryRow(ctx, sqlShape).Scan(&c.shape)
	})
}

// inside runs f on a connection to the named database.
func (c *cluster) inside(ctx context.Context, name string, f func(*pgx.Conn) error) error {
	conn, err := connect(ctx, withDatabase(c.url, name))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return errors.Join(f(conn), conn.Close(ctx))
}
