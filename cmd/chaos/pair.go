//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// pair is a primary and a standby of pg_auto_failover, with its monitor. Commits wait for the standby, and the monitor
// promotes it when the primary does not answer.
type pair struct {
	dir     string
	bin     string // where the programs of Postgres are
	owner   *syscall.Credential
	mode    string // of the poolers; empty: there are none
	monitor *node
	nodes   []*node
}

// node is a Postgres and its keeper. Actlog reaches it at its address. Other nodes and the monitor reach it through a
// proxy, at the same port of another address, and its keeper reaches the monitor through one.
type node struct {
	name, dir, log string
	host, port     string
	network        []*proxy // nil: of the monitor
	args           []string
	cmd            *exec.Cmd
	exited         chan struct{}
	pooler         *exec.Cmd // nil: there is none
	pooled         string    // the address of the pooler
}

// The modes of poolers.
const (
	poolSessions     = "session"
	poolTransactions = "transaction"
)

// Packages of Debian that pg_auto_failover comes in.
const pairPackages = "postgresql-15-auto-failover and pg-auto-failover-cli"

// newPair starts the monitor and both nodes, one after the other: the first becomes the primary. mode is that of
// poolers before them; empty: there are none.
func newPair(ctx context.Context, dir, mode string) (_ *pair, err error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/lib/pgautofailover.so")
	if _, lookErr := exec.LookPath("pg_autoctl"); err != nil || lookErr != nil || len(found) == 0 {
		return nil, fmt.Errorf("pg_auto_failover is not installed: install Debian's packages %s", pairPackages)
	}

	p := &pair{dir: dir, mode: mode, bin: filepath.Join(filepath.Dir(filepath.Dir(found[len(found)-1])), "bin")}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}

	if os.Getuid() == 0 { // Postgres does not run as root
		if p.owner, err = credentialOf("postgres"); err == nil {
			err = os.Chown(dir, int(p.owner.Uid), int(p.owner.Gid))
		}
		if err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()

	if p.monitor, err = p.newNode("monitor", "127.0.0.1"); err != nil {
		return nil, err
	}
	if err := p.create(ctx, p.monitor, "monitor", "--hostname", p.monitor.host); err != nil {
		return nil, err
	}
	if err := p.eventually(ctx, "the monitor answers", func(ctx context.Context) error {
		return p.askMonitor(ctx, "SELECT 1", new(int))
	}); err != nil {
		return nil, err
	}

	// A node is given up after a few seconds, for a short test.
	for setting, value := range map[string]string{
		"health_check_period": "1000", "health_check_timeout": "1000", "health_check_max_retries": "1",
		"health_check_retry_delay":          "500",
		"node_considered_unhealthy_timeout": "4000", "startup_grace_period": "2000", "primary_demote_timeout": "2000",
	} {
		if err := sqlOn(ctx, p.monitor.url("postgres"), "ALTER SYSTEM SET pgautofailover."+setting+" = "+value); err != nil {
			return nil, err
		}
	}
	if err := sqlOn(ctx, p.monitor.url("postgres"), "SELECT pg_reload_conf()"); err != nil {
		return nil, err
	}

	for i, name := range []string{"a", "b"} {
		if err := p.join(ctx, name, fmt.Sprintf("127.0.1.%d", i+1), fmt.Sprintf("127.0.2.%d", i+1)); err != nil {
			return nil, err
		}
	}

	// A keeper that cannot rewind an old primary copies the new one, and a copy waits for a checkpoint: as long as
	// minutes.
	for _, n := range p.nodes {
		for _, statement := range []string{
			"ALTER SYSTEM SET checkpoint_timeout = '30s'", "ALTER SYSTEM SET checkpoint_completion_target = 0.1",
			"SELECT pg_reload_conf()",
		} {
			if err := sqlOn(ctx, n.url("postgres"), statement); err != nil {
				return nil, err
			}
		}
	}
	if err := sqlOn(ctx, p.nodes[0].url("postgres"),
		"CREATE DATABASE actlog ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0"); err != nil {
		return nil, err
	}

	statements := []string{"CREATE TABLE public.probe (at timestamptz)"}
	for n := range pairWorkers { // the audit knows workers by their roles
		name := workerName(n)
		statements = append(statements, "CREATE ROLE "+name+" LOGIN SUPERUSER",
			"ALTER ROLE "+name+" SET chaos.worker = '"+name+"'")
	}
	if mode != "" {
		for setting, value := range poolerSettings {
			statements = append(statements, "ALTER DATABASE actlog SET "+setting+" = "+value)
		}
	}

	for _, statement := range statements {
		if err := sqlOn(ctx, p.nodes[0].url("actlog"), statement); err != nil {
			return nil, err
		}
	}

	err = p.eventually(ctx, "the standby has it", func(ctx context.Context) error {
		return sqlOn(ctx, p.nodes[1].url("actlog"), "TABLE public.probe")
	})
	return p, err
}

// join adds a node at an address, which the others know by another one.
func (p *pair) join(ctx context.Context, name, host, known string) error {
	n, err := p.newNode(name, host)
	if err != nil {
		return err
	}
	p.nodes = append(p.nodes, n)

	for _, way := range [][2]string{{net.JoinHostPort(known, n.port), n.address()}, {anyPort, p.monitor.address()}} {
		between, err := newProxy(way[0], way[1])
		if err != nil {
			return err
		}
		n.network = append(n.network, between)
	}
	if p.mode != "" {
		if err := p.pool(ctx, n); err != nil {
			return err
		}
	}

	monitorURL := fmt.Sprintf("postgres://autoctl_node@%s/pg_auto_failover?sslmode=disable", n.network[1].listener.Addr())
	if err := p.create(ctx, n, "postgres", "--name", name, "--monitor", monitorURL, "--listen", host, "--hostname",
		known); err != nil {
		return err
	}
	return p.eventually(ctx, "node "+name+" has joined", func(ctx context.Context) error {
		return p.settled(ctx, len(p.nodes))
	})
}

func credentialOf(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(uidErr, gidErr)
}

// flags lead a server or a worker to both nodes, or to their poolers. What a pooler of transactions cannot do needs the
// nodes themselves.
func (p *pair) flags(role string) []string {
	direct := p.url(role, (*node).address)
	if p.mode == "" {
		return []string{"--database-url", direct}
	}

	flags := []string{"--database-url", p.url(role, func(n *node) string { return n.pooled })}
	if p.mode == poolTransactions {
		flags = append(flags, "--direct-url", direct)
	}
	return flags
}

// url names both nodes, by addresses of each, in an order in which the first is seldom the primary.
func (p *pair) url(role string, address func(*node) string) string {
	var hosts []string
	for _, n := range slices.Backward(p.nodes) {
		hosts = append(hosts, address(n))
	}
	return fmt.Sprintf("postgres://%s@%s/actlog?sslmode=disable", role, strings.Join(hosts, ","))
}

// primaryURL leads to whatever node is the primary when a connection begins.
func (p *pair) primaryURL() string {
	return p.url("postgres", (*node).address) + "&target_session_attrs=read-write"
}

func (n *node) address() string { return net.JoinHostPort(n.host, n.port) }

func (n *node) url(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable&connect_timeout=2", n.address(), database)
}

// cut holds all that goes between a node and the others, or lets it pass.
func (n *node) cut(held bool) {
	now := trafficPasses
	if held {
		now = trafficStalls
	}
	for _, between := range n.network {
		between.set(now)
	}
}

func (p *pair) newNode(name, host string) (*node, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	return &node{
		name: name, dir: filepath.Join(p.dir, name), host: host, port: port, log: filepath.Join(p.dir, name+".log"),
	}, err
}

// create creates a node or the monitor, and runs it.
func (p *pair) create(ctx context.Context, n *node, what string, args ...string) error {
	n.args = append([]string{
		"create", what, "--pgdata", n.dir, "--pgport", n.port, "--auth", "trust", "--no-ssl", "--run",
	}, args...)
	return p.start(ctx, n)
}

// poolerSettings are those that a pooler does not pass on: docs/operations.md.
var poolerSettings = map[string]string{
	"jit": "off", "plan_cache_mode": "force_generic_plan", "lock_timeout": "'2s'", "client_min_messages": "warning",
	"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_material": "off",
}

// pool starts a PgBouncer before a node.
func (p *pair) pool(ctx context.Context, n *node) (err error) {
	if n.pooled, err = freeAddress(); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(n.pooled)
	if err != nil {
		return err
	}

	users := filepath.Join(p.dir, "users")
	settings := filepath.Join(p.dir, n.name+".pgbouncer.ini")
	roles := `"postgres" ""` + "\n"
	for n := range pairWorkers {
		roles += fmt.Sprintf("%q \"\"\n", workerName(n))
	}

	for path, content := range map[string]string{
		users: roles,
		settings: fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = %s
max_client_conn = 1000
default_pool_size = 100
server_login_retry = 1
logfile = %s
ignore_startup_parameters = jit, plan_cache_mode, enable_seqscan, enable_hashjoin, enable_mergejoin, enable_material, lock_timeout, default_transaction_isolation, client_min_messages
`, n.host, n.port, port, users, p.mode, filepath.Join(p.dir, n.name+".pgbouncer.log")),
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}

	n.pooler = p.command(ctx, "pgbouncer", "-q", settings)
	if err := n.pooler.Start(); err != nil {
		return fmt.Errorf("start PgBouncer (Debian's package pgbouncer): %w", err)
	}
	return nil
}

func (p *pair) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, args...)
	cmd.Dir = p.dir
	cmd.Env = []string{
		"PATH=" + p.bin + ":" + os.Getenv("PATH"), "HOME=" + p.dir, "XDG_RUNTIME_DIR=" + p.dir,
		"XDG_CONFIG_HOME=" + p.dir + "/config", "XDG_DATA_HOME=" + p.dir + "/share",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.owner}
	return cmd
}

func (p *pair) start(ctx context.Context, n *node) error {
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	n.cmd, n.exited = p.command(ctx, "pg_autoctl", n.args...), make(chan struct{})
	n.cmd.Stdout, n.cmd.Stderr = log, log
	if err := n.cmd.Start(); err != nil {
		return fmt.Errorf("start node %s: %w", n.name, err)
	}

	n.args = []string{"run", "--pgdata", n.dir} // from now on
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait()
		close(exited)
	}(n.cmd, n.exited)
	return nil
}

// signal sends a signal to the keeper and all of Postgres. SIGKILL leaves nothing.
func (n *node) signal(sig syscall.Signal) {
	for range 3 { // some may start others meanwhile
		for _, pid := range n.processes() {
			_ = syscall.Kill(pid, sig)
		}
	}
}

// processes returns the process ids of the keeper and of Postgres.
func (n *node) processes() []int {
	all := append([]int{n.cmd.Process.Pid}, descendants(n.cmd.Process.Pid)...)
	if content, err := os.ReadFile(filepath.Join(n.dir, "postmaster.pid")); err == nil {
		if pid, err := strconv.Atoi(strings.SplitN(string(content), "\n", 2)[0]); err == nil && pid > 1 && parentOf(pid) > 0 {
			all = append(all, pid)
			all = append(all, descendants(pid)...)
		}
	}
	return all
}

func descendants(pid int) (all []int) {
	for _, child := range children(pid) {
		all = append(all, child)
		all = append(all, descendants(child)...)
	}
	return all
}

// close stops everything.
func (p *pair) close() {
	for _, n := range append(p.nodes, p.monitor) {
		if n != nil && n.cmd != nil && n.cmd.Process != nil {
			n.signal(syscall.SIGKILL)
			<-n.exited
		}
	}

	for _, n := range p.nodes {
		if n.pooler != nil && n.pooler.Process != nil {
			_ = n.pooler.Process.Kill()
			_ = n.pooler.Wait()
		}
		for _, between := range n.network {
			between.close()
		}
	}
}

// primary returns the node that the monitor has as the primary.
func (p *pair) primary(ctx context.Context) (*node, error) {
	var port string
	err := p.askMonitor(ctx, `SELECT COALESCE(max(nodeport::text) FILTER (WHERE current_group_state IN ('primary', 'wait_primary', 'single')
		AND assigned_group_state IN ('primary', 'wait_primary', 'single')), '') FROM pgautofailover.current_state()`, &port)
	if err != nil {
		return nil, err
	}

	for _, n := range p.nodes {
		if n.port == port {
			return n, nil
		}
	}
	return nil, errors.New("there is no primary")
}

// settled reports whether all of a number of nodes are what they should be: a primary and its standby.
func (p *pair) settled(ctx context.Context, nodes int) error {
	var states string
	err := p.askMonitor(
		ctx, `SELECT COALESCE(string_agg(current_group_state::text || '/' || assigned_group_state::text, ' ' ORDER BY current_group_state::text), '') FROM pgautofailover.current_state()`, &states,
	)
	want := []string{"single/single", "primary/primary secondary/secondary"}[nodes-1]
	if err == nil && states != want {
		err = fmt.Errorf("the nodes are %s, not %s", states, want)
	}
	return err
}

func (p *pair) askMonitor(ctx context.Context, sql string, into any) error {
	conn, err := pgx.Connect(ctx, p.monitor.url("pg_auto_failover"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return conn.QueryRow(ctx, sql).Scan(into)
}

// eventually waits for something, with patience: a keeper looks once a second, and a busy machine may copy a whole
// node.
func (p *pair) eventually(ctx context.Context, what string, check func(context.Context) error) error {
	deadline := time.Now().Add(5 * time.Minute)
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := check(try)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("waited until %s: %w", what, errors.Join(ctx.Err(), err))
		}
		pause(ctx, 50*time.Millisecond)
	}
}

func sqlOn(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql)
	return err
}
