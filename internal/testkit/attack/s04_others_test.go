//go:build attack

package attack_test

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

// S4: conversations and idempotency keys belong to the key that began them.

func TestS4Conversations(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	// talk says something in a conversation as a key, and returns what the model was told.
	doors := map[string]func(key, conversation, text string) string{
		"POST /api/v1/runs": func(key, conversation, text string) string {
			return h.call(key, http.MethodPost, "/api/v1/runs",
				object{
					"executor": "agent", "conversationId": conversation, "input": object{"agent": "remembers", "request": text},
				}, "Prefer: wait=30").body
		},
		"executor workflow": func(key, conversation, text string) string {
			return h.call(key, http.MethodPost, "/api/v1/runs",
				object{
					"executor": "workflow", "conversationId": conversation, "input": object{"workflow": "chain", "input": text},
				}, "Prefer: wait=30").body
		},
		"/api/executor": func(key, conversation, text string) string {
			return h.call(key, http.MethodPost, "/api/executor/executeByToolNameSync",
				object{"toolName": "remembers", "conversationId": conversation, "replacementParams": object{"request": text}}).body
		},
		"/execution": func(key, conversation, text string) string {
			return h.call(key, http.MethodPost, "/execution/agents/remembers/run",
				object{"session_id": conversation, "user_message": text, "force_include_history": true}).body
		},
		"/execution, stream": func(key, conversation, text string) string {
			return h.call(key, http.MethodPost, "/execution/agents/remembers/stream",
				object{"session_id": conversation, "user_message": text, "force_include_history": true}).body
		},
	}

	h.writeConfig(object{"workflows": object{"chain": object{"steps": []string{"remembers"}}}})
	if err := h.server.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	h.until("the workflow is there", func() bool {
		return !strings.Contains(doors["executor workflow"]("owner", "warm-up", "Hi."), "no workflow")
	})

	for name, talk := range doors {
		conversation := "talk-" + strings.NewReplacer(" ", "", "/", "", ",", "").Replace(name)
		const secret = "my number is 4711"
		talk("alice", conversation, secret)
		for other, try := range doors {
			if body := try("bob", conversation, "What did I say?"); strings.Contains(body, "4711") {
				t.Errorf("what alice said by %s is told to bob by %s: %s", name, other, around(body, "4711"))
			}
		}

		for _, asked := range h.model.Requests() {
			if body := string(asked.Body); strings.Contains(body, "What did I say?") && strings.Contains(body, "4711") {
				t.Errorf("the model of bob's run was told what alice said by %s", name)
				break
			}
		}
	}

	// What is alice's stays hers, also after bob used the same name, and when she gets another key of her name.
	alice := func(when string) {
		t.Helper()
		if body := doors["/execution"]("alice", "talk-execution", "And I?"); !strings.Contains(body, "4711") {
			t.Errorf("%s: alice's conversation is lost: %s", when, clipDiff(body))
		}
	}
	alice("after bob")

	old := h.keys["alice"]
	file, _ := os.ReadFile(h.keyFile)
	lines := strings.Split(strings.TrimSpace(string(file)), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "alice:") {
			lines[i] = h.newKey("alice", keyScopes["alice"])
		}
	}

	h.write(h.keyFile, strings.Join(lines, "\n")+"\n")
	h.reload()
	h.until("the new key is there", func() bool {
		return h.call("alice", http.MethodGet, "/api/v1/limits", nil).status == http.StatusOK
	})
	if old == h.keys["alice"] {
		t.Fatal("the key is the old one")
	}
	alice("after rotation")
}

// reload makes the server read its files again.
func (h *house) reload() {
	h.t.Helper()
	if err := h.server.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		h.t.Fatal(err)
	}
}

// Who may not read does not get at sessions by their names either.
func TestS4Sessions(t *testing.T) {
	t.Parallel()
	h := open(t, setting{keys: object{}})
	h.call("alice", http.MethodPost, "/execution/agents/remembers/run", object{
		"session_id": "hers", "user_message": "my number is 4711",
	})

	for _, path := range []string{"/execution/history/hers", "/execution/history"} {
		for _, key := range []string{"run", "decide", "write", "admin", none, wrong} {
			if a := h.call(key, http.MethodGet, path, nil); a.status != http.StatusUnauthorized &&
				a.status != http.StatusForbidden {
				t.Errorf("GET %s with key %s: %d %s", path, key, a.status, a.body)
			}
		}
		if a := h.call("bob", http.MethodGet, path, nil); strings.Contains(a.body, "4711") {
			t.Errorf("GET %s shows bob what alice said: %s", path, around(a.body, "4711"))
		}
		if a := h.call("root", http.MethodGet, path, nil); a.status != http.StatusOK || !strings.Contains(a.body, "hers") {
			t.Errorf("GET %s does not show alice's session to admin: %d %s", path, a.status, a.body)
		}
	}

	for _, key := range []string{"alice", "bob", "run", "write", "read", "decide"} {
		if a := h.call(key, http.MethodDelete, "/execution/history/hers", nil); a.status != http.StatusForbidden {
			t.Errorf("DELETE of a session with key %s: %d", key, a.status)
		}
	}
}

func TestS4IdempotencyKeys(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	paths := []struct {
		path, id string
		body     object
	}{
		{
			"/api/v1/runs", "planId", object{
				"executor": "agent", "input": object{"agent": "quick", "request": "Do it for mark-00000000000000aa."},
			},
		},
		{"/execution/agents/quick/run", "session_id", object{"user_message": "Do it for mark-00000000000000ab."}},
		{"/api/execute", "execution_id", nil},
	}

	a := h.call("owner", http.MethodPost, "/api/plan", object{"prompt": "Plan for mark-00000000000000ac."})
	paths[2].body = object{"plan_id": a.object()["plan_id"]}

	for _, p := range paths {
		ids := map[string]string{}
		start := func(key string) answer {
			a := h.call(key, http.MethodPost, p.path, p.body, "Idempotency-Key: the-same"+strings.ReplaceAll(p.path, "/", "-"))
			if a.status >= 300 {
				t.Errorf("%s by %s: %d %s", p.path, key, a.status, a.body)
			}
			return a
		}

		for _, key := range []string{"alice", "bob", "alice"} {
			a := start(key)
			id := a.header.Get("Actlog-Plan-Id")
			if id == "" {
				id, _ = a.object()[p.id].(string)
			}
			for other, its := range ids {
				if other != key && its == id {
					t.Errorf("%s: %s got the run of %s, %s", p.path, key, other, id)
				}
				if other == key && its != id {
					t.Errorf("%s: the same request of %s made two runs, %s and %s", p.path, key, its, id)
				}
			}
			ids[key] = id
		}
	}

	// Another body is refused only to the key that used it.
	other := object{
		"executor": "agent", "input": object{"agent": "quick", "request": "Something else for mark-00000000000000ad."},
	}
	if a := h.call("alice", http.MethodPost, "/api/v1/runs", other,
		"Idempotency-Key: the-same-api-v1-runs"); a.status != http.StatusUnprocessableEntity {
		t.Errorf("alice's key with another body: %d %s", a.status, a.body)
	}
	if a := h.call("root", http.MethodPost, "/api/v1/runs", other,
		"Idempotency-Key: the-same-api-v1-runs"); a.status != http.StatusAccepted {
		t.Errorf("the idempotency key of others is refused to root: %d %s", a.status, a.body)
	}
}
