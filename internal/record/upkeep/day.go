package upkeep

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/pg"
)

// closeDays makes the figures of charts for each day of the last year that is over, the newest first: see
// actlog.close_day.
func (u *Upkeep) closeDays(ctx context.Context) error {
	err := untilDone(func() (more bool, err error) {
		began := u.now()
		err = u.inTurn(ctx, taskDays, func(tx pgx.Tx) error {
			if err := u.queries.DaySweep(ctx, tx); err != nil {
				return err
			}
			due, err := u.queries.DayDue(ctx, tx)
			if err != nil || len(due) == 0 {
				return err
			}

			more = true
			return u.queries.DayClose(ctx, tx, due[0])
		})

		if more && err == nil {
			err = u.pause(ctx, u.now().Sub(began)) // leave room for others
		}
		return more, err
	})
	return pg.Wrap(err, "close days")
}
