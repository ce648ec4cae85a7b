//go:build page

package web_test

import (
	"testing"

	"github.com/actlog/actlog/internal/door/httpd"
)

// TestAgentsFitInBrowser: the page of what can be run is not wider than its window.
func TestAgentsFitInBrowser(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	b := browse(t, s.site, 1280, 900)
	b.fits("agents", "/agents")
}
