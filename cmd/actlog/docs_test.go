package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/actlog/actlog/internal/record/embedpg"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/runtime/config"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/parts"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

// codeBlock is a code block of a page of the docs, and the heading above it.
type codeBlock struct{ heading, text string }

// codeBlocks returns the code blocks of a page that are in a language.
func codeBlocks(t *testing.T, page, language string) (found []codeBlock) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	var heading, fence string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		switch {
		case fence == "" && strings.HasPrefix(line, "#"):
			heading = strings.TrimLeft(line, "# ")
		case strings.HasPrefix(line, "```") && fence == "":
			if fence = line; fence == "```"+language {
				found = append(found, codeBlock{heading: heading})
			}
		case strings.HasPrefix(line, "```"):
			fence = ""
		case fence == "```"+language:
			found[len(found)-1].text += line + "\n"
		}
	}

	if len(found) == 0 {
		t.Fatalf("%s has no block of %s", page, language)
	}
	return found
}

// under returns the blocks under a heading. It fails the test unless there are want of them.
func under(t *testing.T, blocks []codeBlock, heading string, want int) (texts []string) {
	t.Helper()
	for _, b := range blocks {
		if b.heading == heading {
			texts = append(texts, b.text)
		}
	}

	if len(texts) != want {
		t.Fatalf("%d blocks under %q, want %d", len(texts), heading, want)
	}
	return texts
}

// connect opens a session on a database as a role; an empty role is the one in the URL.
func connect(t *testing.T, databaseURL, role string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), as(t, databaseURL, role))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// as returns the URL for connecting as another role; an empty role is the one in the URL.
func as(t *testing.T, databaseURL, role string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	if role != "" {
		u.User = url.User(role)
	}
	return u.String()
}

// runSQL runs statements, and returns the number of rows of the last one.
func runSQL(t *testing.T, conn *pgx.Conn, sql string) (rows int, err error) {
	t.Helper()
	results, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	if len(results) > 0 {
		rows = len(results[len(results)-1].Rows)
	}
	return rows, err
}

func mustSQL(t *testing.T, conn *pgx.Conn, sql string) int {
	t.Helper()
	rows, err := runSQL(t, conn, sql)
	if err != nil {
		t.Fatalf("runSQL(conn, sql) = %v\n%s", err, sql)
	}
	return rows
}

// docsServer starts a Postgres for this test only, because roles belong to the whole server. Its
// empty database has the name that the docs use.
func docsServer(t *testing.T) (databaseURL string) {
	t.Helper()
	server, err := embedpg.StartTemp(t.Context(), embedpg.Config{Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return server.URL()
}

// TestDocsRoles creates the roles as the docs say, and checks what each of them may do.
func TestDocsRoles(t *testing.T) {
	t.Parallel()
	database := docsServer(t)
	admin := connect(t, database, "")

	blocks := codeBlocks(t, "operations.md", "sql")
	sql, partitions := under(t, blocks, "Roles", 2), under(t, blocks, "Partitions", 3)
	mustSQL(t, admin, sql[0])
	mustSQL(t, admin, "CREATE SCHEMA other; CREATE TABLE other.x ()")

	owner := connect(t, database, "actlog_owner")
	server := connect(t, database, "actlog_server")
	reader := connect(t, database, "actlog_reader")

	if code, _, stderr := actlog(t, "migrate", "up", "--database-url",
		as(t, database, "actlog_server")); code != exitFailed || !strings.Contains(stderr, "permission denied") {
		t.Errorf("migrate as the serving role: exit code %d\n%s", code, stderr)
	}
	if code, _, stderr := actlog(t, "migrate", "up", "--database-url", as(t, database, "actlog_owner")); code != exitDone {
		t.Fatalf("migrate as the owner: exit code %d\n%s", code, stderr)
	}

	mustSQL(t, admin, sql[1]) // meant for an existing record; here it repeats the grants
	serve := func() *program {
		return start(t, "serve", "--listen", "127.0.0.1:0", "--database-url", as(t, database, "actlog_server"),
			"--detail-days", "30", "--keep-days", "90", "--interrupt-after", "1h")
	}
	p := serve() // there is nothing left to migrate
	p.terminate(t)
	if !strings.Contains(p.stderr.String(), "not allowed to add partitions") {
		t.Errorf("the log does not say that partitions are missing:\n%s", p.stderr)
	}

	mustSQL(t, owner, partitions[0])
	p = serve()
	p.terminate(t)
	if strings.Contains(p.stderr.String(), "level=WARN") || strings.Contains(p.stderr.String(), "level=ERROR") {
		t.Errorf("the serving role lacks rights:\n%s", p.stderr)
	}

	s := storetest.OpenURL(t, as(t, database, "actlog_server"))
	u := storetest.Upkeep(t, s, upkeep.Config{DetailDays: 30, KeepDays: 30, InterruptAfter: 1})
	if u.Stats().PartitionsUntil.IsZero() {
		t.Error("the serving role adds no partitions")
	}

	for i := range 2 {
		root := fmt.Sprint("plan-", i)
		changes := []record.Change{
			&record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Completed)},
			&record.Plan{RootPlanID: root, CurrentPlanID: root + "-sub", ParentPlanID: &root, ToolCallID: new("tool")},
			&record.ActTool{RootPlanID: root, StepID: root + "-step", Seq: 0, ToolCallID: "tool", Name: new("n")},
			&record.Thought{RootPlanID: root, PlanID: root, ThoughtID: root},
			&record.Artifact{RootPlanID: root, PlanID: root, Name: root},
			&record.Source{RootPlanID: root, PlanID: root, SourceID: root},
			&record.Wait{RootPlanID: root, PlanID: root, WaitID: root},
		}
		storetest.Write(t, s, changes...)
		if _, err := s.StepDetail(t.Context(), "", root+"-step"); err != nil {
			t.Error(err)
		}
	}

	if err := s.DeletePlan(t.Context(), "plan-0"); err != nil {
		t.Error(err)
	}

	mustSQL(t, admin, "UPDATE actlog.plan_execution_record SET first_seen_at = now() - interval '31 days', told_state "+
		"= 'COMPLETED'")
	if err := u.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if got, done := s.Stats(), u.Stats(); got.TreesDeleted != 2 || done.Failures != 0 {
		t.Errorf("upkeep by the serving role: %+v, %+v", got, done)
	}

	storetest.Write(t, s, &record.Plan{RootPlanID: "plan-2", CurrentPlanID: "plan-2"})
	if n := mustSQL(t, reader, "SELECT FROM actlog.plan_execution_record"); n != 1 {
		t.Errorf("the reader sees %d plans", n)
	}

	const denied = "42501"
	for _, tt := range []struct {
		conn  *pgx.Conn
		sql   string
		state string
	}{
		{server, "DROP TABLE actlog.thought", denied},
		{server, "TRUNCATE actlog.thought", denied},
		{server, "ALTER TABLE actlog.thought ADD COLUMN x text", denied},
		{server, "CREATE TABLE actlog.x ()", denied},
		{server, "CREATE TABLE public.x ()", denied},
		{server, "CREATE SCHEMA x", denied},
		{server, "SELECT FROM other.x", denied},
		{server, "SELECT actlog.add_partition('thought', '2026-01-01', '2026-01-08')", "42P01"},
		{owner, "SELECT FROM other.x", denied},
		{owner, "CREATE SCHEMA x", denied},
		{reader, "INSERT INTO actlog.thought (root_plan_id, plan_id, thought_id) VALUES ('a', 'a', 'a')", denied},
		{reader, "UPDATE actlog.plan_execution_record SET title = 'x'", denied},
		{reader, "DELETE FROM actlog.plan_execution_record", denied},
		{reader, "DROP TABLE actlog.thought", denied},
		{reader, "SELECT nextval('actlog.change_seq_seq')", denied},
		{reader, "SELECT actlog.add_partition('act_tool_info', '2026-01-01', '2026-01-08')", denied},
		{reader, "SELECT FROM other.x", denied},
		{reader, "CREATE TABLE public.x ()", denied},
	} {
		_, err := runSQL(t, tt.conn, tt.sql)
		if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Code != tt.state {
			t.Errorf("%s: %s: %v", tt.conn.Config().User, tt.sql, err)
		}
	}
}

// TestDocsSQL runs every other statement of the docs, on a record with a little of everything. A
// role that may only read runs the queries, and each of them must return rows.
func TestDocsSQL(t *testing.T) {
	t.Parallel()
	database := docsServer(t)
	admin := connect(t, database, "")
	blocks := codeBlocks(t, "operations.md", "sql")
	roles := under(t, blocks, "Roles", 2)
	mustSQL(t, admin, roles[0])
	if code, _, stderr := actlog(t, "migrate", "up", "--database-url", as(t, database, "actlog_owner")); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}

	// Detail in a default partition, of a week for which the docs add a partition; detail in a
	// partition of its own; and a live run that has been silent for long.
	s := storetest.OpenURL(t, as(t, database, "actlog_owner"))
	storetest.Upkeep(t, s, upkeep.Config{})
	changes := []record.Change{&record.Plan{RootPlanID: "plan-1", CurrentPlanID: "plan-1", State: new(record.Running)}}
	for i := range int64(100) {
		changes = append(changes, &record.ActTool{
			RootPlanID: "plan-1", StepID: "step-1", Seq: i, ToolCallID: fmt.Sprint(i), Name: new("n"),
			Result: new(strings.Repeat("result ", 100)),
		})
	}
	storetest.Write(t, s, changes...)

	mustSQL(t, admin, `
		INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, first_seen_at, last_seen_at, beat_at, told_state)
			VALUES ('plan-0', 'plan-0', '2026-01-05', '2026-01-06', '2026-01-06', '2026-01-06', 'RUNNING');
		INSERT INTO actlog.agent_execution_record (root_plan_id, step_id, part) VALUES ('plan-0', 'step-0', '2026-01-05');
		INSERT INTO actlog.think_act_record (root_plan_id, step_id, seq, part) VALUES ('plan-0', 'step-0', 0, '2026-01-05');
		INSERT INTO actlog.act_tool_info (root_plan_id, step_id, seq, tool_call_id, part) VALUES ('plan-0', 'step-0', 0, 'tool', '2026-01-05');
		ANALYZE`)

	// A long report.
	long := connect(t, database, "actlog_reader")
	mustSQL(t, long, "BEGIN; SELECT FROM actlog.thought")

	reader, pruned := connect(t, database, "actlog_reader"), 0
	for _, b := range blocks {
		switch {
		case b.heading == "Roles": // ran above
		case strings.HasPrefix(b.text, "SELECT") || strings.HasPrefix(b.text, "WITH") || strings.HasPrefix(b.text, "EXPLAIN"):
			if n := mustSQL(t, reader, b.text); n == 0 {
				t.Errorf("%s: no rows of\n%s", b.heading, b.text)
			}
			if strings.Contains(b.text, "part >= ") {
				pruned++
				if plan := explain(t, reader, b.text); strings.Contains(plan, "p20260105") ||
					!strings.Contains(plan, "Subplans Removed") {
					t.Errorf("%s: old weeks are read:\n%s", b.heading, plan)
				}
			}
		default:
			_, _ = runSQL(t, long, "ROLLBACK") // statements that alter the schema would wait for it
			mustSQL(t, admin, b.text)
		}
	}

	if pruned == 0 {
		t.Error("the docs do not show how partitions are pruned")
	}
}

func explain(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "EXPLAIN "+sql)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "\n")
}

// TestDocsReportLogin creates the login as the docs say. The migrating role may not create roles.
func TestDocsReportLogin(t *testing.T) {
	t.Parallel()
	database := docsServer(t)
	admin := connect(t, database, "")
	mustSQL(
		t, admin, `CREATE ROLE actlog_owner LOGIN; CREATE SCHEMA actlog AUTHORIZATION actlog_owner; CREATE SCHEMA report AUTHORIZATION actlog_owner`,
	)

	code, _, stderr := actlog(t, "migrate", "up", "--database-url", as(t, database, "actlog_owner"))
	if code != exitDone || !strings.Contains(stderr, "docs/reporting.md") {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}

	sql := under(t, codeBlocks(t, "reporting.md", "sql"), "A login for reports", 2)
	mustSQL(t, admin, "SET ROLE NONE; "+sql[1])
	mustSQL(t, admin, sql[0])

	grafana := connect(t, database, "grafana")
	if n := mustSQL(
		t, grafana, "SELECT FROM plan UNION ALL SELECT FROM failure UNION ALL SELECT FROM model_price",
	); n < 100 {
		t.Errorf("%d rows", n)
	}

	mustSQL(t, connect(t, database, "actlog_owner"), "CREATE VIEW report.later AS SELECT 1") // as a later migration would
	mustSQL(t, grafana, "SELECT FROM later")

	for _, sql := range []string{
		"SELECT FROM actlog.plan_execution_record", "CREATE TABLE report.x ()", "CREATE TEMPORARY TABLE x ()",
	} {
		if _, err := runSQL(t, grafana, sql); err == nil {
			t.Errorf("%s: no error", sql)
		}
	}
}

// TestDocsAlerts compares the metrics and alerts of the docs with the metrics that are served.
func TestDocsAlerts(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	server := httptest.NewServer(apitest.New(t, s, apitest.Config{Upkeep: storetest.Upkeep(t, s, upkeep.Config{})}))
	t.Cleanup(server.Close)

	body(t, server.URL+"/api/v1/plans") // so that the request metrics have samples
	export, err := http.Post(server.URL+"/v1/traces", otlp.TypeJSON, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = export.Body.Close()

	samples, families := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(body(t, server.URL+"/metrics")) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			if name, _, _ = strings.Cut(name, " "); strings.HasPrefix(name, "actlog_") {
				families[name] = true
			}
		} else if !strings.HasPrefix(line, "#") {
			samples[regexp.MustCompile(`^\w+`).FindString(line)] = true
		}
	}

	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	source := parts.NewSource(slog.New(slog.DiscardHandler))
	source.Set(&config.Current{}, parts.Own{})

	// Those of the runtime are served once there is something to count.
	for _, c := range append(e.Metrics(), source.Metrics()...) {
		described := make(chan *prometheus.Desc, 1)
		c.Describe(described)
		name := regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch((<-described).String())[1]
		families[name] = true
		for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
			samples[name+suffix] = true
		}
	}

	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}

	paged := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| (`actlog_.*?) \\|").FindAllSubmatch(page, -1) {
		for _, name := range regexp.MustCompile("`(\\w+)").FindAllSubmatch(m[1], -1) {
			paged[string(name[1])] = true
		}
	}

	if diff := cmp.Diff(slices.Sorted(maps.Keys(families)), slices.Sorted(maps.Keys(paged))); diff != "" {
		t.Errorf("metrics (-served +docs):\n%s", diff)
	}

	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal([]byte(under(t, codeBlocks(t, "operations.md", "yaml"), "Alerts", 1)[0]),
		&rules); err != nil {
		t.Fatal(err)
	}

	others := map[string]bool{"up": true, "node_filesystem_avail_bytes": true, "node_filesystem_size_bytes": true}
	for _, rule := range rules.Groups[0].Rules {
		names := metricNames(rule.Expr)
		if rule.Alert == "" || len(names) == 0 {
			t.Errorf("%+v names no metric", rule)
		}
		for _, name := range names {
			if !samples[name] && !others[name] {
				t.Errorf("%s: there is no metric %s", rule.Alert, name)
			}
		}
	}

	if n := len(rules.Groups[0].Rules); n < 10 {
		t.Errorf("%d alerts", n)
	}

	if got := metricNames(
		`sum by (le) (rate(a_total{b="c"}[5m])) / d > 0.02 and time() - e < 60`,
	); !slices.Equal(got, []string{"a_total", "d", "e"}) {
		t.Errorf("names of metrics: %q", got)
	}
}

// metricNames returns the metrics of an expression: its words without labels, functions and
// operators.
func metricNames(expr string) (names []string) {
	expr = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|\b(by|without|on|ignoring) *\([^)]*\)`).ReplaceAllString(expr, " ")
	for _, m := range regexp.MustCompile(`([a-zA-Z_:][\w:]*) *(\(?)`).FindAllStringSubmatch(expr, -1) {
		if m[2] == "" && !slices.Contains([]string{"and", "or", "unless", "sum", "max", "min", "count"}, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

// TestCompose compares the Postgres of docker-compose.yml with the URL in its comment.
func TestCompose(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile(filepath.Join("..", "..", "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}

	var compose struct {
		Services map[string]struct {
			Image       string
			Environment map[string]string
			Command     []string
			Ports       []string
			Volumes     []string
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(file, &compose); err != nil {
		t.Fatal(err)
	}

	postgres := compose.Services["postgres"]
	u, err := url.Parse(string(regexp.MustCompile(`postgres://\S+`).Find(file)))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()

	got := map[string]string{
		"POSTGRES_USER": u.User.Username(), "POSTGRES_PASSWORD": password, "POSTGRES_DB": strings.TrimPrefix(u.Path, "/"),
	}
	for name, value := range got {
		if postgres.Environment[name] != value {
			t.Errorf("%s is %q, the URL says %q", name, postgres.Environment[name], value)
		}
	}

	if want := []string{u.Host + ":5432"}; !slices.Equal(postgres.Ports, want) {
		t.Errorf("ports %q, the URL says %q", postgres.Ports, want)
	}
	if name, _, _ := strings.Cut(strings.Join(postgres.Volumes, ""), ":"); !maps.Equal(compose.Volumes,
		map[string]any{name: nil}) {
		t.Errorf("volumes %v, used %q", compose.Volumes, postgres.Volumes)
	}

	if !slices.Contains(postgres.Command, "max_locks_per_transaction=256") ||
		!strings.Contains(postgres.Environment["POSTGRES_INITDB_ARGS"], "UTF8") {
		t.Errorf("settings: %+v", postgres)
	}
}
