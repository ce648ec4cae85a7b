//go:build unix

package embedpg

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	pollInterval = 10 * time.Millisecond
	// graceForOld is how long the postmaster of an earlier program may take to stop.
	graceForOld = 15 * time.Second
	// graceForMemory is how long to wait until processes that this program cannot see release
	// the shared memory of a dead postmaster.
	graceForMemory = time.Minute
	// maxLog is the size of the Postgres log, in bytes, above which a start renames it.
	maxLog = 16 << 20
)

var errMemoryInUse = errors.New("processes of the previous server still run")

// cluster is a data directory with everything that is needed to run a postmaster on it.
type cluster struct {
	Config
	data string // the data directory
	bin  binaries
	id   identity

	url              string
	network, address string // for a client to dial
	socketDir        string // "" if the server listens on a port
	args             []string
}

// openCluster finds the binaries, creates the data directory if there is none, and chooses
// the address.
func openCluster(ctx context.Context, cfg Config) (*cluster, error) {
	c := &cluster{Config: cfg, data: filepath.Join(cfg.Dir, "data")}
	major, err := dataVersion(c.data)
	if err != nil {
		return nil, err
	}
	if c.bin, err = findBinaries(ctx, cfg, cmp.Or(major, cfg.Major)); err != nil {
		return nil, err
	}

	password, known, err := c.password()
	if err != nil {
		return nil, err
	}
	if err := c.chooseIdentity(ctx); err != nil {
		return nil, err
	}

	// Stop the old server first: it uses the data, and perhaps the address.
	if err := stopOld(ctx, c.data, syscall.SIGINT, c.Logger); err != nil {
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
	return c, c.chooseAddress(password)
}

// dataVersion returns the major version that created the data directory, or 0 if there is no
// data directory.
func dataVersion(data string) (int, error) {
	path := filepath.Join(data, "PG_VERSION")
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if entries, _ := os.ReadDir(data); len(entries) > 0 {
			return 0, fmt.Errorf("%s is not empty and contains no Postgres data", data)
		}
		return 0, nil
	}
	if err != nil {
		return 0, err
	}

	major, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return major, nil
}

func (c *cluster) passwordFile() string { return filepath.Join(c.Dir, "password") }

// password reads the password file. If there is none, it writes a new one and reports that
// the server does not know this password yet.
func (c *cluster) password() (password string, known bool, err error) {
	b, err := os.ReadFile(c.passwordFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", false, err
	}
	if password = strings.TrimSpace(string(b)); password != "" {
		return password, true, nil
	}

	password = rand.Text()
	return password, false, os.WriteFile(c.passwordFile(), []byte(password+"\n"), 0o600)
}

// chooseIdentity takes the first identity that can enter the folder and run the binaries.
func (c *cluster) chooseIdentity(ctx context.Context) error {
	var errs []error
	for _, id := range identities(c.data) {
		err := id.chown(c.Dir, c.passwordFile())
		if err == nil {
			err = id.chownAll(c.data)
		}
		if err == nil {
			err = execute(command(ctx, id, c.Dir, c.bin.postgres(), "--version"), "")
		}

		if err == nil {
			c.id = id
			return nil
		}
		errs = append(errs, fmt.Errorf("as %s: %w", id.name, err))
	}
	return fmt.Errorf("run %s in %s (the user needs access to both):\n%w", c.bin.postgres(), c.Dir, errors.Join(errs...))
}

// initialize creates the data directory under another name and renames it last, so that a
// crash leaves no incomplete one.
func (c *cluster) initialize(ctx context.Context) error {
	// A folder that a killed program left behind is never reused: its initdb may still run.
	const unfinished = "data.new-"
	old, err := filepath.Glob(filepath.Join(c.Dir, unfinished+"*"))
	if err != nil {
		return err
	}
	for _, dir := range old {
		_ = os.RemoveAll(dir)
	}

	temp, err := os.MkdirTemp(c.Dir, unfinished)
	if err != nil {
		return err
	}

	err = c.id.chown(temp)
	if err == nil {
		err = c.initdb(ctx, temp)
	}
	if err == nil {
		err = c.single(ctx, temp, "CREATE DATABASE "+database)
	}
	if err == nil {
		_ = os.Remove(c.data) // an empty folder may exist
		err = os.Rename(temp, c.data)
	}

	if err != nil {
		_ = os.RemoveAll(temp)
		return fmt.Errorf("create the data directory: %w", err)
	}
	return nil
}

// initdb creates the data directory. Fast (for tests) gives up durability, checksums and passwords on the socket.
func (c *cluster) initdb(ctx context.Context, data string) error {
	args := []string{
		"-D", data, "-U", role, "-E", "UTF8", "--locale=C",
		"--pwfile=" + c.passwordFile(), "--auth=scram-sha-256",
	}

	if c.Fast {
		args = append(args, "--no-sync", "--auth-local=trust")
	} else {
		args = append(args, "--data-checksums")
	}
	return execute(command(ctx, c.id, c.Dir, c.bin.initdb(), args...), "")
}

// single executes one statement in single-user mode. No server may run.
func (c *cluster) single(ctx context.Context, data, statement string) error {
	args := []string{"--single", "-D", data, "-c", "exit_on_error=on"}
	if c.Fast {
		args = append(args, "-F")
	}
	return execute(command(ctx, c.id, c.Dir, c.bin.postgres(), append(args, "postgres")...), statement+"\n")
}

// chooseAddress chooses a socket or, if that is impossible, a loopback port.
func (c *cluster) chooseAddress(password string) error {
	host, port := "", "5432"
	sockets := ""
	dir, err := c.makeSocketDir()
	if err == nil {
		c.socketDir = dir
		c.network, c.address = "unix", filepath.Join(dir, socketName)
		sockets = `"` + strings.ReplaceAll(dir, `"`, `""`) + `"`
	} else {
		c.Logger.Debug("no unix socket for postgres; using a loopback port", "reason", err)
		if port, err = freePort(); err != nil {
			return err
		}
		host = "127.0.0.1"
		c.network, c.address = "tcp", net.JoinHostPort(host, port)
	}
	c.url = serverURL(password, c.socketDir, host, port)

	settings := []string{
		"listen_addresses=" + host,
		"port=" + port,
		"unix_socket_directories=" + sockets,
		"max_locks_per_transaction=256",
		"logging_collector=off",
		"log_destination=stderr",
	}
	if c.Fast {
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

// start starts a postmaster and waits until it accepts connections.
func (c *cluster) start(ctx context.Context) (*process, error) {
	deadline := time.Now().Add(graceForMemory)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if err := stopOld(ctx, c.data, syscall.SIGINT, c.Logger); err != nil {
			return nil, err
		}
		c.clearSocket()
		p, err := c.tryStart(ctx)
		if !errors.Is(err, errMemoryInUse) || time.Now().After(deadline) || !sleep(ctx, wait) {
			return p, err
		}
	}
}

func (c *cluster) tryStart(ctx context.Context) (*process, error) {
	log, err := openLog(filepath.Join(c.Dir, "postgres.log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	begin, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}

	newLog := func() []byte {
		b, _ := io.ReadAll(io.NewSectionReader(log, begin, maxLog))
		return b
	}

	// The process outlives ctx, which limits only the start.
	cmd := command(context.WithoutCancel(ctx), c.id, c.Dir, c.bin.postgres(), c.args...)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := launch(cmd)
	if err != nil {
		return nil, err
	}

	for !ready(ctx, c.network, c.address) {
		select {
		case <-p.exited:
			err := errors.New(p.reason())
			if strings.Contains(string(newLog()), "shared memory block") {
				err = fmt.Errorf("%w: %w", errMemoryInUse, err)
			}
			return nil, withLog(err, newLog())
		case <-ctx.Done():
			p.quit()
			return nil, withLog(ctx.Err(), newLog())
		case <-time.After(pollInterval):
		}
	}
	return p, nil
}

// stopOld stops the processes of an earlier program on the data directory, the postmaster
// with sig. It removes a postmaster.pid that names an unrelated process: Postgres would take
// that process for a running server, for example after a reboot.
func stopOld(ctx context.Context, data string, sig syscall.Signal, log *slog.Logger) error {
	if pid := postmasterPID(data); pid > 0 {
		if isPostmaster(pid, data) {
			log.Warn("stopping the postgres that an earlier program left behind", "pid", pid, "data", data)
		}
		old := func() []int {
			if isPostmaster(pid, data) {
				return []int{pid}
			}
			return nil
		}
		if err := terminate(ctx, old, sig, graceForOld); err != nil {
			return fmt.Errorf("stop postgres %d, left behind in %s: %w", pid, data, err)
		}

		if postmasterPID(data) == pid {
			if err := os.Remove(filepath.Join(data, "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}

	left := func() []int { return orphans(data) }
	if err := terminate(ctx, left, syscall.SIGQUIT, graceBeforeKill); err != nil {
		return fmt.Errorf("end the processes left behind in %s: %w", data, err)
	}
	return nil
}

// terminate sends sig to the running processes and waits until there are none. After grace
// it kills them.
func terminate(ctx context.Context, running func() []int, sig syscall.Signal, grace time.Duration) error {
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

// postmasterPID returns the process id in postmaster.pid, or 0 if there is none.
func postmasterPID(data string) int {
	b, _ := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	line, _, _ := strings.Cut(string(b), "\n")
	pid, _ := strconv.Atoi(strings.TrimSpace(line))
	return max(pid, -pid) // negative in single-user mode
}

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
}

// resolve follows symbolic links, as the kernel does for a working directory.
func resolve(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}
