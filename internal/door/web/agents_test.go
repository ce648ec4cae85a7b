package web_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
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

// TestAgentsNeedRead: whoever may read is led to what can be run, also who may start nothing, and finds no form there.
func TestAgentsNeedRead(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	all, secret := keys(t, httpd.ScopeRead)
	s.door.SetKeys(all)
	as := func(path string) *page {
		return parse(t, s.send("GET", path, "", "Authorization", "Bearer "+secret))
	}

	if len(as("/").all("href", "/agents")) != 1 {
		t.Error("no way to what can be run")
	}
	p := as("/agents")
	says(t, p, "clerk", "shop.refund")
	if len(p.all("href", "/start?executor=agent&name=clerk")) != 0 {
		t.Error("a way to what the key may not do")
	}
}
