//go:build attack

package attack_test

import "testing"

func TestUndisturbed(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	for _, m := range moments {
		t.Logf("%s: %+v", m.kind, h.undisturbed(m.kind))
	}
	for _, k := range []string{"late", "dag"} {
		t.Logf("%s: %+v", k, h.undisturbed(k))
	}
}
