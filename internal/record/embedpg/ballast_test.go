//go:build unix

package embedpg

import (
	"errors"
	"log/slog"
	"os"
	"testing"
)

// TestNoBallast checks that a ballast goes when there is to be none, and stays for a program that only
// starts Postgres for a moment.
func TestNoBallast(t *testing.T) {
	t.Parallel()
	for size, stays := range map[int64]bool{0: true, NoBallast: false} {
		b := ballast{dir: t.TempDir(), size: size, log: slog.New(slog.NewTextHandler(t.Output(), nil))}
		if err := os.WriteFile(b.path(), []byte("heavy"), 0o600); err != nil {
			t.Fatal(err)
		}

		b.ensure()
		b.ensure() // nothing is left to remove
		if _, err := os.Stat(b.path()); errors.Is(err, os.ErrNotExist) == stays {
			t.Errorf("size %d: %v", size, err)
		}
	}
}
