package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/pg"
)

// AddLogin begins a session of the web page: of a secret that only the browser has, begun with an API key that is known by
// the beginning of its hash.
func (s *Store) AddLogin(ctx context.Context, secret string, key []byte, lasts time.Duration) error {
	hash := sha256.Sum256([]byte(secret))
	err := s.queries.LoginAdd(ctx, s.db, db.LoginAddParams{SessionSha256: hash[:], KeySha256: key, Lasts: pgtype.Interval{Microseconds: lasts.Microseconds(), Valid: true}})
	if err != nil {
		return fmt.Errorf("begin a session: %w", pg.Translate(err))
	}
	return nil
}

// LoginKey returns with which key a session was begun. The error wraps [record.ErrNotFound] if there is no such session,
// or none any more.
func (r *Reader) LoginKey(ctx context.Context, secret string) ([]byte, error) {
	hash := sha256.Sum256([]byte(secret))
	key, err := pg.Read(ctx, r.db, func() ([]byte, error) { return r.queries.LoginKey(ctx, r.db, hash[:]) })
	if err != nil {
		return nil, fmt.Errorf("read a session: %w", err)
	}
	return key, nil
}

// EndLogin ends a session.
func (s *Store) EndLogin(ctx context.Context, secret string) error {
	hash := sha256.Sum256([]byte(secret))
	if err := s.queries.LoginEnd(ctx, s.db, hash[:]); err != nil {
		return fmt.Errorf("end a session: %w", pg.Translate(err))
	}
	return nil
}
