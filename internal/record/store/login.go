package store

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
)

// maxLogins bounds the sessions of one API key: another one ends the oldest.
const maxLogins = 1_000

// AddLogin begins a session of the web page: of a secret that only the browser has, begun with an API key that is known
// by the beginning of its hash.
func (s *Store) AddLogin(ctx context.Context, secret string, key []byte, lasts time.Duration) error {
	hash := sha256.Sum256([]byte(secret))
	err := s.queries.LoginAdd(ctx, s.db, db.LoginAddParams{
		SessionSha256: hash[:], KeySha256: key, Others: maxLogins - 1, Lasts: interval(lasts),
	})
	return pg.Wrap(pg.Translate(err), "begin a session")
}

// LoginKey returns with which key a session was begun. The error wraps [record.ErrNotFound] if there is no such
// session, or none any more.
func (r *Reader) LoginKey(ctx context.Context, secret string) ([]byte, error) {
	hash := sha256.Sum256([]byte(secret))
	key, err := pg.Read(ctx, r.db, func() ([]byte, error) { return r.queries.LoginKey(ctx, r.db, hash[:]) })
	return key, pg.Wrap(err, "read a session")
}

// EndLogin ends a session.
func (s *Store) EndLogin(ctx context.Context, secret string) error {
	hash := sha256.Sum256([]byte(secret))
	return pg.Wrap(pg.Translate(s.queries.LoginEnd(ctx, s.db, hash[:])), "end a session")
}

// EndLogins ends the sessions of keys that are gone, and of keys that are not listed unless they last longer than rest.
// Keys are known by the beginning of their hashes.
func (s *Store) EndLogins(ctx context.Context, gone, listed [][]byte, rest time.Duration) error {
	err := s.queries.LoginEndKeys(ctx, s.db, db.LoginEndKeysParams{
		Gone: orNone(gone), Listed: orNone(listed), Rest: interval(rest),
	})
	return pg.Wrap(pg.Translate(err), "end the sessions of keys that are gone")
}

// orNone returns a list that is empty if it is nil: to Postgres, NULL would be unknown.
func orNone(list [][]byte) [][]byte { return append([][]byte{}, list...) }

func interval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: true}
}
