package runstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
)

// Away is a model that does not answer, by its name in the configuration.
type Away struct {
	Model string
	Since time.Time // when a request to it first failed
	// ErrorKind and ErrorMessage are of the last error.
	ErrorKind, ErrorMessage string
	ProbeAt                 time.Time // when it is asked next
}

// ModelWait is a model that a run waits for.
type ModelWait struct {
	Away
	Alone bool // the model answers others: the run asks again by itself
	Asks  bool // it is the turn of the run to ask whether the model is back
	// ProbeIn is when the model is asked next, if nobody knew before that it is away.
	ProbeIn time.Duration
}

// AwaitModels lets go of the run as [Park] does, until one of some models answers again.
func AwaitModels(until time.Time, waits []ModelWait) RunOp {
	return RunOp{rings: true, letsGo: true, queue: func(q *pgx.Batch, l Lease) {
		Park(until).queue(q, l)
		for _, w := range waits {
			if !w.Alone {
				q.Queue(db.ModelAwayAdd, w.Model, w.Since, w.ErrorKind, w.ErrorMessage, false, w.ProbeIn.Seconds())
			}
			q.Queue(db.ModelWaitAdd, l.RootPlanID, l.PlanID, w.Model, w.Since, w.ErrorKind, w.ErrorMessage, w.Alone)
		}
	}}
}

// ModelWaits returns the models that a run waits for.
func (s *Store) ModelWaits(ctx context.Context, rootPlanID, planID string) ([]ModelWait, error) {
	rows, err := queries.ModelWaits(ctx, s.DB(), db.ModelWaitsParams{RootPlanID: rootPlanID, PlanID: planID})
	if err != nil {
		return nil, fmt.Errorf("read for which models run %s waits: %w", planID, pg.Translate(err))
	}

	return all(rows, func(r db.ModelWaitsRow) ModelWait {
		return ModelWait{Away: Away{
			Model: r.Model, Since: r.Since, ErrorKind: r.ErrorKind, ErrorMessage: r.ErrorMessage,
		}, Alone: r.Alone, Asks: r.Asks}
	}), nil
}

// AwayModels returns the models that are away.
func (s *Store) AwayModels(ctx context.Context) ([]Away, error) {
	rows, err := queries.ModelAway(ctx, s.DB())
	if err != nil {
		return nil, fmt.Errorf("read which models are away: %w", pg.Translate(err))
	}
	return all(rows, func(r db.ModelAwayRow) Away { return Away(r) }), nil
}

// Probe says how long to wait between two requests to a model that is away: From at first, Factor times as long each
// time, and Most at most.
type Probe struct {
	Model      string
	From, Most time.Duration
	Factor     float64
}

// Probe makes runs due that go on: for each model that is away and to be asked again one that asks it, and all that
// wait for a model which is back. provides is what the worker has, probes are of its models.
func (s *Store) Probe(ctx context.Context, provides []string, probes []Probe) error {
	params := db.ModelProbeParams{Provides: provides}
	for _, p := range probes {
		params.Models, params.Factors = append(params.Models, p.Model), append(params.Factors, p.Factor)
		params.FromSeconds = append(params.FromSeconds, p.From.Seconds())
		params.MostSeconds = append(params.MostSeconds, p.Most.Seconds())
	}

	asks, err := queries.ModelProbe(ctx, s.DB(), params)
	free, failed := queries.ModelWaitEnd(ctx, s.DB())
	if asks+free > 0 {
		s.bell.RingNow()
	}
	if err := errors.Join(err, failed, queries.ModelUnwanted(ctx, s.DB())); err != nil {
		return fmt.Errorf("look whether models are back: %w", pg.Translate(err))
	}
	return nil
}

// PassOver notes that a model is away and that runs ask another one in its place, so that one of them asks whether it
// is back, see [Store.TakeProbe].
func (s *Store) PassOver(ctx context.Context, w ModelWait) error {
	err := queries.ModelAwayAdd(ctx, s.DB(), db.ModelAwayAddParams{
		Model: w.Model, Since: w.Since, ErrorKind: w.ErrorKind, ErrorMessage: w.ErrorMessage, PassedOver: true,
		PauseSeconds: w.ProbeIn.Seconds(),
	})
	if err != nil {
		return fmt.Errorf("note that model %s is away: %w", w.Model, pg.Translate(err))
	}
	return nil
}

// TakeProbe reports whether a run is to ask a model that is away if it is back: that is due, and no other run does it.
func (s *Store) TakeProbe(ctx context.Context, p Probe) (bool, error) {
	taken, err := queries.ModelProbeTake(ctx, s.DB(), db.ModelProbeTakeParams{
		Model: p.Model, FromSeconds: p.From.Seconds(), Factor: p.Factor, MostSeconds: p.Most.Seconds(),
	})
	if err != nil {
		return false, fmt.Errorf("look whether model %s is to be asked: %w", p.Model, pg.Translate(err))
	}
	return taken > 0, nil
}

// ModelAnswered notes that a model is back, which a run asked. Those that wait for it are due.
func (s *Store) ModelAnswered(ctx context.Context, rootPlanID, planID, name string) error {
	params := db.ModelAnsweredParams{Model: name, RootPlanID: rootPlanID, PlanID: planID}
	err := queries.ModelAnswered(ctx, s.DB(), params)
	if err == nil {
		_, err = queries.ModelWaitEnd(ctx, s.DB())
	}
	if err != nil {
		return fmt.Errorf("note that model %s is back: %w", name, pg.Translate(err))
	}
	s.bell.RingNow()
	return nil
}
