//go:build unix

package embedpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// role is not named after the schema: the default search_path contains the role's name.
	role     = "postgres"
	database = "actlog"

	maxRestartDelay = 10 * time.Second
	// A server that ran for longer than stableAfter is restarted without a delay.
	stableAfter = time.Minute
)

func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("no folder given")
	}

	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, err
	}
	c.Dir = dir
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))

	if c.BinDirs == nil {
		c.BinDirs = usualBinDirs()
	}
	if c.CacheDir == "" {
		c.CacheDir = filepath.Join(c.Dir, "cache")
		if dir, err := os.UserCacheDir(); err == nil {
			c.CacheDir = filepath.Join(dir, "actlog", "postgres")
		}
	}
	return c, nil
}

// Server is a running private Postgres. It is restarted whenever it exits, until Close.
type Server struct {
	cluster   *cluster
	lock      *os.File
	ballast   ballast
	temporary bool // Close removes the folder
	guard     *guard

	cancel   context.CancelFunc // ends supervise
	done     chan struct{}      // closed when supervise has ended
	close    sync.Once
	closeErr error

	process  atomic.Pointer[process] // nil while the server is down
	restarts atomic.Int64
}

// Start starts the Postgres in cfg.Dir and returns once it accepts connections. The first
// call creates the database. If a crashed program left a server running in the folder, Start
// stops and replaces it. After a crash of Postgres, Start waits for its recovery, which only
// ctx limits.
//
// The error wraps ErrInUse if another program uses the folder, and ErrNoPostgres if there
// are no server binaries.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err == nil {
		// The parents stay open to others, in case Postgres has to run as another user.
		err = os.MkdirAll(filepath.Dir(cfg.Dir), 0o755)
	}
	if err == nil {
		err = mkdir(cfg.Dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}

	lock, err := lockFile(filepath.Join(cfg.Dir, "lock"), false)
	if err != nil {
		return nil, fmt.Errorf("start postgres: folder %s: %w", cfg.Dir, err)
	}
	return start(ctx, cfg, lock, false)
}

func mkdir(dir string, mode os.FileMode) error {
	if err := os.Mkdir(dir, mode); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// start starts the server in cfg.Dir and takes over the lock, also if it fails.
func start(ctx context.Context, cfg Config, lock *os.File, temporary bool) (*Server, error) {
	spare := ballast{dir: cfg.Dir, size: cfg.Ballast, log: cfg.Logger}
	spare.giveUp()

	c, err := openCluster(ctx, cfg)
	var p *process
	if err == nil {
		p, err = c.start(ctx)
	}
	if err != nil {
		if temporary {
			_ = os.RemoveAll(cfg.Dir)
		}
		unlockFile(lock)
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	cfg.Logger.Info("postgres started", "version", c.bin.version, "pid", p.pid(), "dir", cfg.Dir)

	life, cancel := context.WithCancel(context.Background())
	spare.ensure()
	s := &Server{cluster: c, lock: lock, ballast: spare, temporary: temporary, cancel: cancel, done: make(chan struct{})}
	s.process.Store(p)
	go s.supervise(life, p)
	return s, nil
}

// URL returns the address of database "actlog" on this server, for pgx and psql. Restarts
// do not change it.
func (s *Server) URL() string { return s.cluster.url }

// Version returns the version of the server binaries, such as "15.14".
func (s *Server) Version() string { return s.cluster.bin.version }

// PID returns the process id of the postmaster, or 0 while the server is down.
func (s *Server) PID() int {
	if p := s.process.Load(); p != nil {
		return p.pid()
	}
	return 0
}

// Restarts returns how often the server was restarted.
func (s *Server) Restarts() int { return int(s.restarts.Load()) }

// Close ends all sessions, stops the server and waits for it to exit. If ctx ends first,
// Close stops the server at once and returns an error: no committed data is lost, but the
// next start needs a recovery. Further calls return the same error.
func (s *Server) Close(ctx context.Context) error {
	s.close.Do(func() {
		s.cancel()
		<-s.done
		if p := s.process.Load(); p != nil && s.temporary {
			p.quit()
		} else if p != nil {
			s.closeErr = p.stop(ctx)
		}

		s.cluster.removeSocketDir()
		if s.temporary {
			s.closeErr = os.RemoveAll(s.cluster.Dir)
		}
		s.guard.dismiss()
		unlockFile(s.lock)
		s.cluster.Logger.Info("postgres stopped", "dir", s.cluster.Dir)
	})
	return s.closeErr
}

// supervise restarts the server each time it exits. The delay between attempts grows while
// the server does not stay up.
func (s *Server) supervise(life context.Context, p *process) {
	defer close(s.done)
	var delay time.Duration
	ballastDue := time.NewTicker(keepBallastEvery)
	defer ballastDue.Stop()

	for {
		select {
		case <-life.Done():
			return
		case <-ballastDue.C:
			s.ballast.ensure()
			continue
		case <-p.exited:
		}

		s.process.Store(nil)
		if time.Since(p.started) > stableAfter {
			delay = 0
		}
		s.cluster.Logger.Warn("postgres exited; restarting it", "pid", p.pid(), "reason", p.reason(), "dir", s.cluster.Dir)

		for p = nil; p == nil; {
			if !sleep(life, delay) {
				return
			}
			delay = min(max(2*delay, 100*time.Millisecond), maxRestartDelay)
			s.ballast.giveUp()
			var err error
			p, err = s.cluster.start(life)
			if err != nil && life.Err() == nil {
				s.cluster.Logger.Error("restart postgres failed", "error", err, "next_attempt_in", delay, "dir", s.cluster.Dir)
			}
		}

		s.process.Store(p)
		s.restarts.Add(1)
		s.cluster.Logger.Info("postgres restarted", "pid", p.pid(), "restarts", s.Restarts(), "dir", s.cluster.Dir)
	}
}

// sleep waits for d. It reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// lockFile creates and locks a file. Without wait, it returns ErrInUse if another process holds the lock. The kernel
// releases the lock when this process ends, even after a crash.
func lockFile(path string, wait bool) (*os.File, error) {
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}

	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}

	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrInUse
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// unlockFile releases a lock. Closing the file would not be enough: a process that is being
// forked at this moment may have inherited it.
func unlockFile(lock *os.File) {
	_ = syscall.Flock(int(lock.Fd()), syscall.LOCK_UN)
	_ = lock.Close()
}
