package stock

import "testing"

func TestLeft(t *testing.T) {
	if got := Left(5, 2); got != 3 {
		t.Errorf("%d are left", got)
	}
}
