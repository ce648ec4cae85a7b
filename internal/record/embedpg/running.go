//go:build unix

package embedpg

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Made reports whether dir holds the data of a private Postgres, running or not. The error says
// why that cannot be seen.
func Made(dir string) (bool, error) {
	major, err := dataVersion(filepath.Join(dir, "data"))
	return major > 0, err
}

// RunningURL returns the address of the server that another program runs in dir, like
// [Server.URL]. If no server runs there, the error wraps [os.ErrNotExist].
func RunningURL(dir string) (string, error) {
	pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return "", fmt.Errorf("no postgres runs in %s: %w", dir, err)
	}
	password, err := os.ReadFile(filepath.Join(dir, "password"))
	if err != nil {
		return "", err
	}

	// The lines: process, data directory, start time, port, socket folder, address.
	lines := strings.Split(string(pid), "\n")
	if len(lines) < 6 {
		return "", fmt.Errorf("the postgres in %s is still starting", dir)
	}
	return serverURL(strings.TrimSpace(string(password)), lines[4], lines[5], lines[3]), nil
}

// serverURL returns the URL of a server that listens on a socket or, if socketDir is "", on
// host.
func serverURL(password, socketDir, host, port string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, password), Path: "/" + database}
	query := url.Values{"sslmode": {"disable"}}
	if socketDir != "" {
		query.Set("host", socketDir)
		query.Set("port", port)
	} else {
		u.Host = net.JoinHostPort(host, port)
	}

	u.RawQuery = query.Encode()
	return u.String()
}
