package embedpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// StartTemp starts a throw-away server in a folder of its own, in memory where there is
// room; cfg.Dir is not looked at. Close removes the folder. Servers that crashed
// programs left behind are cleared away on the occasion.
func StartTemp(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	dir, lock, err := makeTempDir(ctx, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("starting postgres: %w", err)
	}
	cfg.Dir = dir
	s, err := startTemp(ctx, cfg, lock)
	if err != nil {
		_ = os.RemoveAll(dir)
		release(lock)
		return nil, fmt.Errorf("starting postgres: %w", err)
	}
	return s, nil
}

func startTemp(ctx context.Context, cfg Config, lock *os.File) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, cfg, lock)
	if err != nil {
		return nil, err
	}
	s.remove = cfg.Dir
	return s, nil
}

// makeTempDir makes and locks a folder below one of this user's, where it stands until
// its lock is free.
func makeTempDir(ctx context.Context, log *slog.Logger) (string, *os.File, error) {
	base := memoryDir()
	if base == "" || syscall.Access(base, 7) != nil {
		base = os.TempDir()
	}
	parent := filepath.Join(base, "actlog-pg-"+strconv.Itoa(os.Geteuid()))
	// Others may pass through: Postgres runs as another user where root may not use namespaces.
	if err := os.Mkdir(parent, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return "", nil, err
	}
	if info, err := os.Lstat(parent); err != nil {
		return "", nil, err
	} else if owner, _ := ownerOf(parent); !info.IsDir() || owner != os.Geteuid() {
		return "", nil, fmt.Errorf("%s is not a folder of ours", parent)
	}

	// Between making and locking a folder nobody may take it for a stale one.
	gate, err := os.OpenFile(filepath.Join(parent, "gate"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, err
	}
	defer release(gate)
	if err := syscall.Flock(int(gate.Fd()), syscall.LOCK_EX); err != nil {
		return "", nil, fmt.Errorf("locking %s: %w", gate.Name(), err)
	}
	sweep(ctx, parent, log)
	dir, err := os.MkdirTemp(parent, "")
	if err != nil {
		return "", nil, err
	}
	lock, err := acquire(filepath.Join(dir, "lock"))
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// sweep removes the folders whose program is gone, and ends their servers.
func sweep(ctx context.Context, parent string, log *slog.Logger) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		lock, err := acquire(filepath.Join(dir, "lock"))
		if err != nil {
			continue
		}
		err = clearOld(ctx, filepath.Join(dir, "data"), syscall.SIGQUIT, log)
		if err == nil {
			err = os.RemoveAll(dir)
		}
		if err != nil {
			log.Warn("a stale test server stays", "dir", dir, "error", err)
		}
		release(lock)
	}
}
