//go:build attack

package attack_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// S9: who decided is who was authenticated.

func TestS9DecidedBy(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	for _, claim := range []string{"", "somebody", "alice", "owner"} {
		for _, kind := range []string{"approved", "asking", "orchestrator"} {
			r := h.start(kind)
			r.reach()
			w := r.view().Waits[0]
			body := object{"decision": w.Decisions[0]}
			if body["decision"] == "submit" {
				body["values"] = object{"city": "Oslo"}
			}
			if claim != "" {
				body["by"] = claim
			}

			a := r.decide("bob", w, body)
			if a.status != http.StatusOK {
				t.Fatalf("decide: %d %s", a.status, a.body)
			}
			answered := a.object()
			if answered["decidedBy"] != "bob" {
				t.Errorf("%s: by %q of bob's key is answered as decided by %v", kind, claim, answered["decidedBy"])
			}
			if by, _ := answered["by"].(string); by != claim {
				t.Errorf("%s: the claim %q is answered as %q", kind, claim, by)
			}

			for _, row := range r.records() {
				if row["kind"] == "wait" && row["waitId"] == w.WaitID && row["decidedBy"] != nil && row["decidedBy"] != "bob" {
					t.Errorf("%s: by %q of bob's key is on record as decided by %v", kind, claim, row["decidedBy"])
				}
			}
			r.goesAsUndisturbed("by " + claim)
		}
	}

	// A session of the page is that of its key, and a form of the executor API has no say in it either.
	cookie, _ := h.login("bob")
	r := h.start("approved")
	r.reach()
	w := r.view().Waits[0]
	form := url.Values{"wait": {w.WaitID}, "waitId": {w.WaitID}, "decision": {"approve"}, "by": {"alice"}}
	page := h.call(none, http.MethodPost, "/runs/"+r.id, form.Encode(), "Cookie: "+cookie,
		"Content-Type: application/x-www-form-urlencoded", "Origin: "+h.url, "Sec-Fetch-Site: same-origin")

	for _, row := range r.records() {
		if row["kind"] == "wait" && row["decidedBy"] != nil && row["decidedBy"] != "bob" {
			t.Errorf("the page (%d) records as decided by %v", page.status, row["decidedBy"])
		}
	}
	r.finish()

	r = h.start("asking")
	r.reach()
	if a := h.call("bob", http.MethodPost, "/api/executor/submit-input/"+r.id,
		object{"city": "Oslo", "by": "alice", "decidedBy": "alice"}); a.status != http.StatusOK &&
		a.status != http.StatusBadRequest {
		t.Errorf("submit-input: %d %s", a.status, a.body)
	}

	r.finish()
	for _, row := range r.records() {
		if row["kind"] == "wait" && row["decidedBy"] != nil && row["decidedBy"] != "bob" && row["decidedBy"] != "owner" {
			t.Errorf("submit-input records as decided by %v", row["decidedBy"])
		}
	}

	// Who asked to stop is the key as well.
	r = h.start("approved")
	r.reach()
	if a := h.call("run", http.MethodPost, "/api/v1/runs/"+r.id+"/stop",
		object{"by": "alice"}); a.status != http.StatusAccepted {
		t.Errorf("stop: %d %s", a.status, a.body)
	}
}

func TestS9NotStarter(t *testing.T) {
	t.Parallel()
	h := open(t, setting{
		config: object{"policies": []object{{"tools": "bank-pay", "approval": object{"notStarter": true}}}},
	})

	for _, kind := range []string{"approved", "parent", "two"} {
		r := h.startAs("alice", kind, nil)
		r.reach()
		w := r.view().Waits[0]
		approve := func(key string, want int, body object, headers ...string) {
			t.Helper()
			if a := h.call(key, http.MethodPost, "/api/v1/runs/"+r.id+"/waits/"+w.WaitID, body, headers...); a.status != want {
				t.Errorf("%s: %s decides %v: %d, want %d: %s", kind, key, body, a.status, want, a.body)
			}
		}

		approve("alice", http.StatusForbidden, object{"decision": "approve"})
		approve("alice", http.StatusForbidden, object{"decision": "approve", "by": "bob"})
		approve("write", http.StatusForbidden, object{"decision": "approve"}) // has no scope for it
		cookie, _ := h.login("alice")
		approve(none, http.StatusForbidden, object{"decision": "approve"}, "Cookie: "+cookie, "Origin: "+h.url,
			"Sec-Fetch-Site: same-origin")

		// Another key of the same name is the same starter.
		h.write(h.keyFile, h.keyLines()+h.newKey("alice", keyScopes["alice"])+"\n")
		h.reload()
		h.until("alice has a second key", func() bool {
			return h.call("alice", http.MethodGet, "/api/v1/limits", nil).status == http.StatusOK
		})
		approve("alice", http.StatusForbidden, object{"decision": "approve"})
		if slices.ContainsFunc(h.tools.of(r.mark), func(e effect) bool { return e.Tool == "pay" }) {
			t.Errorf("%s: the starter's approval ran the tool", kind)
		}

		approve("bob", http.StatusOK, object{"decision": "approve", "by": "alice"})
		r.finish()
	}
}

// keyLines are the lines of the file of keys.
func (h *house) keyLines() string {
	return strings.TrimSpace(h.read(h.keyFile)) + "\n"
}
