//go:build attack

package attack_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/scriptmodel"
)

// S8: what a tool starts finds no secret of the server.

// probe is a program that looks for secrets where programs find them: in its variables, in those of other processes, in
// their command lines, in open files, and in the files that it is told of. It prints what it finds.
const probe = `#!/bin/sh
echo "== own"; env; cat /proc/self/environ 2>/dev/null | tr '\0' '\n'
for p in $PPID $(ls /proc | grep '^[0-9]*$'); do
  [ "$p" = "$$" ] && continue
  case "$(cat /proc/$p/comm 2>/dev/null)" in actlog*|postgres*|node|sh) ;; *) [ "$p" = "$PPID" ] || continue ;; esac
  echo "== $p"; tr '\0' '\n' </proc/$p/environ 2>/dev/null; tr '\0' ' ' </proc/$p/cmdline 2>/dev/null
  for f in /proc/$p/fd/*; do t=$(readlink "$f" 2>/dev/null); case "$t" in /*) [ -f "$t" ] && echo "== fd $t" && head -c 2000 "$f" 2>/dev/null | tr -c '[:print:]\n' '.' ;; esac; done
  cat "/proc/$p/cwd/actlog.json" "/proc/$p/root/KEYFILE" 2>/dev/null
done
for f in FILES; do echo "== file $f"; cat "$f" 2>/dev/null; done
exit 0
`

func TestS8ToolsFindNoSecrets(t *testing.T) {
	t.Parallel()
	const model, env, header = "PLANTED-model-key-0123456789", "PLANTED-variable-0123456789", "PLANTED-header-0123456789"
	work := t.TempDir()
	rounds := [][]act{{{"tests.probe", `{}`}}}
	h := open(t, setting{
		private: true,
		scenes:  []scriptmodel.Scene{scene("tester", rounds)},
		env: []string{
			"OPENAI_API_KEY=" + model, "ANTHROPIC_API_KEY=" + model, "ACTLOG_REPORT_URL=", "AWS_SECRET_ACCESS_KEY=" + env, "TOKEN=" + header, "PGPASSWORD=" + env,
		},
		config: object{
			"models":     object{"other": object{"provider": "openai", "model": "scripted", "apiKey": "${OPENAI_API_KEY}"}},
			"mcpServers": object{"elsewhere": object{"url": "http://127.0.0.1:1/mcp", "headers": object{"Authorization": "Bearer ${TOKEN}"}}},
			"toolsets":   object{"tests": object{"probe": object{"command": []string{"sh", "probe.sh"}, "root": work}}},
			"agents":     object{"tester": agentWith("tester", rounds)},
		},
	})
	password, err := os.ReadFile(filepath.Join(h.dir, "data", "postgres", "password"))
	if err != nil || len(strings.TrimSpace(string(password))) < 8 {
		t.Fatalf("the private Postgres has no password: %v", err)
	}
	files := []string{
		h.keyFile, filepath.Join(h.dir, "data", "postgres", "password"), filepath.Join(h.dir, "data", "postgres", "data", "pg_hba.conf"),
		filepath.Join(h.dir, "data", "postgres", "data", "global", "pg_authid"),
	}
	put(t, work, "probe.sh", strings.NewReplacer("FILES", strings.Join(files, " "), "KEYFILE", h.keyFile).Replace(probe))
	var hashes []string
	keys, _ := os.ReadFile(h.keyFile)
	for line := range strings.Lines(string(keys)) {
		hashes = append(hashes, strings.Split(line, ":")[1])
	}

	r := h.start("tester")
	r.end()
	v := r.view()
	if v.State != "COMPLETED" || !strings.Contains(v.Result, "== own") {
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
		"the key of a model": model, "a variable of the server": env, "a header of an MCP server": header, "the password of the private Postgres": strings.TrimSpace(string(password)),
		"the file of keys": hashes[0],
	} {
		if strings.Contains(told, secret) {
			t.Errorf("a test command found %s: %s", what, around(told, secret))
		}
	}
}
