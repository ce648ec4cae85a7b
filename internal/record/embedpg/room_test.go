//go:build unix

package embedpg

import (
	"math"
	"strings"
	"testing"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()

	if err := room(dir, 1); err != nil {
		t.Errorf("with enough room: %v", err)
	}
	if err := room(dir, math.MaxUint64); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("without enough room: %v", err)
	}
	if err := room(dir+"/none", math.MaxUint64); err != nil {
		t.Errorf("with an unknown amount of room: %v", err)
	}
}
