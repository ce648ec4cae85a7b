package embedpg

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// RunningURL is the address of the server that another program runs on dir, as its
// [Server.URL]. The error says that there is none, [os.ErrNotExist] with it.
func RunningURL(dir string) (string, error) {
	pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return "", fmt.Errorf("no postgres runs on %s: %w", dir, err)
	}
	password, err := os.ReadFile(filepath.Join(dir, "password"))
	if err != nil {
		return "", err
	}
	// Its lines: process, data directory, start, port, socket directory, address.
	lines := strings.Split(string(pid), "\n")
	if len(lines) < 6 {
		return "", fmt.Errorf("the postgres on %s is only starting", dir)
	}
	port, socket, host := lines[3], lines[4], lines[5]
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, strings.TrimSpace(string(password))), Path: "/" + database}
	if socket != "" {
		u.RawQuery = url.Values{"host": {socket}, "port": {port}}.Encode()
	} else {
		u.Host = net.JoinHostPort(host, port)
		u.RawQuery = "sslmode=disable"
	}
	return u.String(), nil
}
