//go:build attack

package attack_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// S8: what a tool starts finds no secret of the server.

// probe is a program that looks for secrets where programs find them: in its variables, in those of the processes of
// the house, in their command lines, in files that they have open, and in files that it is told of. It writes them in
// rot13, so that no redaction hides what it found.
const probe = `#!/bin/sh
look() {
  echo "== own"; env; tr '\0' '\n' </proc/self/environ
  for p in $PPID $(ls /proc | grep '^[0-9]'); do
    line=$(tr '\0' ' ' </proc/$p/cmdline)
    case "$p $line $(readlink /proc/$p/cwd)" in "$PPID "*|*HOUSE*) ;; *) continue ;; esac
    echo "== $p $line"; tr '\0' '\n' </proc/$p/environ
    for f in /proc/$p/fd/*; do
      if [ -f "$f" ]; then echo "== open $f"; head -c 1000 "$f" | tr -c '[:print:]\n' '.'; fi
    done
    cat /proc/$p/cwd/keys
  done
  for f in FILES; do echo "== file $f"; head -c 3000 "$f"; done
}
look 2>/dev/null | tr 'A-Za-z' 'N-ZA-Mn-za-m'
exit 0
`

func rot13(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return 'a' + (r-'a'+13)%26
		case r >= 'A' && r <= 'Z':
			return 'A' + (r-'A'+13)%26
		}
		return r
	}, text)
}

func TestS8ToolsFindNoSecrets(t *testing.T) {
	t.Parallel()
	const model, env = "PLANTED-model-key-0123456789", "PLANTED-variable-0123456789"
	const header = "PLANTED-header-0123456789"
	work := t.TempDir()
	tests, shell := [][]act{{{"tests.probe", `{}`}}}, [][]act{{{"shell.probe", `{}`}}}
	h := open(t, setting{
		private: true,
		scenes:  []scriptmodel.Scene{scene("tester", tests), scene("runner", shell)},
		env: []string{
			"OPENAI_API_KEY=" + model, "ANTHROPIC_API_KEY=" + model, "ACTLOG_REPORT_URL=", "AWS_SECRET_ACCESS_KEY=" + env,
			"TOKEN=" + header, "PGPASSWORD=" + env,
		},
		config: object{
			"models": object{"other": object{"provider": "openai", "model": "scripted", "apiKey": "${OPENAI_API_KEY}"}},
			"mcpServers": object{
				"elsewhere": object{"url": "http://127.0.0.1:1/mcp", "headers": object{"Authorization": "Bearer ${TOKEN}"}},
			},
			"toolsets": object{
				"tests": object{"probe": object{"command": []string{"sh", "probe.sh"}, "root": work}},
				"shell": object{
					"root": work, "commands": object{"probe": object{"command": []string{"sh", "probe.sh"}, "approval": false}},
				},
			},
			"agents": object{"tester": agentWith("tester", tests), "runner": agentWith("runner", shell)},
		},
	})

	password, err := os.ReadFile(filepath.Join(h.dir, "data", "postgres", "password"))
	if err != nil || len(strings.TrimSpace(string(password))) < 8 {
		t.Fatalf("the private Postgres has no password: %v", err)
	}
	files := []string{
		h.keyFile, filepath.Join(h.dir, "data", "postgres", "password"),
		filepath.Join(h.dir, "data", "postgres", "data", "pg_hba.conf"),
		filepath.Join(h.dir, "data", "postgres", "data", "global", "pg_authid"),
	}
	put(t, work, "probe.sh", strings.NewReplacer("FILES", strings.Join(files, " "), "HOUSE", h.dir).Replace(probe))

	var hashes []string
	keys, _ := os.ReadFile(h.keyFile)
	for line := range strings.Lines(string(keys)) {
		hashes = append(hashes, strings.Split(line, ":")[1])
	}

	for _, agent := range []string{"tester", "runner"} {
		r := h.start(agent)
		r.end()
		v := r.view()
		if v.State != "COMPLETED" || !strings.Contains(rot13(v.Result), "== own") {
			t.Fatalf("the probe did not run: %s", v.raw)
		}

		told := v.raw
		for _, asked := range h.model.Requests() {
			if strings.Contains(string(asked.Body), r.mark) {
				told += string(asked.Body)
			}
		}
		for _, o := range r.records() {
			if value, ok := o["result"].(string); ok {
				told += value
			}
		}

		for what, secret := range map[string]string{
			"the key of a model": model, "a variable of the server": env, "a header of an MCP server": header,
			"the password of the private Postgres": strings.TrimSpace(string(password)),
			"the file of keys":                     hashes[0],
		} {
			if found := rot13(told); strings.Contains(found, secret) {
				t.Errorf("a command of the %s found %s: %s", agent, what, around(found, secret))
			}
		}
	}
}
