package web_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/storetest"
)

// TestAgents: a page lists what can be run, and leads to the forms that start agents.
func TestAgents(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	var p *page
	storetest.Until(t, "the worker lives", func() bool {
		p = s.get("/agents", http.StatusOK)
		return strings.Contains(text(p.one("class", "start")), "1 live worker")
	})
	says(t, p, "clerk", "Answers customers", "shop.refund", "writes · needs approval", "used by clerk",
		"default openai scripted")
	var links []string
	for n := range p.one("class", "start").Descendants() {
		if n.Data == "a" {
			links = append(links, attr(n, "href"))
		}
	}
	if !slices.Contains(links, "/start?executor=agent&name=clerk") {
		t.Errorf("there is %q", links)
	}
	s.get("/agents?x=1", http.StatusBadRequest)
}
