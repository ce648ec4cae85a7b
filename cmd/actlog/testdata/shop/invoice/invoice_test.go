package invoice

import "testing"

func TestSum(t *testing.T) {
	for want, cents := range map[int][]int{300: {100, 200}, 18000: {20000}, 89500: {100000}} {
		if got := Sum(cents); got != want {
			t.Errorf("%v: %d, want %d", cents, got, want)
		}
	}
}
