// Package lookup owns what the page, the JSON API and the tools of assistants share: what the query of a request asks
// for, how a run is read for it, and the lists, searches and figures of runs, with their cursors.
package lookup

import (
	"cmp"
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/view/outline"
)

// Config says how long Postgres may work. Zero values mean the defaults named here.
type Config struct {
	// ListTimeout is how long it may look for the plans of a list. Default 10 s.
	ListTimeout time.Duration
	// FindTime is how long it may read the texts of a run in which something is looked for. Default 1 s.
	FindTime time.Duration
	// SearchTime is how long it may read the texts of all runs in which something is looked for. Default 0.7 s, so that
	// an answer takes a second at most.
	SearchTime time.Duration
}

// Store is the record as it is looked up.
type Store interface {
	Within(room store.Room) *store.Reader
	Relaxed(ctx context.Context, after store.Mark, read func(context.Context, *store.Reader) error) error
}

// Lookup reads the record for requests. It is safe for concurrent use.
type Lookup struct {
	config Config
	store  Store
	// searches is for what may have to look through all plans, or all changes of a day.
	searches *httpd.Turns
	// texts is for what may have to read all texts. A turn ends some time after the search.
	texts *httpd.Turns
}

const (
	// maxSearches bounds the searches at once: each may keep a processor of Postgres busy.
	// maxWaiting of others wait for their turn.
	maxSearches = 4
	maxWaiting  = 64
	// maxTexts bounds the searches in texts at once: each reads and compares for 2 seconds.
	maxTexts = 2
)

// New returns what looks up a record, on what the doors of server share.
func New(s Store, server *httpd.Server, config Config) *Lookup {
	config.ListTimeout = cmp.Or(config.ListTimeout, 10*time.Second)
	config.FindTime = cmp.Or(config.FindTime, time.Second)
	config.SearchTime = cmp.Or(config.SearchTime, 700*time.Millisecond)

	searches := httpd.NewTurns(maxSearches, maxWaiting, config.ListTimeout)
	texts := httpd.NewTurns(maxTexts, maxWaiting, config.ListTimeout)
	server.Register(searches.Metrics("searches")...)
	server.Register(texts.Metrics("searches in texts")...)
	return &Lookup{config: config, store: s, searches: searches, texts: texts}
}

// Reader returns what reads the record for an answer: its rows are counted.
func (l *Lookup) Reader(c echo.Context) *store.Reader { return l.store.Within(httpd.AnswerTo(c).Take) }

// Run reads a run, or a part of one, without its texts, and lays it out.
func (l *Lookup) Run(c echo.Context, rootPlanID, planID string) (*outline.Outline, error) {
	plan, err := l.Reader(c).Skeleton(c.Request().Context(), rootPlanID, planID)
	if err != nil {
		return nil, err
	}
	return outline.Of(plan), nil
}

// ListEnd returns until when Postgres may look for a list whose request comes now.
func (l *Lookup) ListEnd() time.Time { return time.Now().Add(l.config.ListTimeout) }

// TurnToSearch waits for the turn of a request whose read may have to look through all plans, or all changes of a day.
// The caller calls done when it is over.
func (l *Lookup) TurnToSearch(ctx context.Context, c echo.Context) (done func(), err error) {
	return l.searches.Take(ctx, httpd.ClientOf(c))
}

// Relaxed makes a read that need not see the latest, but what the client wrote whose mark it sends. read may be called
// twice.
func (l *Lookup) Relaxed(c echo.Context, read func(context.Context, *store.Reader) error) error {
	after, err := MarkOf(c)
	if err != nil {
		return err
	}
	return l.store.Relaxed(c.Request().Context(), after, func(ctx context.Context, r *store.Reader) error {
		return read(ctx, r.Within(httpd.AnswerTo(c).Take))
	})
}

// MarkOf returns the mark that a read has to see; zero: any.
func MarkOf(c echo.Context) (m store.Mark, err error) {
	text := httpd.MarkOf(c)
	if text == "" {
		return m, nil
	}
	return store.ParseMark(text)
}
