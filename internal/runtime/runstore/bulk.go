package runstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// BulkAction is what a job asks many runs for.
type BulkAction string

// What jobs ask for.
const (
	BulkRetry BulkAction = "RETRY"
	BulkAgain BulkAction = "AGAIN"
	BulkStop  BulkAction = "STOP"
)

// BulkFilter says which root runs a job asks. Empty fields do not narrow it.
type BulkFilter struct {
	State     record.State `json:"state,omitzero"` // as in a list of runs
	ErrorKind string       `json:"errorKind,omitzero"`
	Executor  string       `json:"executor,omitzero"`
	Name      string       `json:"name,omitzero"`
	Agent     string       `json:"agent,omitzero"` // that did a step of the run itself
	Project   string       `json:"project,omitzero"`
	Tag       string       `json:"tag,omitzero"`
	Since     time.Time    `json:"since,omitzero"` // when the run was started, and before Until
	Until     time.Time    `json:"until,omitzero"`
}

// NewBulk is a job that is to start.
type NewBulk struct {
	Action  BulkAction
	Filter  BulkFilter
	Limits  json.RawMessage // that replace those of the runs; nil: none do
	Rate    float64         // runs a second
	Starter string          // who asks, as the server knows them
	Claim   string          // as they say themselves
	// IdempotencyKey, if it is set, is that of the request, whose hash is RequestSHA256.
	IdempotencyKey, RequestSHA256 string
}

// Bulk is a job as it stands.
type Bulk struct {
	ID                    string
	Action                BulkAction
	State                 record.State // RUNNING, COMPLETED or CANCELLED
	Matches, Done, Failed int64        // runs: all, those that were asked, and those that did not do it
	Rate                  float64
	CreatedAt, EndedAt    *time.Time
}

// bulkMatches selects the root runs that a filter asks for. Its parameters are those of [BulkFilter.args].
var bulkMatches = `FROM actlog.run AS r
CROSS JOIN LATERAL (
    SELECT * FROM actlog.plan_execution_record AS y WHERE y.root_plan_id = r.root_plan_id AND y.current_plan_id = r.plan_id OFFSET 0
) AS p
WHERE r.plan_id = r.root_plan_id
    AND ($1::text IS NULL OR r.done = $2::boolean AND ` + fmt.Sprintf(runState, "true") + ` = $1::text)
    AND ($3::text IS NULL OR ` + runErrorKind + ` = $3::text)
    AND ($4::text IS NULL OR r.executor = $4::text)
    AND ($5::text IS NULL OR r.name = $5::text)
    AND ($6::text IS NULL OR EXISTS (
        SELECT FROM actlog.agent_execution_record AS a
        WHERE a.root_plan_id = r.root_plan_id AND a.shown_plan_id = r.plan_id AND a.agent_name = $6::text
    ))
    AND ($7::text IS NULL OR r.project = $7::text)
    AND ($8::text IS NULL OR $8::text = ANY (p.tags))
    AND ($9::timestamptz IS NULL OR r.created_at >= $9::timestamptz)
    AND ($10::timestamptz IS NULL OR r.created_at < $10::timestamptz)`

func (f BulkFilter) args() []any {
	return []any{
		optional.Pointer(string(f.State)), f.State.Terminal(), optional.Pointer(f.ErrorKind), optional.Pointer(f.Executor),
		optional.Pointer(f.Name), optional.Pointer(f.Agent), optional.Pointer(f.Project), optional.Pointer(f.Tag),
		optional.Pointer(f.Since), optional.Pointer(f.Until),
	}
}

// bulkTimeout bounds how long it may take to find the runs of a job.
const bulkTimeout = time.Minute

// bulkFirst counts the runs that match, and reads the first ones, newest first.
var bulkFirst = `SELECT count(*) OVER () AS matches, r.plan_id ` + bulkMatches + `
ORDER BY r.created_at DESC, r.plan_id DESC
LIMIT $11::integer`

// BulkMatches returns how many runs a filter asks for, and the first ones of them, newest first. The error is
// [store.ErrSlow] if it takes too long to find them.
func (r *Reader) BulkMatches(
	ctx context.Context, f BulkFilter, first int,
) (matches int64, some []RunSummary, err error) {
	end := time.Now().Add(bulkTimeout)
	var ids []string
	err = r.QueryBefore(ctx, end, "force_custom_plan", bulkFirst, append(f.args(), first), func(rows pgx.Rows) error {
		var id string
		_, err := pgx.ForEachRow(rows, []any{&matches, &id}, func() error {
			ids = append(ids, id)
			return nil
		})
		return err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("find runs: %w", err)
	}

	for _, id := range ids {
		d, err := r.RunDetail(ctx, id)
		if errors.Is(err, record.ErrNotFound) { // it was deleted a moment ago
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		some = append(some, RunSummary{
			Plan: d.Plan, Executor: d.Executor, Name: d.Name, State: d.State, Takeovers: d.Takeovers,
			Priority: d.Priority, ConcurrencyKey: d.ConcurrencyKey, CreatedAt: d.CreatedAt,
			StartAt: d.StartAt, ExpiresAt: d.ExpiresAt, Schedule: d.Schedule, TickAt: d.TickAt,
		})
	}
	return matches, some, nil
}

// StartBulk starts a job with the runs that match now, and returns its id. A request that was made before returns the
// job that it started. The error is [ErrKeyUsed], [store.ErrSlow] or one of the database.
func (s *Store) StartBulk(ctx context.Context, b NewBulk) (id string, err error) {
	id = "bulk-" + rand.Text()
	filter, err := json.Marshal(b.Filter)
	if err != nil {
		return "", err
	}

	err = s.InTx(ctx, func(ctx context.Context, tx *store.Tx) error {
		added, err := queries.BulkAdd(ctx, tx, db.BulkAddParams{
			BulkID: id, Action: string(b.Action), Filter: filter, Limits: b.Limits, Rate: b.Rate, Starter: b.Starter,
			ClaimedBy:      optional.Pointer(b.Claim),
			IdempotencyKey: optional.Pointer(b.IdempotencyKey), RequestSha256: optional.Pointer(b.RequestSHA256),
		})
		if err != nil {
			return err
		}
		if added == 0 {
			id, err = bulkBefore(ctx, tx, b)
			return err
		}

		_, err = tx.Exec(ctx, `INSERT INTO actlog.bulk_run (bulk_id, place, plan_id)
SELECT $11::text, row_number() OVER (ORDER BY r.created_at, r.plan_id), r.plan_id `+bulkMatches,
			append(b.Filter.args(), id)...)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("start a job: %w", err)
	}
	return id, nil
}

// bulkBefore returns the job that a request started before.
func bulkBefore(ctx context.Context, tx *store.Tx, b NewBulk) (id string, err error) {
	before, err := queries.BulkByKey(ctx, tx, db.BulkByKeyParams{IdempotencyKey: b.IdempotencyKey, Starter: b.Starter})
	switch {
	case err != nil:
		return "", err
	case before.RequestSha256 != b.RequestSHA256:
		return "", ErrKeyUsed
	}
	return before.BulkID, nil
}

// Bulk returns a job. The error is [record.ErrNotFound] if there is none.
func (r *Reader) Bulk(ctx context.Context, id string) (Bulk, error) {
	row, err := read(ctx, r.DB(), queries.BulkRead, id)
	if err != nil {
		return Bulk{}, fmt.Errorf("read job %s: %w", id, err)
	}
	if row.EndedAt != nil {
		row.EndedAt = new(row.EndedAt.UTC())
	}
	return Bulk{
		ID: row.BulkID, Action: BulkAction(row.Action), State: record.State(row.State), Matches: row.Matches, Done: row.Done,
		Failed: row.Failed, Rate: row.Rate, CreatedAt: new(row.CreatedAt.UTC()), EndedAt: row.EndedAt,
	}, nil
}

// StopBulk stops a job: runs that it has not asked are not asked. The error is [ErrEnded] if it has ended, and
// [record.ErrNotFound] if there is none.
func (s *Store) StopBulk(ctx context.Context, id string) error {
	stopped, err := queries.BulkStop(ctx, s.DB(), id)
	if err == nil && stopped == 0 {
		if _, err = s.Reader.Bulk(ctx, id); err == nil {
			err = ErrEnded
		}
	}
	if err != nil {
		return fmt.Errorf("stop job %s: %w", id, pg.Translate(err))
	}
	return nil
}

// BulkTurn is the next runs of a job, which are to be asked.
type BulkTurn struct {
	ID      string
	Action  BulkAction
	Limits  json.RawMessage // nil: none
	Starter string
	Claim   string
	Runs    []BulkRun
}

// BulkRun is a run of a job.
type BulkRun struct {
	Place  int32
	PlanID string
}

// TakeBulk returns the next runs of a job that is due, so many at most; none if there is no such job. Who takes them
// asks each run, and notes that with [Store.HandledBulk]. If that does not happen in time, somebody else takes them:
// a run must be asked such that a second time does nothing.
func (s *Store) TakeBulk(ctx context.Context, most int) (t BulkTurn, err error) {
	job, err := queries.BulkTake(ctx, s.DB(), int32(most))
	if errors.Is(err, pgx.ErrNoRows) {
		return t, nil
	}
	if err != nil {
		return t, fmt.Errorf("take a job: %w", pg.Translate(err))
	}

	t = BulkTurn{
		ID: job.BulkID, Action: BulkAction(job.Action), Limits: job.Limits, Starter: job.Starter,
		Claim: optional.Value(job.ClaimedBy),
	}
	rows, err := queries.BulkNext(ctx, s.DB(), db.BulkNextParams{BulkID: t.ID, Runs: job.Runs})
	if err != nil {
		return t, fmt.Errorf("read the next runs of job %s: %w", t.ID, pg.Translate(err))
	}
	t.Runs = all(rows, func(r db.BulkNextRow) BulkRun { return BulkRun(r) })
	return t, nil
}

// HandledBulk notes that a run of a job was asked, and why it does not do it; empty: it does.
func (s *Store) HandledBulk(ctx context.Context, id string, place int32, refused string) error {
	err := queries.BulkHandled(ctx, s.DB(), db.BulkHandledParams{
		BulkID: id, Place: place, Error: optional.Pointer(refused),
	})
	if err != nil {
		return fmt.Errorf("note what came of a run of job %s: %w", id, pg.Translate(err))
	}
	return nil
}

// EndBulk ends a job if all of its runs were asked, and forgets old ones.
func (s *Store) EndBulk(ctx context.Context, id string) error {
	err := queries.BulkEnd(ctx, s.DB(), id)
	if err == nil {
		err = queries.BulkForget(ctx, s.DB())
	}
	if err != nil {
		return fmt.Errorf("end job %s: %w", id, pg.Translate(err))
	}
	return nil
}
