package httpd_test

import (
	"errors"
	"testing"

	"github.com/actlog/actlog/internal/httpd"
)

// TestSharesOfABudget: N16: a client has half of it and a connection a quarter, and what is
// returned can be taken again.
func TestSharesOfABudget(t *testing.T) {
	t.Parallel()
	b := httpd.NewBudget(1000)
	lease := func(name, connection string) *httpd.Lease {
		return b.Lease(httpd.Client{Name: name, Connection: connection})
	}
	take := func(l *httpd.Lease, n int64, want error) {
		t.Helper()
		if err := l.Take(n); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	first := lease("a", "a:1")
	take(first, 251, httpd.ErrConnectionShare)
	take(first, 250, nil)
	take(lease("a", "a:1"), 1, httpd.ErrConnectionShare)
	take(lease("a", "a:2"), 250, nil)
	take(lease("a", "a:3"), 1, httpd.ErrClientShare)
	take(lease("b", "b:1"), 250, nil)
	take(lease("b", "b:2"), 249, nil)
	take(lease("c", "c:1"), 2, httpd.ErrBusy)
	take(lease("c", "c:1"), 1, nil)
	if b.Held() != 1000 {
		t.Errorf("%d bytes are held", b.Held())
	}
	first.Return()
	first.Return() // nothing is returned twice
	if b.Held() != 750 {
		t.Errorf("%d bytes are held", b.Held())
	}
	take(lease("c", "c:2"), 250, nil)
}
