package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/pgtest"
)

// child waits for the process that the program has started with this text in its arguments.
func (p *program) child(t *testing.T, text string) *os.Process {
	t.Helper()
	pid := p.cmd.Process.Pid
	for t.Context().Err() == nil {
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
					return child
				}
			}
		}
		pause()
	}
	t.Fatalf("no child with %q:\n%s", text, p.stderr)
	return nil
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
		if text := string(arguments); strings.Contains(text, password) || strings.Contains(text, "hidden") || strings.Contains(text, "password") {
			t.Errorf("%s: others see %q", address, text)
		}
		if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = client.Signal(os.Interrupt)
		_ = p.cmd.Wait()
		// The client connects with them.
		if code, stdout, stderr := actlog(t, "psql", "--database-url", address, "--", "-Atc", "SELECT 1"); code != exitDone || stdout != "1\n" {
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
		{"postgres:///d?passfile=/f&sslpassword=s&user=me", "postgres:///d?user=me", secrets{"passfile": "/f", "sslpassword": "s"}},
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
	for _, bad := range []string{"postgres://u:s3cret%zz@h", "postgres:///d?password=s3cret%z", "password='s3cret", "s3cret word=1"} {
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
		if info, statErr := os.Stat(file); err != nil || statErr != nil || info.Mode().Perm() != 0o600 || string(content) != "[actlog_secrets]\nsslpassword=s\n" {
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
		{"psql"}, {"psql", "--client", "pg_dump"}, {"price", "list"}, {"price", "set", "", "m", "--input", "1", "--output", "1"},
		{"price", "delete", "", "m", "--from", "2026-11-01"}, {"price", "apply", "--since", "2026-11-01"}, {"migrate", "status"}, {"migrate", "down"},
	} {
		code, stdout, stderr := actlog(t, append(args, "--data-dir", dir)...)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, "there is no record in the folder "+dir) || !strings.Contains(stderr, "--data-dir") || !strings.Contains(stderr, "--database-url") {
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
		if err := empty.Pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname IN ('actlog', 'report')").Scan(&schemas); err != nil || schemas != 0 {
			t.Fatalf("%q made %d schemas, %v", args, schemas, err)
		}
	}
}
