package store

import "github.com/jackc/pgx/v5/pgxpool"

// Pool is for tests that look behind the store.
func Pool(s *Store) *pgxpool.Pool { return s.pool }
