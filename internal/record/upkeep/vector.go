package upkeep

import (
	"context"
	"fmt"
)

// vectorDays is how long the vector of a text is kept after it was used last. It can be made again.
const vectorDays = 30

// forgetVectors deletes the vectors that were not used for so many days.
func (u *Upkeep) forgetVectors(ctx context.Context, days int) error {
	for {
		n, err := u.queries.VectorForget(ctx, u.db, int32(days))
		if err != nil {
			return fmt.Errorf("forget vectors: %w", err)
		}
		if n == 0 {
			return nil
		}
	}
}
