package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// OpenQuestion is a wait in the list of those that nobody has answered yet. Its texts are cut to 300 characters. It has
// neither form nor subject.
type OpenQuestion struct {
	Wait      record.Wait
	AgentName *string // of the step that asks
	RunName   *string // of the root plan: its title, else its request or name
	Cursor    WaitCursor
}

// WaitCursor is the place of a wait in the list of open questions.
type WaitCursor struct {
	AskedAt time.Time // or when it was first heard of
	Number  int64
}

// WaitFilter narrows the list of open questions. Empty fields do not narrow it.
type WaitFilter struct {
	Project string
	// After continues a list behind a wait.
	After *WaitCursor
	// Limit bounds the list.
	Limit int
	// Timeout is how long the list may take.
	Timeout time.Duration
}

// IsOpenWait is the SQL that says whether a row w of actlog.wait_state waits for a human. A copy waits for nobody.
const IsOpenWait = `w.state = 'WAITING' AND w.forked_from IS NULL AND (w.expires_at IS NULL OR w.expires_at > now())`

const askedAt = `COALESCE(w.start_time, w.first_seen_at, '0001-01-01 00:00:00+00'::timestamptz)`

// openQuestions reads waits that nobody has answered, oldest first, behind a cursor. Those of runs that have ended, and
// those that have expired, wait for nobody.
var openQuestions = fieldsql.NewRead(`SELECT
    ` + fieldsql.Select(append(fieldsql.Lean(record.KindWait, "w", titleChars, "title", "form_description"),
	fieldsql.Column{Name: "agent_name", SQL: "left(a.agent_name, 300)"},
	fieldsql.Column{Name: "run_name", SQL: "left(COALESCE(NULLIF(r.title, ''), NULLIF(r.user_request, ''), r.name), 300)"},
	fieldsql.Column{Name: "asked_at", SQL: askedAt},
	fieldsql.Column{Name: "number", SQL: "w.id"})) + `
FROM actlog.wait_state AS w
CROSS JOIN LATERAL ( -- one by one, in the order of the list
    SELECT * FROM actlog.plan_execution_record AS y WHERE y.root_plan_id = w.root_plan_id AND y.current_plan_id = w.plan_id OFFSET 0
) AS p
CROSS JOIN LATERAL (
    SELECT * FROM actlog.plan_execution_record AS y WHERE y.root_plan_id = w.root_plan_id AND y.current_plan_id = w.root_plan_id OFFSET 0
) AS r
LEFT JOIN LATERAL (
    SELECT y.agent_name FROM actlog.agent_execution_record AS y WHERE y.root_plan_id = w.root_plan_id AND y.step_id = w.step_id OFFSET 0
) AS a ON true
WHERE ` + IsOpenWait + ` AND (` + askedAt + `, w.id) > ($1::timestamptz, $2::bigint)
    AND (NOT r.completed OR p.status = 'RUNNING')
    AND ($3::text IS NULL OR COALESCE(p.project, r.project, 'default') = $3::text)
ORDER BY ` + askedAt + `, w.id
LIMIT $4::integer`)

// OpenQuestions lists waits that nobody has answered, oldest first, in one statement. The error is [ErrSlow] if it
// scans too many.
func (r *Reader) OpenQuestions(ctx context.Context, f WaitFilter) ([]OpenQuestion, error) {
	var after WaitCursor // before all
	if f.After != nil {
		after = *f.After
	}

	args := []any{after.AskedAt, after.Number, orNil(f.Project), int32(f.Limit)}
	deadline := time.Now().Add(f.Timeout)
	list, err := pg.Read(ctx, r.db, func() (list []OpenQuestion, err error) {
		err = r.QueryBefore(ctx, deadline, "force_custom_plan", openQuestions.SQL, args, func(rows pgx.Rows) error {
			return openQuestions.Rows(rows, func(record.Kind) ([]any, error) {
				list = append(list, OpenQuestion{})
				q := &list[len(list)-1]
				return []any{&q.Wait, q, &q.Cursor}, nil
			}, nil)
		})
		return list, err
	})
	return list, pg.Wrap(err, "list open questions")
}
