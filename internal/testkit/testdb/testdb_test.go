package testdb

import (
	"bufio"
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
)

// helperEnv makes the child process of TestInterrupted take a database and wait.
const helperEnv = "PGTEST_TEST_HELPER"

func TestMain(m *testing.M) {
	code := Run(m, Start)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func TestManyInParallel(t *testing.T) {
	const n = 200
	start := time.Now()
	t.Run("group", func(t *testing.T) {
		for i := range n {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				db := New(t)
				exec(
					t, db.Pool, `INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part) VALUES ('r', 'r', current_date)`,
				)
				if n := count(t, db.Pool, "actlog.plan_execution_record"); n != 1 {
					t.Errorf("%d rows, want only the one of this test", n)
				}
			})
		}
	})
	t.Logf("%d tests in %s", n, time.Since(start).Round(time.Millisecond))
}

func TestNew(t *testing.T) {
	t.Parallel()
	a, b := New(t), New(t)
	if a.URL == b.URL {
		t.Fatalf("two tests share %s", a.URL)
	}

	var applied int
	if err := a.Pool.QueryRow(t.Context(),
		`SELECT count(*) FROM actlog.schema_version WHERE version_id > 0`).Scan(&applied); err != nil || applied == 0 {
		t.Errorf("%d migrations applied, %v", applied, err)
	}

	other, err := pgxpool.New(t.Context(), a.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var name string
	if err := other.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name); err != nil ||
		!strings.HasPrefix(name, testPrefix) {
		t.Errorf("URL connects to %s, %v", name, err)
	}
}

func TestFresh(t *testing.T) {
	t.Parallel()
	db := Fresh(t)
	exec(t, db.Pool, `DROP SCHEMA actlog CASCADE`)
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	db := Empty(t)
	var schemas int
	if err := db.Pool.QueryRow(t.Context(),
		`SELECT count(*) FROM pg_namespace WHERE nspname = 'actlog'`).Scan(&schemas); err != nil || schemas != 0 {
		t.Errorf("%d schemas, %v", schemas, err)
	}

	var encoding string
	if err := db.Pool.QueryRow(t.Context(), `SHOW server_encoding`).Scan(&encoding); err != nil || encoding != "UTF8" {
		t.Errorf("encoding %s, %v", encoding, err)
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	if os.Getenv(helperEnv) != "" {
		fmt.Println("\nurl " + New(t).URL)
		select {}
	}

	cmd := osexec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInterrupted$")
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, URLEnv+"=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, helperEnv+"=1")
	cmd.Stderr = os.Stderr

	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	var url string
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		url, _ = strings.CutPrefix(lines.Text(), "url ")
		if !strings.HasPrefix(url, "postgres") {
			t.Log(url)
			url = ""
		}
	}

	if _, err := serverVersion(t.Context(), url); err != nil {
		t.Errorf("before the interrupt: %v", err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("interrupted tests passed")
	}
	if _, err := serverVersion(t.Context(), url); err == nil {
		t.Error("the server outlived its tests")
	}
}

func exec(t testing.TB, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), sql); err != nil {
		t.Fatal(err)
	}
}

func count(t testing.TB, pool *pgxpool.Pool, table string) (n int) {
	t.Helper()
	if err := pool.QueryRow(context.Background(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
