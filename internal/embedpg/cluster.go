package embedpg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	pollInterval = 10 * time.Millisecond
	// graceForOld is how long a postmaster of an earlier program gets to stop by itself.
	graceForOld = 15 * time.Second
	// graceForMemory is how long to wait for processes we cannot see to let go of the
	// shared memory of a dead postmaster.
	graceForMemory = time.Minute
	// maxLog is the size in bytes at which the log of Postgres is set aside at start.
	maxLog = 16 << 20
)

var errMemoryInUse = errors.New("processes of the previous server still run")

// cluster is a data directory and what it takes to run a postmaster on it.
type cluster struct {
	dir, data, logFile string
	fast, noSocket     bool
	bin                binaries
	id                 identity
	log                *slog.Logger

	url              string
	network, address string // where a client connects
	socketDir        string // "" on a loopback port
	args             []string
}

// openCluster finds the binaries, makes the data directory on the first call, and
// settles the address.
func openCluster(ctx context.Context, cfg Config) (*cluster, error) {
	c := &cluster{
		dir:      cfg.Dir,
		data:     filepath.Join(cfg.Dir, "data"),
		logFile:  filepath.Join(cfg.Dir, "postgres.log"),
		fast:     cfg.Fast,
		noSocket: cfg.noSocket,
		log:      cfg.Logger,
	}
	major, err := dataVersion(c.data)
	if err != nil {
		return nil, err
	}
	if c.bin, err = findBinaries(ctx, cfg, major); err != nil {
		return nil, err
	}
	password, known, err := c.password()
	if err != nil {
		return nil, err
	}
	if err := c.chooseIdentity(ctx); err != nil {
		return nil, err
	}
	// The old server goes first: it holds the data, and perhaps the address.
	if err := clearOld(ctx, c.data, syscall.SIGINT, c.log); err != nil {
		return nil, err
	}
	switch {
	case major == 0:
		err = c.initialize(ctx)
	case !known:
		err = c.single(ctx, c.data, "ALTER ROLE "+role+" PASSWORD '"+password+"'")
	}
	if err != nil {
		return nil, err
	}
	if err := c.chooseAddress(password); err != nil {
		return nil, err
	}
	return c, nil
}

// dataVersion is the major version that made the data directory, 0 when there is none.
func dataVersion(data string) (int, error) {
	b, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		if entries, _ := os.ReadDir(data); len(entries) > 0 {
			return 0, fmt.Errorf("%s is not empty and holds no Postgres data", data)
		}
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(data, "PG_VERSION"), err)
	}
	return major, nil
}

func (c *cluster) passwordFile() string { return filepath.Join(c.dir, "password") }

// password reads the password file, or writes a new one.
func (c *cluster) password() (password string, known bool, err error) {
	b, err := os.ReadFile(c.passwordFile())
	if password = strings.TrimSpace(string(b)); err == nil && password != "" {
		return password, true, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", false, err
	}
	password = rand.Text()
	if err := os.WriteFile(c.passwordFile(), []byte(password+"\n"), 0o600); err != nil {
		return "", false, err
	}
	return password, false, nil
}

// chooseIdentity takes the first identity that can enter the folder and run the
// binaries.
func (c *cluster) chooseIdentity(ctx context.Context) error {
	var errs []error
	for _, id := range identities(c.data) {
		err := id.give(c.dir, c.passwordFile())
		if err == nil {
			err = id.giveAll(c.data)
		}
		if err == nil {
			err = run(command(ctx, id, c.dir, c.bin.postgres(), "--version"), "")
		}
		if err == nil {
			c.id = id
			return nil
		}
		errs = append(errs, fmt.Errorf("as %s: %w", id.name, err))
	}
	return fmt.Errorf("running %s in %s, both of which it must be able to reach:\n%w", c.bin.postgres(), c.dir, errors.Join(errs...))
}

// initialize makes the data directory in one step, as far as a crash can tell.
func (c *cluster) initialize(ctx context.Context) error {
	// Left by a program that was killed in here. Never reused: its initdb may still run.
	const unfinished = "data.new-"
	old, err := filepath.Glob(filepath.Join(c.dir, unfinished+"*"))
	if err != nil {
		return err
	}
	for _, dir := range old {
		_ = os.RemoveAll(dir)
	}
	temp, err := os.MkdirTemp(c.dir, unfinished)
	if err != nil {
		return err
	}
	err = c.id.give(temp)
	if err == nil {
		err = c.initdb(ctx, temp)
	}
	if err == nil {
		err = c.single(ctx, temp, "CREATE DATABASE "+database)
	}
	if err == nil {
		_ = os.Remove(c.data) // may be there, and empty
		err = os.Rename(temp, c.data)
	}
	if err != nil {
		_ = os.RemoveAll(temp)
		return fmt.Errorf("making the data directory: %w", err)
	}
	return nil
}

func (c *cluster) initdb(ctx context.Context, data string) error {
	args := []string{
		"-D", data, "-U", role, "-E", "UTF8", "--locale=C",
		"--pwfile=" + c.passwordFile(), "--auth=scram-sha-256",
	}
	if c.fast {
		args = append(args, "--no-sync", "--auth-local=trust")
	} else {
		args = append(args, "--data-checksums")
	}
	return run(command(ctx, c.id, c.dir, c.bin.initdb(), args...), "")
}

// single has the database system execute one statement while no server runs.
func (c *cluster) single(ctx context.Context, data, statement string) error {
	args := []string{"--single", "-D", data, "-c", "exit_on_error=on"}
	if c.fast {
		args = append(args, "-F")
	}
	return run(command(ctx, c.id, c.dir, c.bin.postgres(), append(args, "postgres")...), statement+"\n")
}

// chooseAddress settles on a socket, or on a loopback port where there can be none.
func (c *cluster) chooseAddress(password string) error {
	u := &url.URL{Scheme: "postgres", User: url.UserPassword(role, password), Path: "/" + database}
	port := "5432"
	query := url.Values{"sslmode": {"disable"}}
	listen := ""
	if dir, err := c.makeSocketDir(); err == nil {
		c.socketDir = dir
		c.network, c.address = "unix", filepath.Join(dir, socketName)
		query.Set("host", dir)
		query.Set("port", port)
	} else {
		c.log.Debug("no unix socket for postgres, using a loopback port", "reason", err)
		if port, err = freePort(); err != nil {
			return err
		}
		listen = "127.0.0.1"
		c.network, c.address = "tcp", net.JoinHostPort(listen, port)
		u.Host = c.address
	}
	u.RawQuery = query.Encode()
	c.url = u.String()

	settings := []string{
		"listen_addresses=" + listen,
		"port=" + port,
		"unix_socket_directories=" + quoted(c.socketDir),
		"max_locks_per_transaction=256",
		"logging_collector=off",
		"log_destination=stderr",
	}
	if c.fast {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off",
			"max_connections=500", "max_wal_size=4GB", "checkpoint_timeout=1h")
	} else {
		settings = append(settings, "synchronous_commit=on")
	}
	c.args = []string{"-D", c.data}
	for _, s := range settings {
		c.args = append(c.args, "-c", s)
	}
	return nil
}

// start brings up a postmaster and waits until it accepts connections.
func (c *cluster) start(ctx context.Context) (*process, error) {
	deadline := time.Now().Add(graceForMemory)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if err := clearOld(ctx, c.data, syscall.SIGINT, c.log); err != nil {
			return nil, err
		}
		c.clearSocket()
		p, err := c.attempt(ctx)
		if !errors.Is(err, errMemoryInUse) || time.Now().After(deadline) || !sleep(ctx, wait) {
			return p, err
		}
	}
}

func (c *cluster) attempt(ctx context.Context) (*process, error) {
	log, err := openLog(c.logFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	// The process outlives ctx, which only bounds the start.
	cmd := command(context.WithoutCancel(ctx), c.id, c.dir, c.bin.postgres(), c.args...)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := launch(cmd)
	if err != nil {
		return nil, err
	}
	for !ready(ctx, c.network, c.address) {
		select {
		case <-p.exited:
			said := readFrom(c.logFile, from)
			err := errors.New(p.reason())
			if strings.Contains(string(said), "shared memory block") {
				err = fmt.Errorf("%w: %w", errMemoryInUse, err)
			}
			return nil, withLog(err, said)
		case <-ctx.Done():
			p.quit()
			return nil, withLog(ctx.Err(), readFrom(c.logFile, from))
		case <-time.After(pollInterval):
		}
	}
	return p, nil
}

// clearOld ends what an earlier program left running on the data directory, beginning
// with sig, and removes a postmaster.pid that names some other process.
func clearOld(ctx context.Context, data string, sig syscall.Signal, log *slog.Logger) error {
	if pid := postmasterPID(data); pid > 0 {
		if isPostmaster(pid, data) {
			log.Warn("stopping the postgres that an earlier program left behind", "pid", pid, "data", data)
			old := func() []int {
				if isPostmaster(pid, data) {
					return []int{pid}
				}
				return nil
			}
			if err := end(ctx, old, sig, graceForOld); err != nil {
				return fmt.Errorf("stopping postgres %d, left behind on %s: %w", pid, data, err)
			}
		}
		// Postgres would believe in any process of that number, as after a reboot.
		if postmasterPID(data) == pid {
			if err := os.Remove(filepath.Join(data, "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	left := func() []int { return orphans(data) }
	if err := end(ctx, left, syscall.SIGQUIT, graceBeforeKill); err != nil {
		return fmt.Errorf("ending processes left behind on %s: %w", data, err)
	}
	return nil
}

// end signals the processes and waits until there are none, killing them after grace.
func end(ctx context.Context, running func() []int, sig syscall.Signal, grace time.Duration) error {
	deadline := time.Now().Add(grace)
	signalled := map[int]syscall.Signal{}
	for pids := running(); len(pids) > 0; pids = running() {
		if time.Now().After(deadline) {
			sig = syscall.SIGKILL
		}
		for _, pid := range pids {
			if signalled[pid] == sig {
				continue
			}
			if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
			signalled[pid] = sig
		}
		if !sleep(ctx, pollInterval) {
			return ctx.Err()
		}
	}
	return nil
}

// postmasterPID reads the first line of postmaster.pid, 0 when there is none.
func postmasterPID(data string) int {
	b, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0
	}
	return max(pid, -pid) // negative in single-user mode
}

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

func readFrom(path string, offset int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	b, _ := io.ReadAll(io.NewSectionReader(f, offset, maxLog))
	return b
}

// resolve follows symbolic links, as the kernel does for a working directory.
func resolve(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}
