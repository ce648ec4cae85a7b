//go:build ha

package store_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/feed"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// pgBouncer starts a PgBouncer of transactions before a database, with few connections to it, and returns the URL of
// the database through it.
func pgBouncer(t *testing.T, role, roleURL string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	config, err := pgx.ParseConfig(roleURL)
	if err != nil {
		t.Fatal(err)
	}

	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	host, at, err := net.SplitHostPort(pooler(t, config)) // it may not use the socket
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	users := write("users", fmt.Sprintf("%q %q\n", role, config.Password))

	ini := write("pgbouncer.ini", fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
server_tls_sslmode = disable
default_pool_size = 5
ignore_startup_parameters = jit, plan_cache_mode, enable_seqscan, enable_hashjoin, enable_mergejoin, enable_material, lock_timeout, default_transaction_isolation, client_min_messages
`, host, at, role, config.Password, port, users))

	for folder := dir; folder != os.TempDir(); folder = filepath.Dir(folder) {
		if err := os.Chmod(folder, 0o755); err != nil { // it may run as another user
			t.Fatal(err)
		}
	}

	cmd := exec.CommandContext(context.Background(), program, ini)
	if os.Getuid() == 0 { // it does not run as root
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})

	storetest.Until(t, "PgBouncer listens", func() bool {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return (&url.URL{
		Scheme: "postgres", User: url.UserPassword(role, config.Password), Host: "127.0.0.1:" + port,
		Path: "/" + config.Database, RawQuery: "sslmode=disable",
	}).String()
}

// TestPgBouncerOfTransactions: behind a pooler that gives each transaction any of its connections, everything works:
// writes of all sizes, reads, lists, exports, the feed, and what servers say to each other.
func TestPgBouncerOfTransactions(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	name, roleURL := role(t, db)
	execSQL(t, db.Pool, "GRANT USAGE, CREATE ON SCHEMA actlog TO "+name+
		"; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA actlog TO "+name)
	for _, set := range []string{
		"jit = off", "plan_cache_mode = force_generic_plan", "enable_seqscan = off", "enable_hashjoin = off",
		"enable_mergejoin = off", "enable_material = off", "lock_timeout = '2s'", "client_min_messages = warning",
	} {
		execSQL(t, db.Pool, "ALTER ROLE "+name+" SET "+set)
	}

	var log storetest.Log
	s := storetest.OpenURL(t, pgBouncer(t, name, roleURL), func(c *store.Config) {
		c.DirectURL, c.MaxConns = roleURL, 20
		c.Logger = log.Logger()
	})

	watching, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	seen, begun := map[string]bool{}, false
	go s.Feed().Follow(watching, func(c feed.Changes) {
		mu.Lock()
		defer mu.Unlock()
		begun = true
		for _, change := range c.Committed {
			seen[change.RootPlanID] = true
		}
	})
	storetest.Until(t, "the feed is followed", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return begun
	})

	var writers sync.WaitGroup
	for w := range 12 {
		writers.Go(func() {
			for n := range 10 {
				root := fmt.Sprintf("run-%d-%d", w, n)
				plan := &record.Plan{
					RootPlanID: root, CurrentPlanID: root, Title: new("the needle of " + root), State: new(record.Completed),
				}
				changes := []record.Change{plan, &record.AgentExecution{RootPlanID: root, StepID: root + "-step", PlanID: root}}
				for seq := range int64(1 + 30*(n%3)) { // some are copied
					changes = append(changes, &record.ThinkAct{
						RootPlanID: root, StepID: root + "-step", Seq: seq, ThinkInput: new(strings.Repeat("a prompt ", 40)),
						State: new(record.Completed),
					})
				}

				storetest.Write(t, s, changes...)
				if p := storetest.PlanTree(t, s, root); *p.Record.Title != *plan.Title {
					t.Errorf("%s is called %q", root, *p.Record.Title)
				}
				if d := storetest.StepDetail(t, s, root+"-step"); len(d.Cycles) != 1+30*(n%3) {
					t.Errorf("%s has %d cycles", root, len(d.Cycles))
				}
				if plans, err := s.Plans(t.Context(), store.PlanFilter{Limit: 5, Query: root}); err != nil || len(plans) == 0 {
					t.Errorf("%s is not found: %v", root, err)
				}

				exported := 0
				if err := s.Export(t.Context(), root, root, func(record.Change) error {
					exported++
					return nil
				}); err != nil || exported < 3 {
					t.Errorf("export of %s: %d changes, %v", root, exported, err)
				}
			}
		})
	}

	writers.Wait()
	storetest.Until(t, "the feed has all of them", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) == 120
	})
	if text := log.String(); text != "" {
		t.Errorf("the log:\n%s", text)
	}
}
