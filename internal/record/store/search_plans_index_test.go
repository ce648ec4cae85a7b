package store

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A set of positions is the same bits, whether it is kept as a list or not.
func TestTreeSet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		places := rapid.SliceOfN(rapid.IntRange(0, sliceTrees-1), 1, 600).Draw(rt, "places")
		slices.Sort(places)
		var set treeSet
		want := make([]byte, sliceTrees/8)
		for _, i := range places {
			set.add(i)
			want[i/8] |= 0x80 >> (i % 8)
		}

		bits := set.bits()
		if end := places[len(places)-1] + 1; int(bits.Len) != end || !slices.Equal(bits.Bytes, want[:(end+7)/8]) {
			rt.Fatalf("%d bits, %x", bits.Len, bits.Bytes)
		}
	})
}
