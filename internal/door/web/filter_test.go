package web_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestWrongFilters: W9: a page with a filter that is wrong keeps all values in their fields, says beside the field what
// is wrong, and shows what the other filters choose.
func TestWrongFilters(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeSteps("one", record.Completed, "list a")
	s.writeSteps("two", record.Failed, "list b")
	for _, root := range []string{"mine", "theirs"} {
		storetest.Write(t, s.store, &record.Plan{
			RootPlanID: root, CurrentPlanID: root, Title: new("Run of " + root), Project: &root, State: new(record.Running),
			StartTime: storetest.At(0),
		},
			&record.Wait{
				RootPlanID: root, PlanID: root, WaitID: "w-" + root, Title: new("Asked by " + root), StartTime: storetest.At(1),
			})
	}

	long := url.QueryEscape(string(make([]byte, 3)))

	for path, tt := range map[string]struct {
		wrong map[string]string // by the names of fields
		shows []string          // texts of links
		not   []string
	}{
		"/?since=yesterday&project=mine": {
			map[string]string{"since": "since must be a time such as"}, []string{"Run of mine"}, []string{"Run of theirs"},
		},
		"/?project=mine&state=BAD": {
			map[string]string{"state": "state must be a state of plans"}, []string{"Run of mine"}, []string{"Run of theirs"},
		},
		"/?project=mine&failed=perhaps&minCost=x&until=never": {
			map[string]string{
				"failed": "failed must be true or false", "minCost": "minCost must be", "until": "until must be a time",
			}, []string{"Run of mine"}, []string{"Run of theirs"},
		},
		"/?minDuration=long&maxDuration=-1s&maxCost=-1": {
			map[string]string{
				"minDuration": "minDuration must be", "maxDuration": "maxDuration must be", "maxCost": "maxCost must be",
			}, []string{"Run of mine", "Run of theirs"}, nil,
		},
		"/?cursor=x&project=mine":              {nil, []string{"Run of mine"}, []string{"Run of theirs"}},
		"/?nonsense=x&project=mine&limit=many": {nil, []string{"Run of mine"}, []string{"Run of theirs"}},
		"/waits?project=" + long: {
			map[string]string{"project": "project must be valid UTF-8 without NUL"},
			[]string{"Asked by mine", "Asked by theirs"}, nil,
		},
		"/waits?project=mine&cursor=x": {nil, []string{"Asked by mine"}, []string{"Asked by theirs"}},
		"/charts?since=yesterday&project=mine": {
			map[string]string{"since": "since must be a time such as"}, nil, nil,
		},
		"/charts?since=2020-01-01&until=soon&project=mine": {map[string]string{"until": "until must be a time"}, nil, nil},
		"/charts?since=yesterday&until=2020-01-01": {
			map[string]string{"since": "since must be a time such as"}, nil, nil,
		},
		"/charts?since=yesterday&until=soon": {
			map[string]string{"since": "since must be a time such as", "until": "until must be a time"}, nil, nil,
		},
		"/charts?since=2020-01-02&until=2020-01-01": {
			map[string]string{"until": "until must be after since"}, nil, nil,
		},
		"/search?q=Asked&kind=x&state=BAD&since=yesterday": {
			map[string]string{"kind": "kind must be kinds", "state": "state must be a state", "since": "since must be a time"},
			[]string{"Run of mine", "Run of theirs"}, nil,
		},
		"/compare?a=one&b=two&from=-1":       {nil, []string{"scout"}, nil},
		"/compare?a=one&b=two&equal=perhaps": {nil, []string{"scout"}, nil},
		"/compare?a=one&b=one":               {map[string]string{"b": "Both are the same run."}, nil, nil},
	} {
		p := s.get(path, http.StatusBadRequest)
		asked, _ := url.Parse(path)
		fields := map[string]*html.Node{}
		shown := map[string]bool{}
		for n := range p.root.Descendants() {
			switch {
			case n.Type != html.ElementNode:
			case (n.Data == "input" || n.Data == "select") && attr(n, "name") != "run":
				fields[attr(n, "name")] = n
			case n.Data == "a":
				name, _, _ := strings.Cut(text(n), " ≠")
				shown[name] = true
			}
		}

		for name := range asked.Query() {
			field := fields[name]
			if field == nil {
				continue
			}
			value := attr(field, "value")
			if field.Data == "select" {
				for o := range field.ChildNodes() {
					if slices.ContainsFunc(o.Attr, func(a html.Attribute) bool { return a.Key == "selected" }) {
						value = attr(o, "value")
					}
				}
			}

			if want := asked.Query().Get(name); value != want && name != "project" || name == "project" && want == "mine" &&
				value != want {
				t.Errorf("%s: field %s has %q", path, name, value)
			}
			if bad, want := attr(field, "aria-invalid") == "true", tt.wrong[name] != ""; bad != want {
				t.Errorf("%s: field %s is invalid: %t", path, name, bad)
			}
		}

		for name, why := range tt.wrong {
			got := ""
			if described := p.all("id", attr(fields[name], "aria-describedby")); len(described) == 1 {
				got = text(described[0])
			}
			if len(got) < len(why) || got[:len(why)] != why {
				t.Errorf("%s: field %s is described by %q, want %q", path, name, got, why)
			}
		}

		if tt.wrong == nil && len(p.all("role", "alert")) == 0 {
			t.Errorf("%s does not say what is wrong", path)
		}
		for _, name := range tt.shows {
			if !shown[name] {
				t.Errorf("%s does not show %s", path, name)
			}
		}
		for _, name := range tt.not {
			if shown[name] {
				t.Errorf("%s shows %s", path, name)
			}
		}

		// what leads on leads to what is right
		for _, a := range append(p.all("rel", "next"), p.all("aria-label", "Since")...) {
			if to := attr(a, "href"); to != "" {
				s.get(to, http.StatusOK)
			}
		}
	}
}
