package store

import (
	"context"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// Mark is a moment of the record: what was committed before it.
type Mark = pg.Mark

// ParseMark reads a mark as [Mark.String] returns it.
func ParseMark(text string) (Mark, error) { return pg.ParseMark(text) }

// Mark returns a mark that has all that was committed before the call. It is zero if there is no replica: then every
// read sees everything.
func (s *Store) Mark(ctx context.Context) (Mark, error) {
	if s.replica == nil {
		return Mark{}, nil
	}
	return s.replica.Mark(ctx)
}

// MarkText is [Store.Mark] as a text for clients. It is empty if there is no replica. If the primary does not answer,
// it is a mark that no replica has.
func (s *Store) MarkText(ctx context.Context) string {
	if s.replica == nil {
		return ""
	}
	m, err := s.replica.Mark(ctx)
	if err != nil {
		m = pg.Latest
	}
	return m.String()
}

// Await waits until reads at the primary see what is before a mark, given as a text: after a failover, an old primary
// may be read for a moment. The error is a [*record.InvalidError] if it is no mark, and [record.ErrUnavailable] if that
// takes more than a few seconds.
func (s *Store) Await(ctx context.Context, mark string) error {
	m, err := pg.ParseMark(mark)
	if err != nil {
		return &record.InvalidError{
			Code: record.CodeInvalidValue, Field: "mark", Reason: "must be one that was returned for a write",
		}
	}

	if s.replica == nil || m == pg.Latest {
		return nil
	}
	return s.db.AwaitTimeline(ctx, m.Timeline)
}

// Relaxed makes a read that need not see the latest, but all that is before a mark: at the replica, if it is near
// enough; else, or if it fails there or finds nothing, at the primary. So read may be called twice. Its error is that
// of the last call.
func (s *Store) Relaxed(ctx context.Context, after Mark, read func(context.Context, *Reader) error) error {
	if s.replica == nil {
		return read(ctx, s.Reader)
	}

	there, err := s.replica.Use(ctx, after)
	if err == nil {
		err = read(there, s.replica.reader)
		if err == nil || ctx.Err() != nil || !pg.Elsewhere(err) {
			s.replica.reads.Add(1)
			return err
		}
	}
	s.replica.passed.Add(1)
	return read(ctx, s.Reader)
}

// Replica returns the replica; nil: there is none.
func (s *Store) Replica() *pg.Replica {
	if s.replica == nil {
		return nil
	}
	return s.replica.Replica
}
