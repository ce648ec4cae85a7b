package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/report"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
)

// child waits for the process that the program has started with this text in its arguments.
func (p *program) child(t *testing.T, text string) *os.Process {
	t.Helper()
	pid := p.cmd.Process.Pid
	var found *os.Process
	until(t, fmt.Sprintf("a child with %q", text), p.stderr, func() bool {
		lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		if err != nil {
			t.Fatal(err)
		}

		for _, list := range lists {
			children, _ := os.ReadFile(list) // a thread may have ended
			for id := range strings.FieldsSeq(string(children)) {
				arguments, _ := os.ReadFile("/proc/" + id + "/cmdline")
				begun := !strings.Contains(string(arguments), "--database-url") // before, it is a copy of its parent
				if n, err := strconv.Atoi(id); err == nil && begun && strings.Contains(string(arguments), text) {
					child, err := os.FindProcess(n)
					if err != nil {
						t.Fatal(err)
					}
					found = child
				}
			}
		}
		return found != nil
	})
	return found
}

// TestPsqlHidesSecrets (N20) reads the arguments of the real client: other users can see them.
func TestPsqlHidesSecrets(t *testing.T) {
	t.Parallel()
	requireClients(t, "psql")
	u, err := url.Parse(pgtest.New(t).URL)
	if err != nil {
		t.Fatal(err)
	}

	query := u.Query()
	keywords := "dbname=" + strings.TrimPrefix(u.Path, "/") + " user=" + u.User.Username()
	if host := u.Hostname(); host != "" {
		keywords += " host=" + host
	}
	if port := u.Port(); port != "" {
		keywords += " port=" + port
	}
	for name := range query {
		keywords += fmt.Sprintf(" %s='%s'", name, query.Get(name))
	}

	password, known := u.User.Password()
	if !known {
		password = "s3cret" // the server trusts everyone
	}
	withPassword := *u
	withPassword.User = url.UserPassword(u.User.Username(), password)
	inQuery := *u
	inQuery.User = url.User(u.User.Username())
	inQuery.RawQuery += "&password=" + url.QueryEscape(password) + "&sslpassword=hidd%65n"

	for _, address := range []string{
		withPassword.String(),
		inQuery.String(),
		keywords + " password=" + password,
		keywords + " password = '" + password + "' sslpassword='hidden'",
		keywords + " passfile=/hidden/pgpass password=" + password,
	} {
		p := begin(t, "psql", "--database-url", address, "--", "-Atc", "SELECT pg_sleep(1000)")
		client := p.child(t, "pg_sleep")
		arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", client.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if text := string(arguments); strings.Contains(text, password) || strings.Contains(text, "hidden") ||
			strings.Contains(text, "password") {
			t.Errorf("%s: others see %q", address, text)
		}

		if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = client.Signal(os.Interrupt)
		_ = p.cmd.Wait()

		// The client connects with them.
		if code, stdout, stderr := actlog(
			t, "psql", "--database-url", address, "--", "-Atc", "SELECT 1",
		); code != exitDone || stdout != "1\n" {
			t.Errorf("%s: exit code %d: %s%s", address, code, stdout, stderr)
		}
	}
}

// TestParseConnInfo (N20) parses connection strings as libpq does.
func TestParseConnInfo(t *testing.T) {
	t.Parallel()
	type secrets = map[string]string
	for _, tt := range []struct {
		in, public string
		secrets    secrets
	}{
		{"postgres://u:p%40%3A@h:1/d?a=b", "postgres://u@h:1/d?a=b", secrets{"password": "p@:"}},
		{"postgresql://u:a:b@h", "postgresql://u@h", secrets{"password": "a:b"}},
		{"postgres://:p@h", "postgres://@h", secrets{"password": "p"}},
		{"postgres://u:p@h1:1,h2:2/d", "postgres://u@h1:1,h2:2/d", secrets{"password": "p"}},
		{"postgres://u:p@%2Fvar%2Frun/d", "postgres://u@%2Fvar%2Frun/d", secrets{"password": "p"}},
		{"postgres://u:p?q@[::1]:5/d", "postgres://u@[::1]:5/d", secrets{"password": "p?q"}},
		{"postgres:///d?host=/x&password=a%20b", "postgres:///d?host=/x", secrets{"password": "a b"}},
		{"postgres:///d?pass%77ord=a", "postgres:///d", secrets{"password": "a"}},
		{
			"postgres:///d?passfile=/f&sslpassword=s&user=me", "postgres:///d?user=me",
			secrets{"passfile": "/f", "sslpassword": "s"},
		},
		{"postgres:///d@e", "postgres:///d@e", secrets{}},
		{"host=h password=p user=u", "host=h user=u", secrets{"password": "p"}},
		{"host=h  password  =  'it\\'s a \\\\' user='a b'", "host=h user='a b'", secrets{"password": `it's a \`}},
		{`password=a\ b dbname = d`, "dbname = d", secrets{"password": "a b"}},
		{"password='' passfile=f", "", secrets{"password": "", "passfile": "f"}},
		{"password=a password=b", "", secrets{"password": "b"}},
		{"mydb", "mydb", secrets{}},
	} {
		got, err := parseConnInfo(tt.in)
		if err != nil || got.public != tt.public || !cmp.Equal(got.secrets, tt.secrets) {
			t.Errorf("%s: %+v, %v", tt.in, got, err)
		}
	}

	for _, bad := range []string{
		"postgres://u:s3cret%zz@h", "postgres:///d?password=s3cret%z", "password='s3cret", "s3cret word=1",
	} {
		if _, err := parseConnInfo(bad); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestHideSecrets (N20) puts secrets that have no variable into a file for their owner only.
func TestHideSecrets(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for in, want := range map[string]string{
		"postgres://u:p@h/d?sslpassword=s":     "postgres://u@h/d?service=actlog_secrets",
		"postgres://u:p@h/d?a=b&sslpassword=s": "postgres://u@h/d?a=b&service=actlog_secrets",
		"host=h sslpassword=s password=p":      "host=h service=actlog_secrets",
	} {
		info, err := parseConnInfo(in)
		if err != nil {
			t.Fatal(err)
		}
		got, env, err := info.hide(folder)
		file := filepath.Join(folder, "pg_service.conf")
		if err != nil || got != want || !slices.Equal(env, []string{"PGPASSWORD=p", "PGSERVICEFILE=" + file}) {
			t.Errorf("%s: %s %q %v", in, got, env, err)
		}

		content, err := os.ReadFile(file)
		if info, statErr := os.Stat(file); err != nil || statErr != nil || info.Mode().Perm() != 0o600 ||
			string(content) != "[actlog_secrets]\nsslpassword=s\n" {
			t.Errorf("%s: %q %v %v", in, content, err, info)
		}
	}

	for _, bad := range []string{"service=mine sslpassword=s", "sslpassword='s\n'"} {
		info, err := parseConnInfo(bad)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := info.hide(folder); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

// TestNoRecord (N7): commands that only look make nothing where there is no record, and say how to
// name one.
func TestNoRecord(t *testing.T) {
	t.Parallel()
	requireClients(t, "psql", "pg_dump")
	dir := filepath.Join(t.TempDir(), "data")
	empty := pgtest.Empty(t)

	for _, args := range [][]string{
		{"psql"}, {"psql", "--client", "pg_dump"}, {"price", "list"}, {
			"price", "set", "", "m", "--input", "1", "--output", "1",
		},
		{"price", "delete", "", "m", "--from", "2026-11-01"}, {"price", "apply", "--since", "2026-11-01"},
		{"migrate", "status"}, {"migrate", "down"},
	} {
		code, stdout, stderr := actlog(t, append(args, "--data-dir", dir)...)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, "there is no record in the folder "+dir) ||
			!strings.Contains(stderr, "--data-dir") || !strings.Contains(stderr, "--database-url") {
			t.Errorf("%q: exit code %d\n%s%s", args, code, stdout, stderr)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Fatalf("%q made the folder", args)
		}

		if args = append(args, "--database-url", empty.URL); slices.Contains(args, "pg_dump") {
			args = append(args, "--", "--schema-only")
		} else if args[0] == "psql" {
			args = append(args, "--", "-c", "SELECT 1")
		}
		code, _, stderr = actlog(t, args...)
		if want := "holds no record"; args[1] == "down" {
			if code != exitFailed || !strings.Contains(stderr, "no migration is applied") {
				t.Errorf("%q: exit code %d\n%s", args, code, stderr)
			}
		} else if !strings.Contains(stderr, want) || (code == exitFailed) != (args[0] == "price") {
			t.Errorf("%q: exit code %d\n%s", args, code, stderr)
		}

		var schemas int
		if err := empty.Pool.QueryRow(t.Context(),
			"SELECT count(*) FROM pg_namespace WHERE nspname IN ('actlog', 'report')").Scan(&schemas); err != nil ||
			schemas != 0 {
			t.Fatalf("%q made %d schemas, %v", args, schemas, err)
		}
	}
}

// S11: psql opens as who may only read the views of schema report, whatever the URL and the environment say; --admin
// opens as the owner.
func TestPsqlReads(t *testing.T) {
	requireClients(t, "psql", "pg_dump") // the environment of other tests is not that of this one
	dir := filepath.Join(t.TempDir(), "data")
	if code, _, stderr := actlog(t, "migrate", "up", "--data-dir", dir); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}

	configured := pgtest.New(t).URL
	service := filepath.Join(t.TempDir(), "services")
	if err := os.WriteFile(service, []byte("[mine]\noptions=-c role=none -c default_transaction_read_only=off\n"),
		0o600); err != nil {
		t.Fatal(err)
	}

	t.Setenv("PGOPTIONS", "-c role=none -c default_transaction_read_only=off")
	t.Setenv("PGSERVICEFILE", service)
	t.Setenv("PGSERVICE", "mine")
	t.Setenv("ACTLOG_ADMIN", "true")
	private, named := []string{"psql", "--data-dir", dir}, []string{"psql", "--database-url", configured}
	hostile := []string{
		"psql", "--database-url", configured + "&options=-c%20role%3Dnone%20-c%20default_transaction_read_only%3Doff",
	}

	for _, tt := range []struct {
		as   []string
		sql  string
		want string // on stdout or stderr
		code int
	}{
		{private, "SELECT session_user, count(*) FROM plan", "actlog_psql|0", exitDone},
		{private, "SET ROLE postgres", "permission denied", exitFailed},
		{
			private, "SET default_transaction_read_only = off; SELECT count(*) FROM actlog.plan_execution_record",
			"permission denied", exitFailed,
		},
		{private, "COPY (SELECT 1) TO PROGRAM 'cat'", "must be superuser", exitFailed},
		{private, "SELECT pg_read_file('PG_VERSION')", "permission denied", exitFailed},
		{private, "CREATE TABLE t (n int)", "", exitFailed},
		{private, "SELECT pg_sleep(0), current_setting('statement_timeout')", "|0", exitDone},
		{named, "SELECT current_user, count(*) FROM plan", "actlog_report|0", exitDone},
		{named, "RESET ROLE; SELECT current_user", "actlog_report", exitDone},
		{named, "DELETE FROM actlog.plan_execution_record", "permission denied", exitFailed},
		{named, "COPY (SELECT 1) TO PROGRAM 'cat'", "must be superuser", exitFailed},
		{named, "CREATE TEMP TABLE t (n int)", "read-only transaction", exitFailed},
		{hostile, "SELECT current_user, current_setting('default_transaction_read_only')", "actlog_report|on", exitDone},
		{
			append(slices.Clone(private), "--admin"), "SELECT current_user, count(*) FROM plan_execution_record", "postgres|0",
			exitDone,
		},
		{
			append(slices.Clone(named), "--admin"), "CREATE TEMP TABLE t AS SELECT FROM plan_execution_record", "SELECT 0",
			exitDone,
		},
	} {
		// psql prints what a statement did unless it is quiet.
		code, stdout, stderr := actlog(t,
			append(slices.Clone(tt.as), "--", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "-Atc", tt.sql)...)
		if code != tt.code || !strings.Contains(stdout+stderr, tt.want) {
			t.Errorf("%q: %s: exit code %d\n%s%s", tt.as, tt.sql, code, stdout, stderr)
		}
	}

	if code, stdout, stderr := actlog(t,
		append(private, "--client", "pg_dump", "--", "--schema-only",
			"--table=actlog.plan_execution_record")...); code != exitDone || !strings.Contains(stdout, "CREATE TABLE") {
		t.Errorf("pg_dump: exit code %d\n%s", code, stderr)
	}
}

// S11: a login that may not act as who reads the reports is told what to do, and opens nothing.
func TestPsqlNotGranted(t *testing.T) {
	t.Parallel()
	requireClients(t, "psql")
	db := pgtest.New(t)
	role := "actlog_" + strings.ReplaceAll(record.NewPlanID(), "-", "_")
	admin := connect(t, db.URL, "")
	mustSQL(t, admin, "CREATE ROLE "+role+" LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA actlog TO "+role)
	t.Cleanup(func() {
		if _, err := admin.PgConn().Exec(context.Background(),
			fmt.Sprintf("DROP OWNED BY %[1]s; DROP ROLE %[1]s", role)).ReadAll(); err != nil {
			t.Error(err)
		}
	})

	at := strings.Replace(as(t, db.URL, role), role+"@", role+":secret@", 1)
	code, stdout, stderr := actlog(t, "psql", "--database-url", at, "--", "-Atc", "SELECT 1")
	if code != exitFailed || stdout != "" || !strings.Contains(stderr, "GRANT actlog_report") ||
		!strings.Contains(stderr, "--admin") || strings.Contains(stderr, "secret") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := actlog(t, "psql", "--database-url", at, "--admin", "--", "-Atc",
		"SELECT 1"); code != exitDone || stdout != "1\n" {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}

	// Nor does a client open with all rights whose login could not be asked before.
	var psql psqlCmd
	psql.Client, psql.Args = "psql", []string{"-Atc", "SELECT current_user"}
	var out bytes.Buffer
	if err := psql.execute(t.Context(), &env{stdout: &out, stderr: &out}, at,
		readerOptions+" -c role="+report.Role); err == nil || strings.Contains(out.String(), role+"\n") {
		t.Errorf("psql.execute = %v\n%s", err, out.String())
	}

	mustSQL(t, admin, "GRANT actlog_report TO "+role)
	if code, stdout, stderr := actlog(t, "psql", "--database-url", at, "--", "-Atc",
		"SELECT current_user"); code != exitDone || stdout != "actlog_report\n" {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

// TestConnInfoWith adds options to connection strings of all forms, behind those that are there.
func TestConnInfoWith(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"postgres://u@h/d":                         "postgres://u@h/d?options=-c%20a%3Db%26",
		"postgres:///d?host=/x&options=-c%20z%3D1": "postgres:///d?host=/x&options=-c%20z%3D1%20-c%20a%3Db%26",
		"host=h options='-c z=\\'1\\'' user=u":     "host=h  user=u options='-c z=\\'1\\' -c a=b&'",
		"d":                                        "dbname='d' options='-c a=b&'",
		"options=x":                                "options='x -c a=b&'",
		"postgres://u:p@h/d?opti%6Fns=-c%20role%3Dme": "postgres://u@h/d?options=-c%20role%3Dme%20-c%20a%3Db%26",
	} {
		info, err := parseConnInfo(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.with(info.public, "-c a=b&"); strings.Join(strings.Fields(got),
			" ") != strings.Join(strings.Fields(want), " ") {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// S11: what the README shows of actlog psql works as it opens the database by itself.
func TestReadmeSQL(t *testing.T) {
	t.Parallel()
	requireClients(t, "psql")
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}

	_, after, found := strings.Cut(string(text), "`bin/actlog psql`")
	_, after, begun := strings.Cut(after, "```sql\n")
	statement, _, ended := strings.Cut(after, "```")
	if !found || !begun || !ended {
		t.Fatal("the README has no SQL for actlog psql")
	}

	if code, stdout, stderr := actlog(t, "psql", "--database-url", pgtest.New(t).URL, "--", "-c",
		statement); code != exitDone || !strings.Contains(stdout, "(0 rows)") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
