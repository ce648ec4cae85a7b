//go:build unix

package embedpg

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	socketName = ".s.PGSQL.5432"
	// maxSocketPath is the longest socket path that every system accepts, in bytes.
	maxSocketPath = 103
)

// makeSocketDir creates a private folder for the socket: next to the data if that path is
// short enough, else in a folder for temporary files, under a name derived from the path of
// the data.
func (c *cluster) makeSocketDir() (string, error) {
	if c.noSocket {
		return "", errors.New("not wanted")
	}

	name := fmt.Sprintf("actlog-%d-%.8x", os.Geteuid(), sha256.Sum256([]byte(c.data)))
	var errs []error
	for _, path := range []string{
		filepath.Join(c.Dir, "socket"),
		filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), name),
		filepath.Join(os.TempDir(), name),
		filepath.Join("/tmp", name),
	} {
		err := trySocketDir(path, c.id)
		if err == nil {
			return path, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", path, err))
	}
	return "", errors.Join(errs...)
}

func trySocketDir(path string, id identity) error {
	switch {
	case !filepath.IsAbs(path):
		return errors.New("not an absolute path")
	case len(path)+1+len(socketName) > maxSocketPath:
		return errors.New("path too long for a socket")
	case strings.Contains(path, ","):
		return errors.New("path contains a comma, which separates hosts in a URL")
	}

	if err := mkdir(path, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	ours := ownerOf(path) == os.Geteuid() || id.owns(path)
	if !info.IsDir() || info.Mode().Perm() != 0o700 || !ours {
		return errors.New("not a private folder of this user")
	}

	// Some file systems have no sockets.
	probe := filepath.Join(path, ".probe")
	_ = os.Remove(probe)
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", probe)
	if err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	return id.chown(path)
}

// clearSocket removes the files that a killed server left in the socket folder. Postgres
// would respect the old lock file if another process had the same process id by now.
func (c *cluster) clearSocket() {
	if c.socketDir != "" {
		_ = os.Remove(filepath.Join(c.socketDir, socketName))
		_ = os.Remove(filepath.Join(c.socketDir, socketName+".lock"))
	}
}

func (c *cluster) removeSocketDir() {
	c.clearSocket()
	_ = os.Remove(c.socketDir)
}

func freePort() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return strconv.Itoa(port), l.Close()
}
