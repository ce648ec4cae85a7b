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
	"strconv"
	"syscall"
)

// StartTemp starts a temporary server in a folder of its own, in memory if there is room. It
// ignores cfg.Dir. Close removes the folder. StartTemp also removes the temporary servers
// that crashed programs of this user left behind.
func StartTemp(ctx context.Context, cfg Config) (*Server, error) {
	dir, lock, err := makeTempDir(ctx, cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}

	cfg.Dir = dir
	if cfg, err = cfg.withDefaults(); err != nil {
		unlockFile(lock)
		return nil, fmt.Errorf("start postgres: %w", err)
	}

	var watches *guard
	if cfg.Guarded {
		if watches, err = newGuard(dir); err != nil {
			unlockFile(lock)
			return nil, errors.Join(fmt.Errorf("start postgres: %w", err), os.RemoveAll(dir))
		}
	}

	s, err := start(ctx, cfg, lock, true)
	if err != nil {
		watches.dismiss()
		return nil, err
	}
	s.guard = watches
	return s, nil
}

// makeTempDir creates a folder and locks it. As long as it stays locked, no other program
// removes it.
func makeTempDir(ctx context.Context, log *slog.Logger) (dir string, lock *os.File, err error) {
	base := memoryDir()
	if base == "" || syscall.Access(base, 7) != nil {
		base = os.TempDir()
	}

	parent := filepath.Join(base, "actlog-pg-"+strconv.Itoa(os.Geteuid()))
	// Other users may enter: if root may not use namespaces, Postgres runs as another user.
	if err := mkdir(parent, 0o711); err != nil {
		return "", nil, err
	}
	if info, err := os.Lstat(parent); err != nil {
		return "", nil, err
	} else if !info.IsDir() || ownerOf(parent) != os.Geteuid() {
		return "", nil, fmt.Errorf("%s is not a folder of this user", parent)
	}

	// While this program holds the gate, no other program sweeps away a folder that is
	// created but not locked yet.
	gate, err := lockFile(filepath.Join(parent, "gate"), true)
	if err != nil {
		return "", nil, err
	}
	defer unlockFile(gate)

	sweep(ctx, parent, log)
	if dir, err = os.MkdirTemp(parent, ""); err != nil {
		return "", nil, err
	}
	if lock, err = lockFile(filepath.Join(dir, "lock"), false); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// sweep stops the servers whose program is gone and removes their folders.
func sweep(ctx context.Context, parent string, log *slog.Logger) {
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		lock, err := lockFile(filepath.Join(dir, "lock"), false)
		if err != nil {
			continue // in use, or not a folder
		}

		err = stopOld(ctx, filepath.Join(dir, "data"), syscall.SIGQUIT, log)
		if err == nil {
			err = os.RemoveAll(dir)
		}
		if err != nil {
			log.Warn("remove stale test server failed", "dir", dir, "error", err)
		}
		unlockFile(lock)
	}
}
