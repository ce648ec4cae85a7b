//go:build attack

package attack_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// S11: what is around the doors.

// A server without keys answers to its own names only, so that no page reaches it by a name of its own.
func TestS11HostWithoutKeys(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		s := setting{open: true, listen: listen}
		if listen != "127.0.0.1:0" {
			s.flags = []string{"--insecure"}
		}
		h := open(t, s)
		_, port, _ := strings.Cut(strings.TrimPrefix(h.url, "http://"), ":")
		if i := strings.LastIndex(port, ":"); i >= 0 { // [::]:port
			port = port[i+1:]
		}
		h.url = "http://127.0.0.1:" + port

		for _, host := range []string{
			"evil.example", "evil.example:" + port, "localhost.evil.example", "127.0.0.1.evil.example", "evil.example.",
			"EVIL.example", "169.254.169.254.nip.io",
		} {
			for _, path := range []string{"/", "/api/v1/plans", "/api/v1/runs", "/metrics"} {
				if a := h.call(none, http.MethodGet, path, nil, "Host: "+host); a.status != http.StatusForbidden {
					t.Errorf("%s: GET %s for host %s is %d", listen, path, host, a.status)
				}
			}
			if a := h.call(none, http.MethodPost, "/api/v1/records", `{"records":[]}`,
				"Host: "+host); a.status != http.StatusForbidden {
				t.Errorf("%s: POST of records for host %s is %d", listen, host, a.status)
			}
		}

		for _, host := range []string{"localhost", "127.0.0.1:" + port, "localhost:" + port} {
			if a := h.call(none, http.MethodGet, "/api/v1/plans", nil, "Host: "+host); a.status != http.StatusOK {
				t.Errorf("%s: for host %s it is %d", listen, host, a.status)
			}
		}
	}
}

// A session ends with its key for good.
func TestS11RestoredKey(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	cookie, _ := h.login("read")
	page := func() int { return h.call(none, http.MethodGet, "/api/v1/plans", nil, "Cookie: "+cookie).status }
	if page() != http.StatusOK {
		t.Fatalf("the session is no session: %d", page())
	}

	with := h.read(h.keyFile)
	without := ""
	for line := range strings.Lines(with) {
		if !strings.HasPrefix(line, "read:") {
			without += line
		}
	}
	reload := func(keys, what string, want int) {
		h.write(h.keyFile, keys)
		h.reload()
		h.until(what, func() bool { return h.call("read", http.MethodGet, "/api/v1/plans", nil).status == want })
	}

	reload(without, "the key is gone", http.StatusUnauthorized)
	if page() != http.StatusUnauthorized {
		t.Errorf("the session of a key that is gone: %d", page())
	}
	reload(with, "the key is back", http.StatusOK)
	if page() != http.StatusUnauthorized {
		t.Errorf("the session of a key that is back lives again: %d", page())
	}

	if again, a := h.login("read"); a.status != http.StatusSeeOther ||
		h.call(none, http.MethodGet, "/api/v1/plans", nil, "Cookie: "+again).status != http.StatusOK {
		t.Errorf("nobody can log in with a key that is back: %d", a.status)
	}
}

func TestS11Readyz(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	for _, key := range []string{none, wrong, "write", "run", "decide"} {
		a := h.call(key, http.MethodGet, "/readyz", nil)
		if a.status != http.StatusOK {
			t.Errorf("/readyz with key %s: %d", key, a.status)
		}

		for _, word := range []string{"role", "timeline", "standbys", "lag", "replica"} {
			if strings.Contains(a.body, word) {
				t.Errorf("/readyz tells key %s its %s: %q", key, word, a.body)
			}
		}
	}

	if a := h.call("read", http.MethodGet, "/readyz", nil); !strings.Contains(a.body, "timeline") {
		t.Errorf("/readyz does not tell who may read how the database stands: %q", a.body)
	}
}

// The tools of files do not read secrets, and not what lies outside by a hard link.
func TestS11Files(t *testing.T) {
	t.Parallel()
	const secret = "PLANTED-4711"
	dir, outside := t.TempDir(), t.TempDir()
	put(t, outside, "outside.txt", "outside "+secret+"\n")

	if err := os.Link(filepath.Join(outside, "outside.txt"), filepath.Join(dir, "hard.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "outside.txt"), filepath.Join(dir, "soft.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "folder")); err != nil {
		t.Fatal(err)
	}

	secrets := []string{
		".env", ".env.local", ".env.production", "deep/.env", "server.key", "id_rsa", ".ssh/id_ed25519", "cert.pem",
		"key.p12", ".netrc", ".pgpass", ".npmrc", ".pypirc",
		".aws/credentials", ".git-credentials", ".docker/config.json", ".kube/config", "credentials.json", ".htpasswd",
		"keystore.jks",
	}
	for _, name := range secrets {
		put(t, dir, name, "SECRET="+secret+" of "+name+"\n-----BEGIN PRIVATE KEY-----\n"+secret+
			"\n-----END PRIVATE KEY-----\n")
	}
	put(t, dir, "plain.txt", "good\n")

	var calls []act
	for _, name := range append([]string{
		"hard.txt", "soft.txt", "folder/outside.txt", "../" + filepath.Base(outside) + "/outside.txt",
		outside + "/outside.txt", ".env/../.env", "./.env", "deep/../.env", "plain.txt",
	}, secrets...) {
		calls = append(calls, act{"files.read_file", `{"path":"` + name + `"}`})
	}
	rounds := [][]act{calls, { // calls of one round, or the agent takes them for a loop
		{"files.search_in_files", `{"pattern":"PLANTED"}`}, {"files.search_in_files", `{"pattern":"SECRET","path":".env"}`},
		{"files.search_in_files", `{"pattern":"PLANTED","path":"deep"}`},
		{"files.search_in_files", `{"pattern":".","include":".env*"}`}, {
			"files.search_in_files", `{"pattern":"PLANTED","path":"hard.txt"}`,
		},
		{"files.read_file", `{"path":".env","numbered":true}`}, {"files.file_info", `{"path":".env"}`},
		{"files.file_info", `{"path":"folder/outside.txt"}`},
		{"files.glob", `{"pattern":"**/outside.txt"}`}, {"files.glob", `{"pattern":"*","path":"folder"}`},
		{"files.glob", `{"pattern":"../*"}`},
	}}

	h := open(t, setting{
		scenes: []scriptmodel.Scene{scene("looker", rounds)},
		config: object{
			"toolsets": object{"files": object{"root": dir}},
			"agents": object{
				"looker": object{
					"description": "Looks.", "systemPrompt": promptOf("looker"), "tools": []string{"files.*"}, "maxSteps": 6,
				},
			},
		},
	})
	r := h.start("looker")
	r.end()

	seen := map[string]bool{}
	made, ordinary := 0, false
	for _, o := range r.records() {
		result, _ := o["result"].(string)
		parameters, _ := o["parameters"].(string)
		if o["kind"] != "actTool" {
			continue
		}

		made++
		if strings.Contains(result, secret) && !seen[parameters] {
			seen[parameters] = true
			t.Errorf("%s %s reads %s", o["name"], parameters, around(result, secret))
		}
		ordinary = ordinary || strings.Contains(parameters, "plain.txt") && strings.Contains(result, "good")
	}
	if !ordinary {
		t.Error("an ordinary file cannot be read")
	}
	if want := len(calls) + len(rounds[1]); made < want {
		t.Errorf("%d of %d calls were made: %s", made, want, clipDiff(r.view().raw))
	}
}

// actlog psql is who may read reports, unless it is asked for more.
func TestS11Psql(t *testing.T) {
	t.Parallel()
	h := open(t, setting{private: true})
	data := []string{"--data-dir", filepath.Join(h.dir, "data")}
	ask := func(sql string, flags ...string) (string, string, int) {
		args := append(append([]string{"psql"}, data...), flags...)
		return h.command("root", "", append(args, "--", "-At", "-v", "ON_ERROR_STOP=1", "-c", sql)...)
	}

	if out, stderr, code := ask(
		"SELECT rolsuper FROM pg_roles WHERE rolname = current_user",
	); strings.TrimSpace(out) != "f" {
		t.Errorf("psql is a superuser: %q %q %d", out, stderr, code)
	}

	for _, sql := range []string{
		"DELETE FROM actlog.plan_execution_record", "UPDATE actlog.plan_execution_record SET title = 'evil'",
		"SELECT * FROM actlog.plan_execution_record",
		"COPY (SELECT 1) TO PROGRAM 'true'", "SELECT pg_read_file('/etc/passwd')", "CREATE TABLE public.evil (a int)",
		"SELECT rolpassword FROM pg_authid", "SELECT * FROM actlog.login",
		"SET default_transaction_read_only = off; DELETE FROM actlog.plan_execution_record",
		"RESET ROLE; DELETE FROM actlog.plan_execution_record",
	} {
		if out, _, code := ask(sql); code == 0 {
			t.Errorf("psql may %s: %q", sql, out)
		}
	}
	if out, stderr, code := ask("SELECT count(*) >= 0 FROM report.plan"); code != 0 || strings.TrimSpace(out) != "t" {
		t.Errorf("psql cannot read the reports: %q %q", out, stderr)
	}
	if out, stderr, code := ask("SELECT count(*) >= 0 FROM actlog.plan_execution_record", "--admin"); code != 0 ||
		strings.TrimSpace(out) != "t" {
		t.Errorf("psql --admin is not the owner: %q %q", out, stderr)
	}
}
