package limit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/actlog/actlog/agent/limit"
)

// What has the same name and the same limits shares them, and nothing else does.
func TestGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g limit.Group
		one := limit.Limits{Concurrent: 1}
		end, err := g.Begin(t.Context(), "a", one)
		if err != nil {
			t.Fatal(err)
		}

		for _, other := range []struct {
			name   string
			limits limit.Limits
		}{{"b", one}, {"a", limit.Limits{Concurrent: 2}}, {"a", limit.Limits{}}} {
			if _, err := g.Begin(t.Context(), other.name, other.limits); err != nil {
				t.Errorf("%+v: %v", other, err)
			}
		}

		began := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := g.Begin(ctx, "a", one)
			began <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-began; !errors.Is(err, context.Canceled) {
			t.Errorf("the second began beside the first: %v", err)
		}

		end()
		if _, err := g.Begin(t.Context(), "a", one); err != nil {
			t.Errorf("after the end of the first: %v", err)
		}
	})
}
