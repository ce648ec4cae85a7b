//go:build attack

package attack_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// approvable is a call that a human approves.
type approvable struct {
	name string
	call hostile // which works
	// took returns what took effect that differs from what was shown; empty: nothing.
	took func(w *world, before, shown string) string
	// meanwhile changes what the call is about; nil: nothing but the call decides what happens.
	meanwhile func(w *world)
}

const siteToken = "TOKEN-of-the-site-0123456789"

var approvables = []approvable{
	{
		"files", refused("files.edit_file", object{"path": "a.txt", "search": "two", "replace": "2"}),
		asTheDiff, changed("a.txt"),
	},
	{
		"code", refused("code.apply_refactoring", object{
			"patch": "--- a/a.go\n+++ b/a.go\n@@ -70,1 +70,1 @@\n-func A() {}\n+func B() {}\n",
		}),
		asTheDiff, changed("a.go"),
	},
	{
		"git", refused("git.commit", object{"message": "Two", "files": []string{"b.txt"}}),
		asCommitted, changed("b.txt"),
	},
	{
		"db", refused("db.execute", object{"sql": "UPDATE item SET price = $1 WHERE id = $2", "parameters": []int{11, 1}}),
		func(w *world, _, shown string) string {
			w.t.Helper()
			if got := w.items(); got != "1:11 2:20" {
				return got
			}
			return missing(shown, "UPDATE item SET price = $1 WHERE id = $2\n", "-- $1 = 11\n", "-- $2 = 1\n")
		}, nil,
	},
	{
		"http", refused("http.send", object{
			"method": "POST", "url": "SITE/orders?a=b", "body": "line\nline",
			"headers": object{"X-Mine": "mine", "Content-Type": "text/plain"},
		}),
		func(w *world, _, shown string) string {
			want := strings.Replace(shown, "[secret]", "Bearer "+siteToken, 1)
			if got := w.web.requests(); len(got) != 1 || got[0] != want {
				return fmt.Sprintf("%q, not %q", got, want)
			}
			return ""
		}, nil,
	},
	{
		"shell", refused("shell.say", object{"arguments": []string{"a b", "$(c)", "d\u202ee"}}),
		func(w *world, _, shown string) string {
			w.t.Helper()
			b, err := os.ReadFile(filepath.Join(w.root, "said"))
			if err != nil || string(b) != "<a b><$(c)><d\u202ee>" {
				return fmt.Sprintf("%q, %v", b, err)
			}
			return missing(shown, `sh say.sh "a b" "$(c)" "d\u202ee"`)
		}, nil,
	},
	{
		"docker", refused("docker.stop", object{"container": "web-1"}),
		func(w *world, _, shown string) string {
			if got := w.docker.done(); !slices.Equal(got, []string{"/containers/aaaaaaaaaaaa/stop"}) {
				return fmt.Sprintf("%q", got)
			}
			return missing(shown, "docker stop web-1\n", "id: aaaaaaaaaaaa\n")
		},
		func(w *world) {
			w.docker.mu.Lock()
			defer w.docker.mu.Unlock()
			w.docker.web = "cccccccccccc"
		},
	},
}

// changed lets somebody else change a file.
func changed(name string) func(w *world) {
	return func(w *world) { w.t.Helper(); put(w.t, w.root, name, "theirs\ntwo\n\nfunc A() {}\n") }
}

// missing returns the first of some parts that a text does not have.
func missing(text string, parts ...string) string {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return fmt.Sprintf("%q is not in %q", part, text)
		}
	}
	return ""
}

// asTheDiff applies what was shown to a copy of the folder as it was, and compares it with the folder.
func asTheDiff(w *world, before, shown string) string {
	w.t.Helper()
	outsideGit(w.t, before, "init", "--quiet")
	put(w.t, w.outside, "shown.diff", shown)
	outsideGit(w.t, before, "apply", filepath.Join(w.outside, "shown.diff"))
	if want, got := tree(w.t, before), tree(w.t, w.root); got != want {
		return got + "not\n" + want
	}
	return ""
}

// asCommitted compares what was shown with the commit.
func asCommitted(w *world, _, shown string) string {
	w.t.Helper()
	_, hunks, _ := strings.Cut(outsideGit(w.t, w.root, "show", "--format=", "HEAD"), "@@")
	subject := outsideGit(w.t, w.root, "log", "-1", "--format=%s")
	files := outsideGit(w.t, w.root, "show", "--format=", "--name-only", "HEAD")
	if subject != "Two" || files != "b.txt" {
		return subject + ": " + files
	}
	return missing(shown, "@@"+hunks, "    Two\n")
}

// copyOf copies the files of the folder.
func (w *world) copyOf() string {
	w.t.Helper()
	to := filepath.Join(w.t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-a", w.root, to).CombinedOutput(); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	if err := os.RemoveAll(filepath.Join(to, ".git")); err != nil {
		w.t.Fatal(err)
	}
	return to
}

// effects is all that the calls of approvables can change.
func (w *world) effects() string {
	w.t.Helper()
	commits := outsideGit(w.t, w.root, "log", "--all", "--format=%H")
	return fmt.Sprintf("%s%s%s%s%q%q",
		tree(w.t, w.root), tree(w.t, w.outside), commits, w.items(), w.web.requests(), w.docker.done())
}

// What a human is shown is what takes effect, to the letter. If it would be something else by then, nothing happens.
func TestS12WhatIsApproved(t *testing.T) {
	t.Parallel()
	for _, row := range approvables {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			put(t, w.root, "b.txt", "one\ntwo\n")
			if at, ok := row.call.arguments["url"].(string); ok {
				row.call.arguments["url"] = strings.Replace(at, "SITE", w.web.server.URL, 1)
			}

			rounds := [][]act{round([]hostile{row.call})}
			h := open(t, setting{
				scenes: []scriptmodel.Scene{scene("approver", rounds)}, env: []string{"SITE_TOKEN=" + siteToken},
				config: object{"agents": object{"approver": agentWith("approver", rounds)}, "toolsets": w.toolsets()},
			})
			waiting := func() (r *run, shown string) {
				r = h.start("approver")
				r.waits()
				v := r.view()
				if len(v.Waits) != 1 || v.Waits[0].Preview == nil {
					t.Fatalf("nothing is shown: %s", v.raw)
				}
				return r, v.Waits[0].Preview.Text
			}

			before, was := w.copyOf(), w.effects()
			r, shown := waiting()
			if now := w.effects(); now != was {
				t.Errorf("it happened before it was approved:\n%s", now)
			}
			if strings.Contains(shown, siteToken) {
				t.Errorf("a secret is shown: %s", shown)
			}

			r.decide("owner", r.view().Waits[0], object{"decision": "reject"})
			r.end()
			if now := w.effects(); now != was {
				t.Errorf("it happened although it was rejected:\n%s", now)
			}

			if row.meanwhile != nil {
				r, _ = waiting()
				row.meanwhile(w)
				was := w.effects()
				r.finish()

				if now := w.effects(); now != was {
					t.Errorf("what would happen changed, and something happened:\n%s\nwas\n%s", now, was)
				}
				if made := r.calls(); len(made) != 1 || made[0]["state"] != "FAILED" {
					t.Errorf("what would happen changed: %v", made)
				}
				w.refill(before)
			}

			r, shown = waiting()
			r.finish()
			if differs := row.took(w, before, shown); differs != "" {
				t.Errorf("something else took effect than was shown:\n%s\nshown:\n%s", differs, shown)
			}
		})
	}
}

// refill brings the files of the folder back that somebody else changed, and the container.
func (w *world) refill(before string) {
	w.t.Helper()
	for _, name := range []string{"a.txt", "b.txt", "a.go"} {
		b, err := os.ReadFile(filepath.Join(before, name))
		if err != nil {
			w.t.Fatal(err)
		}
		put(w.t, w.root, name, string(b))
	}

	w.docker.mu.Lock()
	defer w.docker.mu.Unlock()
	w.docker.web = "aaaaaaaaaaaa"
}

// Whatever a configuration names, no request goes to this machine or a private network unless it says so: the address
// counts, not its name.
func TestS12PrivateAddresses(t *testing.T) {
	t.Parallel()
	inner := newWorld(t).inner
	hosts := []string{}
	for _, host := range []string{
		"127.0.0.1", "127.1", "2130706433", "0x7f000001", "0", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
		"[64:ff9b::7f00:1]",
	} {
		hosts = append(hosts, host+":"+inner.port())
	}

	var calls []hostile
	for _, host := range hosts {
		calls = append(calls, refused("http.request", object{"url": "http://" + host + "/"}),
			refused("http.send", object{"method": "POST", "url": "http://" + host + "/", "body": "x"}))
	}
	rounds := [][]act{round(calls)}
	h := open(t, setting{
		scenes: []scriptmodel.Scene{scene("asker", rounds)},
		config: object{
			"agents":   object{"asker": agentWith("asker", rounds)},
			"toolsets": object{"http": object{"hosts": hosts, "methods": []string{"GET", "POST"}}},
			"policies": []object{{"tools": "*", "approval": false}},
		},
	})

	r := h.start("asker")
	r.end()
	made := r.calls()
	if len(made) != len(calls) {
		t.Fatalf("%d calls of %d: %s", len(made), len(calls), r.view().raw)
	}

	for _, each := range made {
		if each["state"] != "FAILED" {
			t.Errorf("%v is %s: %v", each["parameters"], each["state"], each["result"])
		}
	}
	if came := inner.requests(); len(came) > 0 {
		t.Errorf("the inner site got %q", came)
	}
}
