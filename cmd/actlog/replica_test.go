package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// TestReplica: a server with a replica reads lists, searches, exports, charts and reports there, and a client that
// sends the mark of its write sees it in each.
func TestReplica(t *testing.T) {
	t.Parallel()
	pair := pgtest.NewPair(t)
	migrated := begin(t, "migrate", "up", "--database-url", pair.Primary)
	if err := migrated.cmd.Wait(); err != nil {
		t.Fatalf("migrated.cmd.Wait() = %v\n%s", err, migrated.stderr)
	}

	pgtest.Exec(t, pair.Primary, "CREATE ROLE replica_sql LOGIN PASSWORD 'secret' IN ROLE actlog_report")
	login, err := url.Parse(pgtest.Both(t, pair.Standby, pair.Primary)) // the first that answers is not the primary
	if err != nil {
		t.Fatal(err)
	}
	login.User = url.UserPassword("replica_sql", "secret")
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--database-url", pair.Primary, "--replica-url", pair.Standby,
		"--report-url", login.String())

	ask := func(method, path, body string, header http.Header) (status int, answer string, got http.Header) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}

		r.Header = header.Clone()
		if r.Header == nil {
			r.Header = http.Header{}
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}

		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b), resp.Header
	}

	used := regexp.MustCompile(`(?m)^replica: [0-9.]+ s behind$`)
	storetest.Until(t, "the replica is used", func() bool {
		_, answer, _ := ask("GET", "/readyz", "", nil)
		return used.MatchString(answer)
	})
	sql := func(query string) string {
		arguments, err := json.Marshal(map[string]any{
			"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
				"name": "sql", "arguments": map[string]string{"query": query},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(arguments)
	}

	for n := range 20 {
		id := fmt.Sprintf("replica-run-%d", n)
		record := fmt.Sprintf(
			`{"records":[{"kind":"plan","rootPlanId":%q,"currentPlanId":%q,"title":"the needle %d","startTime":%q}]}`, id, id,
			n, time.Now().UTC().Format(time.RFC3339Nano),
		)

		status, answer, header := ask("POST", "/api/v1/records", record, nil)
		mark := header.Get("Actlog-Mark")
		if status != http.StatusOK || mark == "" {
			t.Fatalf("the write: %d %s, mark %q", status, answer, mark)
		}

		own := http.Header{"Actlog-Mark": {mark}, "Accept": {"application/json, text/event-stream"}}
		for _, read := range [][2]string{
			{"GET", "/api/v1/plans?limit=100"}, {"GET", "/api/v1/plans/" + id + "/records"}, {
				"GET", "/api/v1/search?q=needle&limit=100",
			},
			{"POST", "/mcp"},
		} {
			body := ""
			if read[0] == "POST" {
				body = sql("SELECT root_plan_id, pg_is_in_recovery() AS at_the_replica FROM report.plan ORDER BY root_plan_id")
			}
			status, answer, _ := ask(read[0], read[1], body, own)
			if status != http.StatusOK || !strings.Contains(answer, id) {
				t.Errorf("%s %s after the write of %s: %d %s", read[0], read[1], id, status, answer)
			}
		}
	}

	if _, answer, _ := ask("POST", "/mcp", sql("SELECT pg_is_in_recovery() AS there"),
		http.Header{"Accept": {"application/json, text/event-stream"}}); !strings.Contains(answer, "true") {
		t.Errorf("SQL was not run at the replica: %s", answer)
	}
	if _, answer, _ := ask("GET", "/metrics", "",
		nil); !regexp.MustCompile(`(?m)^actlog_store_replica_reads_total [1-9]`).MatchString(answer) {
		t.Errorf("no read was made at the replica")
	}

	if status, answer, _ := ask("GET", "/api/v1/plans", "",
		http.Header{"Actlog-Mark": {"yesterday"}}); status != http.StatusBadRequest ||
		!strings.Contains(answer, "Actlog-Mark") {
		t.Errorf("a wrong mark: %d %s", status, answer)
	}
	if _, _, header := ask("GET", "/api/v1/plans", "", nil); header.Get("Actlog-Mark") != "" {
		t.Error("a read was answered with a mark")
	}

	if status, answer, header := ask(
		"GET", "/api/v1/plans", "", http.Header{"Actlog-Mark": {"FFFF-0"}},
	); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("a mark of a primary that is not there yet: %d %s", status, answer)
	}

	// A browser keeps the mark of what its pages wrote. Others may have put another one there.
	for n, browser := range []http.Header{
		{"Sec-Fetch-Site": {"same-origin"}}, {"Origin": {p.url}}, {"Cookie": {"actlog-mark=x"}},
	} {
		_, _, header := ask("DELETE", fmt.Sprintf("/api/v1/plans/replica-run-%d", n), "", browser)
		if c := header.Get("Set-Cookie"); !strings.HasPrefix(c, "actlog-mark=") {
			t.Errorf("the browser was given %q", c)
		}
	}
	for _, cookie := range []string{"yesterday", "FFFFFFFF-FFFFFFFFFFFFFFFF", "FFFF-0"} {
		if status, answer, _ := ask("GET", "/api/v1/plans", "",
			http.Header{"Cookie": {"actlog-mark=" + cookie}}); status != http.StatusOK {
			t.Errorf("with the cookie %s: %d %s", cookie, status, answer)
		}
	}

	// What the replica lacks is asked of the primary.
	pgtest.Exec(t, pair.Standby, "SELECT pg_wal_replay_pause()")
	_, _, header := ask("POST", "/api/v1/records",
		`{"records":[{"kind":"plan","rootPlanId":"late","currentPlanId":"late"}]}`, nil)
	own := http.Header{"Actlog-Mark": {header.Get("Actlog-Mark")}, "Accept": {"application/json, text/event-stream"}}

	if _, answer, _ := ask("POST", "/mcp",
		sql("SELECT root_plan_id, pg_is_in_recovery() AS there FROM report.plan WHERE root_plan_id = 'late'"),
		own); !strings.Contains(answer, "late") || !strings.Contains(answer, "false") {
		t.Errorf("SQL that the replica cannot answer: %s", answer)
	}
	pgtest.Exec(t, pair.Standby, "SELECT pg_wal_replay_resume()")
}
