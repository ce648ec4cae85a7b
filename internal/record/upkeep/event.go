package upkeep

import (
	"context"

	"github.com/actlog/actlog/internal/record/pg"
)

// forgottenEvents bounds how many events a statement deletes.
const forgottenEvents = 1000

// forgetEvents deletes events that were sent more than a day ago, and that no run which waits may still take.
func (u *Upkeep) forgetEvents(ctx context.Context) error {
	err := untilDone(func() (more bool, err error) {
		n, err := u.queries.EventForget(ctx, u.db, forgottenEvents)
		return n > 0, err
	})
	return pg.Wrap(err, "forget events")
}
