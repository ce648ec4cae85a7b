package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/embedpg"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
)

// shell starts a script in a folder. In it, actlog is this test binary. ended is closed at the
// end of the script; wait waits for it, and fails the test if the script failed.
func shell(t *testing.T, dir, script string, env ...string) (ended <-chan struct{}, wait func()) {
	t.Helper()
	bin := t.TempDir()
	if err := os.Symlink(os.Args[0], filepath.Join(bin, "actlog")); err != nil {
		t.Fatal(err)
	}

	cmd := exec.CommandContext(t.Context(), "sh", "-euc", script)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), beMain+"=1", "PATH="+bin+":"+os.Getenv("PATH")), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	var err error
	done := make(chan struct{})
	go func() {
		err = cmd.Wait()
		close(done)
	}()

	return done, func() {
		t.Helper()
		if <-done; err != nil {
			t.Fatalf("%s: %v\n%s", script, err, &out)
		}
	}
}

// runShell runs a script to its end.
func runShell(t *testing.T, dir, script string, env ...string) {
	t.Helper()
	_, wait := shell(t, dir, script, env...)
	wait()
}

// requireClients skips the test if a Postgres client is not installed, because downloaded
// binaries come without clients. CI must have them.
func requireClients(t *testing.T, clients ...string) {
	t.Helper()
	for _, name := range clients {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s is not installed", name)
			}
			t.Skipf("%s is not installed", name)
		}
	}
}

// answers returns, by path, the answers of a server about everything on record.
func answers(t *testing.T, server string) map[string]string {
	t.Helper()
	all := map[string]string{}
	get := func(path string) string {
		resp, err := http.Get(server + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()

		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: %s %v", path, resp.Status, err)
		}
		all[path] = string(body)
		return string(body)
	}

	ids := func(body, field string) (found []string) {
		for _, m := range regexp.MustCompile(`"`+field+`":"([^"]+)"`).FindAllStringSubmatch(body, -1) {
			found = append(found, m[1])
		}
		return found
	}

	for _, plan := range ids(get("/api/v1/plans"), "rootPlanId") {
		tree := get("/api/executor/details/" + plan)
		for _, beside := range []string{"thoughts", "artifacts", "sources", "waits"} {
			get("/api/v1/plans/" + plan + "/" + beside)
		}
		for _, sub := range ids(tree, "currentPlanId") {
			get("/api/executor/details/" + sub)
		}
		for _, step := range ids(tree, "stepId") {
			get("/api/executor/agent-execution/" + step)
		}
	}
	return all
}

func post(t *testing.T, server string, records ...string) {
	t.Helper()
	resp, err := http.Post(server+"/api/v1/records", "application/x-ndjson",
		strings.NewReader(strings.Join(records, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"rejected":[]`) {
		t.Fatalf("resp.Status = %s %s %v", resp.Status, body, err)
	}
}

// TestDocsDump dumps a record and restores it as the docs say: as a role that is not a superuser
// into a database with another name, and into a private Postgres.
func TestDocsDump(t *testing.T) {
	t.Parallel()
	requireClients(t, "pg_dump", "pg_restore")
	dir := t.TempDir()
	commands := under(t, codeBlocks(t, "operations.md", "sh"), "A dump", 3)
	db := pgtest.Empty(t)

	playDemo(t, t.TempDir(), db.URL)
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--database-url", db.URL)

	post(t, p.url, `{"kind":"plan","rootPlanId":"plan-x","currentPlanId":"plan-x","title":"Ünïcode ✓","tags":["a","b c"],"metadata":{"b":1,"a":2},"lastSeenAt":"2026-01-01T00:00:00Z","rev":7}`,
		`{"kind":"thought","rootPlanId":"plan-x","planId":"plan-x","thoughtId":"thought-x","content":"hm"}`,
		`{"kind":"artifact","rootPlanId":"plan-x","planId":"plan-x","name":"a","value":{"z":1}}`,
		`{"kind":"source","rootPlanId":"plan-x","planId":"plan-x","sourceId":"source-x","uri":"file:x"}`,
		`{"kind":"wait","rootPlanId":"plan-x","planId":"plan-x","waitId":"wait-x","title":"which?"}`,
		`{"kind":"actTool","rootPlanId":"plan-x","stepId":"step-x","seq":0,"toolCallId":"tool-x","result":"`+
			strings.Repeat("long ", 10_000)+`"}`)

	runShell(t, dir, commands[0], "ACTLOG_DATABASE_URL="+db.URL) // while it serves
	want := answers(t, p.url)
	p.terminate(t)
	if len(want) < 15 {
		t.Fatalf("only %d answers", len(want))
	}

	target := pgtest.Empty(t)
	role := "actlog_" + strings.ReplaceAll(record.NewPlanID(), "-", "_")
	config, err := pgx.ParseConfig(target.URL)
	if err != nil {
		t.Fatal(err)
	}

	admin := connect(t, target.URL, "")
	mustSQL(t, admin, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'secret'; GRANT CREATE ON DATABASE %s TO %[1]s", role,
		pgx.Identifier{config.Database}.Sanitize()))
	t.Cleanup(func() { // after the servers have stopped
		if _, err := admin.PgConn().Exec(context.Background(),
			fmt.Sprintf("DROP OWNED BY %[1]s CASCADE; DROP ROLE %[1]s", role)).ReadAll(); err != nil {
			t.Error(err)
		}
	})
	restored := strings.Replace(as(t, target.URL, role), role+"@", role+":secret@", 1)
	runShell(t, dir, commands[1], "NEW_DATABASE_URL="+restored)
	runShell(t, dir, commands[2])

	for _, tt := range []struct {
		name string
		args []string
	}{
		{"another database", []string{"--database-url", restored}}, {
			"a private Postgres", []string{"--data-dir", filepath.Join(dir, "restored")},
		},
	} {
		// The copy has the same schema and the same migrations.
		schema := func(args ...string) string {
			code, stdout, stderr := actlog(t,
				slices.Concat([]string{"psql"}, args,
					[]string{"--client", "pg_dump", "--", "--schema-only", "--no-owner", "--no-privileges", "--schema=actlog"})...)
			if code != exitDone {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			return regexp.MustCompile(`(?m)^\\(un)?restrict .*$`).ReplaceAllString(stdout, "") // followed by a random word
		}
		if a, b := schema("--database-url", db.URL), schema(tt.args...); a != b ||
			strings.Count(a, "COMMENT ON COLUMN") < 100 {
			t.Errorf("%s: the schema of the copy differs (%d and %d bytes)", tt.name, len(a), len(b))
		}

		status := func(args ...string) string {
			code, stdout, stderr := actlog(t, slices.Concat([]string{"migrate", "status"}, args)...)
			if code != exitDone {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			return stdout
		}
		if a, b := status("--database-url", db.URL), status(tt.args...); a != b {
			t.Errorf("%s: migrations\n%s\nmigrations of the copy\n%s", tt.name, a, b)
		}

		// The copy returns the same answers, and accepts new records.
		p := start(t, slices.Concat([]string{"serve", "--listen", "127.0.0.1:0"}, tt.args)...)
		got := answers(t, p.url)
		for path, body := range want {
			if got[path] != body {
				t.Errorf("%s: GET %s returns\n%s\nthe original returned\n%s", tt.name, path, got[path], body)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d answers, the original had %d", tt.name, len(got), len(want))
		}

		post(t, p.url, `{"kind":"plan","rootPlanId":"plan-new","currentPlanId":"plan-new"}`,
			`{"kind":"agentExecution","rootPlanId":"plan-new","planId":"plan-new","stepId":"step-new"}`,
			`{"kind":"actTool","rootPlanId":"plan-new","stepId":"step-new","seq":0,"toolCallId":"tool-new"}`,
			`{"kind":"actTool","rootPlanId":"plan-x","stepId":"step-x","seq":1,"toolCallId":"tool-y"}`)
		after := answers(t, p.url)
		var fresh, old planView
		for id, into := range map[string]*planView{"plan-new": &fresh, "plan-x": &old} {
			if err := json.Unmarshal([]byte(after["/api/executor/details/"+id]), into); err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
		}

		if len(fresh.AgentExecutionSequence) != 1 || old.AgentExecutionSequence[0].Figures.ToolCalls != 2 {
			t.Errorf("%s: after new writes: %+v and %+v", tt.name, fresh, old)
		}
		p.terminate(t)
	}

	var inDefault, highest, lowest int
	err = connect(t, restored, "").QueryRow(t.Context(), `SELECT (SELECT count(*) FROM actlog.act_tool_info_default),
		(SELECT max(id) FROM actlog.plan_execution_record WHERE root_plan_id <> 'plan-new'), (SELECT min(id) FROM actlog.plan_execution_record WHERE root_plan_id = 'plan-new')`).
		Scan(&inDefault, &highest, &lowest)
	if err != nil || inDefault != 0 || lowest <= highest {
		t.Errorf("%d rows in the default partition, restored row numbers end at %d, new ones begin at %d; %v", inDefault,
			highest, lowest, err)
	}
}

// TestDocsBaseBackup copies a Postgres as the docs say, during writes. The copy has everything
// that was acknowledged before it was complete, and no request in part.
func TestDocsBaseBackup(t *testing.T) {
	t.Parallel()
	requireClients(t, "pg_basebackup")
	dir := t.TempDir()
	dataDir := filepath.Join(dir, "data")
	command := under(t, codeBlocks(t, "operations.md", "sh"), "A base backup", 1)[0]

	l := newLedger(t, "plan-backup")
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--data-dir", dataDir)
	stop := l.writers(p.url)
	l.await(t, 100)
	running, err := embedpg.RunningURL(filepath.Join(dataDir, "postgres"))
	if err != nil {
		t.Fatal(err)
	}

	watch := connect(t, running, "")
	ended, wait := shell(t, dir, command, "ACTLOG_DATA_DIR="+dataDir)
	// What is acknowledged while files are still being copied must be in the copy.
	acked, looks := map[string]bool{}, 0
	for copying := true; copying; {
		l.mu.Lock()
		now := maps.Clone(l.acked)
		l.mu.Unlock()

		var phase string
		if err := watch.QueryRow(t.Context(),
			"SELECT COALESCE(max(phase), '') FROM pg_stat_progress_basebackup").Scan(&phase); err != nil {
			t.Fatal(err)
		}
		if phase == "streaming database files" {
			acked = now
			looks++
		}

		select {
		case <-ended:
			copying = false
		default:
		}
	}

	wait()
	l.await(t, 100) // the server still accepts writes
	stop()
	l.check(t, p.url)
	all := len(l.acked)
	p.terminate(t)
	if looks == 0 || len(acked) == all {
		t.Fatalf("the test saw too little of the copy: %d looks, %d of %d acknowledged", looks, len(acked), all)
	}

	l.acked = acked
	p = start(t, "serve", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "backup"))
	l.check(t, p.url)
	post(t, p.url, `{"kind":"plan","rootPlanId":"plan-new","currentPlanId":"plan-new"}`)
	p.terminate(t)
}

// TestTwoServers replaces two servers on one database, one after the other, during writes.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	args := []string{
		"serve", "--listen", "127.0.0.1:0", "--database-url", pgtest.Empty(t).URL, "--keep-days", "1", "--detail-days", "1",
		"--interrupt-after", "1h",
	}
	a, b := begin(t, args...), begin(t, args...) // both try to migrate
	a.served(t)
	b.served(t)

	l := newLedger(t, "plan-two")
	stopA, stopB := l.writers(a.url), l.writers(b.url)
	l.await(t, 200)
	a.terminate(t)
	stopA()
	l.await(t, 50)

	c := start(t, args...)
	stopC := l.writers(c.url)
	b.terminate(t)
	stopB()
	l.await(t, 50)
	stopC()

	l.check(t, c.url)
	c.terminate(t)
	for _, p := range []*program{a, b, c} {
		if log := p.stderr.String(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
			t.Errorf("a server disturbed the others:\n%s", log)
		}
	}
}
