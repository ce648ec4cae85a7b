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
	// maxSocketPath is what fits into the address of a socket on every system, in bytes.
	maxSocketPath = 103
)

// makeSocketDir makes a private folder for the socket: next to the data when the path
// is short enough, else among temporary files under a name that belongs to the data.
func (c *cluster) makeSocketDir() (string, error) {
	if c.noSocket {
		return "", errors.New("not wanted")
	}
	name := fmt.Sprintf("actlog-%d-%.8x", os.Geteuid(), sha256.Sum256([]byte(c.data)))
	var errs []error
	for _, path := range []string{
		filepath.Join(c.dir, "socket"),
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
		return errors.New("a comma separates hosts in a URL")
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	owner, _ := ownerOf(path)
	ours := owner == os.Geteuid() || id.chown && owner == id.uid
	if !info.IsDir() || info.Mode().Perm() != 0o700 || !ours {
		return errors.New("not a private folder of ours")
	}
	// Some mounts have no sockets.
	probe := filepath.Join(path, ".probe")
	_ = os.Remove(probe)
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", probe)
	if err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	return id.give(path)
}

// clearSocket removes what a killed server left in its socket folder, whose lock file
// Postgres would believe when another process has got its number.
func (c *cluster) clearSocket() {
	if c.socketDir != "" {
		_ = os.Remove(filepath.Join(c.socketDir, socketName))
		_ = os.Remove(filepath.Join(c.socketDir, socketName+".lock"))
	}
}

func (c *cluster) removeSocketDir() {
	c.clearSocket()
	if c.socketDir != "" {
		_ = os.Remove(c.socketDir)
	}
}

func freePort() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return strconv.Itoa(port), l.Close()
}

// quoted writes a path as an element of a list setting.
func quoted(path string) string {
	if path == "" {
		return ""
	}
	return `"` + strings.ReplaceAll(path, `"`, `""`) + `"`
}
