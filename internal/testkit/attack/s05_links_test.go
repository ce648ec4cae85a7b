//go:build attack

package attack_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/actlog/actlog/record"
)

// S5: a link does nothing.

// login returns the cookie of a session.
func (h *house) login(key string) (cookie string, a answer) {
	h.t.Helper()
	a = h.call(none, http.MethodPost, "/login", url.Values{"key": {h.keys[key]}}.Encode(),
		"Content-Type: application/x-www-form-urlencoded", "Origin: "+h.url, "Sec-Fetch-Site: same-origin")
	cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
	return cookie, a
}

// sites are what browsers say of where a request comes from.
var sites = map[string][]string{
	"nothing":             nil,
	"none":                {"Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"},
	"another site":        {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"},
	"a sister site":       {"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate"},
	"the same site":       {"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors"},
	"a referer elsewhere": {"Referer: https://evil.example/"},
	"an origin elsewhere": {"Origin: https://evil.example"},
	"no origin":           {"Origin: null"},
}

func TestS5ALinkStartsNothing(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	cookie, a := h.login("owner")
	if a.status != http.StatusSeeOther || cookie == "" {
		t.Fatalf("log in: %d %s", a.status, a.body)
	}
	if a := h.call(none, http.MethodGet, "/", nil, "Cookie: "+cookie); a.status != http.StatusOK {
		t.Fatalf("the page with the session: %d", a.status)
	}

	const mark = "mark-00000000000000ef"
	path := "/api/executor/executeByToolNameSync/quick?request=" + url.QueryEscape("Do it for "+mark)
	for site, headers := range sites {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			a := h.call(none, method, path, nil, append([]string{"Cookie: " + cookie}, headers...)...)
			refused := a.status == http.StatusUnauthorized || a.status == http.StatusForbidden
			if !refused && (method != http.MethodHead || a.status != http.StatusMethodNotAllowed) {
				t.Errorf("%s with the cookie from %s: %d %s", method, site, a.status, clipDiff(a.body))
			}
		}
	}

	if n := len(h.tools.of(mark)); n > 0 {
		t.Errorf("links started %d runs", n)
	}
	if a := h.call("run", http.MethodHead, path, nil); a.status < 400 && len(h.tools.of(mark)) > 0 {
		t.Errorf("HEAD starts a run: %d", a.status)
	}
	if a := h.call("run", http.MethodGet, path, nil); a.status != http.StatusOK || len(h.tools.of(mark)) != 1 {
		t.Errorf("with a key: %d %s", a.status, a.body)
	}

	// Nor do other requests that change something, unless the page itself sends them.
	r := h.start("approved")
	r.reach()
	w := r.view().Waits[0]
	for site, headers := range sites {
		if site == "the same site" {
			continue
		}
		for path, body := range map[string]string{
			"/api/v1/runs": `{"executor":"agent","input":{"agent":"quick","request":"mark-00000000000000ee"}}`,
			"/api/v1/runs/" + r.id + "/waits/" + w.WaitID: `{"decision":"approve"}`,
			"/api/v1/runs/" + r.id + "/stop":              `{}`,
			"/runs/" + r.id + "/control":                  `action=stop`,
			"/runs/" + r.id:                               `wait=` + w.WaitID + `&decision=approve`,
			"/start":                                      `what=agent/quick&request=mark-00000000000000ee`,
			"/api/executor/stopTask/" + r.id:              `{}`,
			"/api/executor/executeByToolNameAsync":        `{"toolName":"quick","replacementParams":{"request":"mark-00000000000000ee"}}`,
			"/api/v1/records":                             `{"records":[]}`,
			"/v1/traces":                                  `{"resourceSpans":[]}`,
		} {
			for _, content := range []string{"application/json", "text/plain", "application/x-www-form-urlencoded"} {
				if a := h.call(none, http.MethodPost, path, body,
					append([]string{"Cookie: " + cookie, "Content-Type: " + content},
						headers...)...); a.status != http.StatusForbidden && a.status != http.StatusUnauthorized {
					t.Errorf("POST %s as %s with the cookie from %s: %d %s", path, content, site, a.status, clipDiff(a.body))
				}
			}
		}
	}

	if n := len(h.tools.of("mark-00000000000000ee")); n > 0 {
		t.Errorf("other sites started %d runs", n)
	}
	r.goesAsUndisturbed("requests of other sites")
}

func TestS5ALinkSpendsNoException(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	cookie, _ := h.login("owner")
	for site, headers := range sites {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			id := record.NewPlanID()
			h.call("write", http.MethodPost, "/api/v1/records", object{"records": []object{
				{
					"kind": "plan", "rootPlanId": id, "currentPlanId": id, "title": "Failed", "state": "FAILED",
					"exception": "it broke once",
				},
			}})

			path := "/api/executor/details/" + id
			for range 2 {
				if a := h.call(none, method, path, nil,
					append([]string{"Cookie: " + cookie}, headers...)...); a.status == http.StatusInternalServerError {
					t.Errorf("%s of the details with the cookie from %s spends the exception", method, site)
				}
			}
			if a := h.call("read", http.MethodGet, path, nil); a.status != http.StatusInternalServerError ||
				!strings.Contains(a.body, "it broke once") {
				t.Errorf("after a %s with the cookie from %s the exception is gone: %d %s", method, site, a.status,
					clipDiff(a.body))
			}
			if a := h.call("read", http.MethodGet, path, nil); a.status != http.StatusOK {
				t.Errorf("the exception is served more than once: %d", a.status)
			}
		}
	}
}
