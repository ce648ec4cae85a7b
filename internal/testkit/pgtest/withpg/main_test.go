package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		code int
		err  string
	}{
		{"exit code", []string{"--", "sh", "-c", `case "$TEST_DATABASE_URL" in postgres*) exit 7;; esac`}, 7, ""},
		{"success", []string{"true"}, 0, ""},
		{"killed", []string{"sh", "-c", "kill -9 $$"}, 137, ""},
		{"signal", []string{"sh", "-c", "trap 'exit 9' TERM; kill -TERM $PPID; while :; do sleep 0.05; done"}, 9, ""},
		{"no such command", []string{"/no/such/command"}, 1, "no such file"},
		{"no command", []string{"--"}, 2, "usage"},
	} {
		t.Run(tt.name, func(t *testing.T) { // not in parallel: all commands would receive the signal
			code, err := run(tt.args)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}
