// Package embedpg starts a private Postgres when no database is configured, and
// keeps it running until it is closed.
package embedpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	// role is not called after the schema, which would put that into its search_path.
	role     = "postgres"
	database = "actlog"

	maxRestartDelay = 10 * time.Second
	// stableAfter is how long a server has to live for its next restart to be immediate.
	stableAfter = time.Minute
)

var (
	// ErrNoPostgres says that no fitting server binaries could be found or fetched.
	// The error that wraps it names the ways out.
	ErrNoPostgres = errors.New("no PostgreSQL server binaries")

	// ErrInUse says that another running program holds the folder.
	ErrInUse = errors.New("in use by another program")
)

// Config says where the private Postgres lives and how it is started.
type Config struct {
	// Dir holds everything that belongs to the server: the data directory, the password
	// file, the log, the lock. It is made with mode 0700 when missing; nothing that is
	// data is ever removed from it. Required.
	Dir string

	// Logger hears of starts, restarts and stops. Default: discards.
	Logger *slog.Logger

	// Fast gives up durability for speed: no fsync, no checksums, no password on the
	// socket. For tests only.
	Fast bool

	// BinDirs are folders, or glob patterns of folders, searched for initdb and postgres.
	// Default: PATH, then the usual places of Debian, RHEL and Homebrew.
	BinDirs []string

	// CacheDir keeps downloaded server binaries, one folder a version.
	// Default: actlog/postgres in the user's cache folder.
	CacheDir string

	// Offline forbids the download of server binaries.
	Offline bool

	// What tests set to be where things are otherwise.
	repository string // of downloads
	noSocket   bool
}

func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("no folder given")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, err
	}
	c.Dir = dir
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
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

// Server is a running private Postgres. It is started again whenever it dies,
// until Close.
type Server struct {
	cluster *cluster
	log     *slog.Logger
	lock    *os.File
	remove  string // folder of a throw-away server, removed on Close

	cancel context.CancelFunc // ends supervision
	done   chan struct{}      // supervision has ended
	close  sync.Once
	err    error // of Close

	mu       sync.Mutex
	process  *process // nil while it is down
	restarts int
}

// Start brings up the Postgres of cfg.Dir, making it on the first call, and returns
// once it accepts connections. A server that a crashed program left behind on the
// folder is stopped and replaced; after a crash of Postgres itself this includes its
// recovery, which only ctx bounds.
//
// The error wraps ErrInUse when another program holds the folder, ErrNoPostgres when
// there are no server binaries.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("starting postgres: %w", err)
	}
	if err := makeDir(cfg.Dir); err != nil {
		return nil, fmt.Errorf("starting postgres: %w", err)
	}
	lock, err := acquire(filepath.Join(cfg.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("starting postgres: folder %s: %w", cfg.Dir, err)
	}
	s, err := start(ctx, cfg, lock)
	if err != nil {
		release(lock)
		return nil, fmt.Errorf("starting postgres: %w", err)
	}
	return s, nil
}

// makeDir makes a private folder. What it lies in stays open, for when Postgres has to
// run as another user.
func makeDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

func start(ctx context.Context, cfg Config, lock *os.File) (*Server, error) {
	c, err := openCluster(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p, err := c.start(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Logger.Info("postgres started", "version", c.bin.version, "pid", p.pid(), "dir", cfg.Dir)

	life, cancel := context.WithCancel(context.Background())
	s := &Server{cluster: c, log: cfg.Logger, lock: lock, cancel: cancel, done: make(chan struct{}), process: p}
	go s.supervise(life, p)
	return s, nil
}

// URL is the address of database "actlog" on this server, for pgx and psql alike.
// It stays the same for as long as the server lives, restarts included.
func (s *Server) URL() string { return s.cluster.url }

// Version is the version of the server binaries, such as "15.14".
func (s *Server) Version() string { return s.cluster.bin.version }

// PID is the process id of the postmaster, 0 while it is down.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.pid()
}

// Restarts is how often the server had to be started again.
func (s *Server) Restarts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restarts
}

// Close ends sessions, stops the server and waits for it. When ctx ends first, the
// server is stopped the hard way, which costs it a recovery at its next start but no
// committed data, and the error says so. Further calls return the same.
func (s *Server) Close(ctx context.Context) error {
	s.close.Do(func() {
		s.cancel()
		<-s.done
		if p := s.process; p != nil {
			if s.remove != "" {
				p.quit()
			} else if err := p.stop(ctx); err != nil {
				s.err = fmt.Errorf("stopping postgres: %w", err)
			}
		}
		s.cluster.removeSocketDir()
		if s.remove != "" {
			s.err = errors.Join(s.err, os.RemoveAll(s.remove))
		}
		release(s.lock)
		s.log.Info("postgres stopped", "dir", s.cluster.dir)
	})
	return s.err
}

// supervise starts the server again each time it exits, with growing delays while it
// keeps failing.
func (s *Server) supervise(life context.Context, p *process) {
	defer close(s.done)
	var delay time.Duration
	for {
		select {
		case <-life.Done():
			return
		case <-p.exited:
		}
		s.setProcess(nil)
		if time.Since(p.started) > stableAfter {
			delay = 0
		}
		s.log.Warn("postgres died, starting it again", "pid", p.pid(), "reason", p.reason(), "dir", s.cluster.dir)

		for restarted := false; !restarted; {
			if !sleep(life, delay) {
				return
			}
			delay = min(max(2*delay, 100*time.Millisecond), maxRestartDelay)
			next, err := s.cluster.start(life)
			switch {
			case err == nil:
				p, restarted = next, true
			case life.Err() != nil:
				return
			default:
				s.log.Error("postgres does not start", "error", err, "next_attempt_in", delay, "dir", s.cluster.dir)
			}
		}
		s.setProcess(p)
		s.log.Info("postgres is back", "pid", p.pid(), "restarts", s.Restarts(), "dir", s.cluster.dir)
	}
}

func (s *Server) setProcess(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = p
	if p != nil {
		s.restarts++
	}
}

// sleep waits for d and says whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// acquire takes the lock file at path, which the kernel frees when this program ends
// in whatever way.
func acquire(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrInUse
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return f, nil
}

// release frees a lock. Closing alone would leave it to a process that is being forked
// off at the same moment.
func release(lock *os.File) {
	_ = syscall.Flock(int(lock.Fd()), syscall.LOCK_UN)
	_ = lock.Close()
}
