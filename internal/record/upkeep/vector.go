package upkeep

import (
	"context"

	"github.com/actlog/actlog/internal/record/pg"
)

// vectorDays is how long the vector of a text is kept after it was used last. It can be made again.
const vectorDays = 30

func (u *Upkeep) forgetVectors(ctx context.Context, days int) error {
	err := untilDone(func() (more bool, err error) {
		n, err := u.queries.VectorForget(ctx, u.db, int32(days))
		return n > 0, err
	})
	return pg.Wrap(err, "forget vectors")
}
