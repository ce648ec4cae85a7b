package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

func TestKey(t *testing.T) {
	t.Parallel()
	secret := regexp.MustCompile(`^actlog_[A-Za-z0-9_-]{43}\n$`)
	code, stdout, stderr := actlog(t, "key", "ci")
	if code != exitDone || !secret.MatchString(stdout) ||
		!regexp.MustCompile(`^ci:[0-9a-f]{64}:write,read\n$`).MatchString(stderr) {
		t.Errorf("code = %d %q %q", code, stdout, stderr)
	}

	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("# ours"), 0o600); err != nil { // without a line break at the end
		t.Fatal(err)
	}

	for _, name := range []string{"a", "b"} {
		code, stdout, stderr := actlog(t, "key", name, "--scopes", "read,admin", "--file", file)
		if code != exitDone || !secret.MatchString(stdout) || strings.Contains(stderr, "actlog_") ||
			strings.Contains(stderr, ":read") {
			t.Errorf("code = %d %q %q", code, stdout, stderr)
		}
	}
	if keys, err := (&guardFlags{APIKeys: file}).keys(); err != nil || keys.Len() != 2 {
		t.Errorf("keys = %v, %v", keys, err)
	}

	made := filepath.Join(t.TempDir(), "new")
	actlog(t, "key", "a", "--file", made)
	if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("info = %v, %v", info, err)
	}

	for _, bad := range [][]string{{"key"}, {"key", "a:b"}, {"key", "a", "--scopes", "all"}} {
		if code, stdout, _ := actlog(t, bad...); code != exitUsage || strings.HasPrefix(stdout, "actlog_") {
			t.Errorf("%q: exit code %d, %q", bad, code, stdout)
		}
	}
}

// status returns the status of a GET with a key.
func status(t *testing.T, client *http.Client, url, key string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}

	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestServeWithKeys reloads the keys on SIGHUP, and expects the previous ones to stay in force
// after an invalid file. During --drain-delay, /readyz answers 503 and requests still work.
func TestServeWithKeys(t *testing.T) {
	t.Parallel()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	file := filepath.Join(t.TempDir(), "keys")
	newKey := func() string {
		_, stdout, _ := actlog(t, "key", "ops", "--file", file)
		return strings.TrimSpace(stdout)
	}

	first := newKey()
	db := pgtest.Empty(t).URL
	if code, _, stderr := actlog(t, "serve", "--listen", "0.0.0.0:0", "--database-url", db, "--api-keys",
		file+"-none"); code != exitFailed || !strings.Contains(stderr, "keys-none") {
		t.Errorf("exit code %d: %s", code, stderr)
	}

	p := start(t, "serve", "--listen", "0.0.0.0:0", "--database-url", db, "--api-keys", file, "--drain-delay", "1h")
	url := strings.Replace(p.url, "[::]", "127.0.0.1", 1)
	if got := [3]int{
		status(t, client, url+"/api/v1/plans", ""), status(t, client, url+"/api/v1/plans", first),
		status(t, client, url+"/readyz", ""),
	}; got != [3]int{401, 200, 200} {
		t.Errorf("without a key, with one, readyz: %v", got)
	}

	if code, _, stderr := actlog(t, "show", "plan-1", "--server", url); code != exitFailed ||
		!strings.Contains(stderr, "ACTLOG_API_KEY") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if code, _, stderr := actlog(t, "show", "plan-1", "--server", url, "--api-key", first); code != exitFailed ||
		!strings.Contains(stderr, "not on record") {
		t.Errorf("exit code %d: %s", code, stderr)
	}

	hup := func() {
		t.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	second := newKey()
	hup()
	storetest.Until(t, "the second key opens", func() bool {
		return status(t, client, url+"/api/v1/plans", second) == http.StatusOK
	})

	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(good, "oops"...), 0o600); err != nil {
		t.Fatal(err)
	}

	hup()
	p.says(t, "line 3")
	for _, key := range []string{first, second} {
		if got := status(t, client, url+"/api/v1/plans", key); got != http.StatusOK {
			t.Errorf("after an invalid file: %d", got)
		}
	}

	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	storetest.Until(t, "the server drains", func() bool {
		return status(t, client, url+"/readyz", "") == http.StatusServiceUnavailable
	})
	if got := status(t, client, url+"/api/v1/plans", first); got != http.StatusOK {
		t.Errorf("during --drain-delay: %d", got)
	}

	for _, secret := range []string{first, second, first[7:]} {
		if strings.Contains(p.stderr.String(), secret) {
			t.Error("the log contains a key")
		}
	}
	p.kill(t)
}

// TestKeysAreReadAgain changes the file of keys in all ways in which people and programs do, and sends no signal.
func TestKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	dir := t.TempDir()
	file := filepath.Join(dir, "keys")

	newKey := func(to string) string {
		_, stdout, _ := actlog(t, "key", filepath.Base(to), "--scopes", "read", "--file", filepath.Join(dir, to))
		return strings.TrimSpace(stdout)
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	current := newKey("first")
	do(os.Symlink("first", file)) // as a secret is mounted
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--otlp-listen", "off", "--database-url", pgtest.Empty(t).URL,
		"--api-keys", file)
	for what, change := range map[string]func() string{
		"it is written": func() string {
			key := newKey("written")
			text, err := os.ReadFile(filepath.Join(dir, "written"))
			do(err)
			do(os.WriteFile(file, text, 0o600))
			return key
		},
		"another file takes its name": func() string {
			key := newKey("renamed")
			do(os.Rename(filepath.Join(dir, "renamed"), file))
			return key
		},
		"a link points elsewhere": func() string {
			key := newKey("linked")
			do(os.Symlink("linked", file+".new"))
			do(os.Rename(file+".new", file))
			return key
		},
	} {
		before := current
		current = change()
		storetest.Until(t, "the new key opens", func() bool {
			return status(t, client, p.url+"/api/v1/plans", current) == http.StatusOK
		})
		if got := status(t, client, p.url+"/api/v1/plans", before); got != http.StatusUnauthorized {
			t.Errorf("%s: the key that is gone: %d", what, got)
		}
	}

	do(os.Remove(file))
	p.says(t, "could not reload the API keys")
	if got := status(t, client, p.url+"/api/v1/plans", current); got != http.StatusOK {
		t.Errorf("without a file: %d", got)
	}
	p.terminate(t)
}

// TestKeysThatChangeWhileTheServerWaits changes the file of keys while the server has no database.
func TestKeysThatChangeWhileTheServerWaits(t *testing.T) {
	t.Parallel()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	file := filepath.Join(t.TempDir(), "keys")
	newKey := func() string { return strings.TrimSpace(must(t, "key", "one", "--scopes", "read", "--file", file)) }

	before := newKey()
	late := newLatecomer(t, pgtest.Empty(t).URL)
	p := begin(t, "serve", "--listen", "127.0.0.1:0", "--otlp-listen", "off", "--database-url", late.url, "--api-keys",
		file)
	storetest.Until(t, "the server waits", func() bool {
		return strings.Contains(p.stderr.String(), "waiting for the database")
	})

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	after := newKey()
	late.arrives(t)
	p.served(t)

	storetest.Until(t, "the new key is good", func() bool {
		return status(t, client, p.url+"/api/v1/plans", after) == http.StatusOK
	})
	if got := status(t, client, p.url+"/api/v1/plans", before); got != http.StatusUnauthorized {
		t.Errorf("the key that is gone: %d", got)
	}
	p.terminate(t)
}

func TestVersion(t *testing.T) {
	t.Parallel()
	_, flag, _ := actlog(t, "--version")
	code, command, _ := actlog(t, "version")
	if code != exitDone || command != flag || !strings.HasPrefix(command, "actlog ") {
		t.Errorf("exit code %d: %q, the flag prints %q", code, command, flag)
	}

	_, text, _ := actlog(t, "version", "--json")
	var v struct{ Version, Go, OS, Arch string }
	if err := json.Unmarshal([]byte(text), &v); err != nil || v.Go == "" || v.OS == "" || v.Arch == "" ||
		"actlog "+v.Version != strings.TrimSpace(flag) {
		t.Errorf("%s: %v", text, err)
	}
}
