package main

import (
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/actlog/actlog/internal/testkit/pgtest"
)

// modelOf returns the commands and flags of the program.
func modelOf(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := kong.New(new(cli), kong.DefaultEnvars("ACTLOG"), kong.Vars{"version": "", "server": ""})
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

// flagsOf calls each for the flags of all commands that have a variable.
func flagsOf(node *kong.Node, each func(command string, flag *kong.Flag)) {
	for _, flag := range node.Flags {
		if len(flag.Envs) > 0 {
			each(node.FullPath(), flag)
		}
	}
	for _, child := range node.Children {
		flagsOf(child, each)
	}
}

// F11: a variable that two commands share means the same to both. So one environment may start all of them.
func TestAVariableHasOneMeaning(t *testing.T) {
	t.Parallel()
	// What the server listens on, how many workers it starts and so on is for that command alone. For these it was looked
	// at.
	same := map[string]string{
		"ACTLOG_DATA_DIR": "the same folder", "ACTLOG_API_KEYS": "the same file",
	}

	first := map[string]*kong.Flag{}
	where := map[string]string{}
	flagsOf(modelOf(t).Node, func(command string, flag *kong.Flag) {
		name := flag.Envs[0]
		before, seen := first[name]
		if !seen {
			first[name], where[name] = flag, command
			return
		}

		if before.Help != flag.Help && same[name] == "" &&
			(strings.Contains(where[name], "serve") || strings.Contains(command, "serve")) {
			t.Errorf("%s is %q for %s, and %q for %s", name, before.Help, where[name], flag.Help, command)
		}
	})
}

// serveEnvironment sets every variable of serve.
func serveEnvironment(t *testing.T, database string) (variables map[string]string, key string) {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	key = strings.TrimSpace(must(t, "key", "all", "--scopes", "read,write,run,decide", "--file", keys))
	variables = map[string]string{
		"ACTLOG_LISTEN": freeAddress(t), "ACTLOG_OTLP_LISTEN": freeAddress(t), "ACTLOG_OTLP_GRPC_LISTEN": freeAddress(t),
		"ACTLOG_OTLP_ORIGINS":    "https://shop.example",
		"ACTLOG_MAX_CONNECTIONS": "100", "ACTLOG_MAX_STREAMS": "100", "ACTLOG_DRAIN_DELAY": "1ms",
		"ACTLOG_DETAIL_DAYS": "100", "ACTLOG_KEEP_DAYS": "100",
		"ACTLOG_INTERRUPT_AFTER": "15m", "ACTLOG_TRACE_DAYS": "3", "ACTLOG_TRACE_QUIET": "10m", "ACTLOG_BALLAST": "0",
		"ACTLOG_WORKERS": "0", "ACTLOG_REPORT_URL": database,
		"ACTLOG_REPLICA_URL": database, "ACTLOG_REPLICA_LAG": "5s", "ACTLOG_API_KEYS": keys, "ACTLOG_INSECURE": "true",
		"ACTLOG_ALLOWED_HOSTS": "actlog.example",
		"ACTLOG_TRUSTED_PROXY": "10.0.0.0/8", "ACTLOG_CONFIG": writeConfig(t, emptyConfig), "ACTLOG_SLOTS": "10",
		"ACTLOG_DRAIN": "2s", "ACTLOG_WAIT_FOR_DATABASE": "1m",
		"ACTLOG_DIRECT_URL": database, "ACTLOG_DATABASE_URL": database, "ACTLOG_DATA_DIR": t.TempDir(),
		"ACTLOG_LOG_LEVEL": "info",
	}

	flagsOf(modelOf(t).Node, func(command string, flag *kong.Flag) {
		if _, set := variables[flag.Envs[0]]; !set && (command == "actlog serve" || command == "actlog") {
			t.Errorf("the test does not set %s", flag.Envs[0])
		}
	})
	return variables, key
}

// beginIn is begin with variables.
func beginIn(t *testing.T, variables map[string]string, args ...string) *program {
	t.Helper()
	env := []string{"env"}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		env = append(env, name+"="+variables[name])
	}
	env = append(env, os.Args[0])

	path, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	return beginFile(t, path, append(env[1:], args...)...)
}

// F11: demo, serve and work are started from one environment in which every variable of serve is set.
func TestOneEnvironment(t *testing.T) {
	t.Parallel()
	variables, key := serveEnvironment(t, pgtest.Empty(t).URL)
	base := "http://" + variables["ACTLOG_LISTEN"]

	// At the same address as serve, so before it.
	demo := beginIn(t, variables, "demo", "--once", "--pace", "1ms")
	demo.served(t)
	if err := demo.cmd.Wait(); err != nil {
		t.Fatalf("demo.cmd.Wait() = %v\n%s", err, demo.stderr)
	}

	server := beginIn(t, variables, "serve")
	server.served(t)
	if server.url != base {
		t.Errorf("serve listens on %s, not %s", server.url, base)
	}

	worker := beginIn(t, variables, "work")
	worker.says(t, "actlog runs agents with")
	if strings.Contains(worker.stderr.String(), "with 0 workers") {
		t.Errorf("the worker took the number of the server:\n%s", worker.stderr)
	}

	if got := status(t, http.DefaultClient, base+"/api/v1/plans", key); got != http.StatusOK {
		t.Errorf("status %d", got)
	}
	worker.terminate(t)
	server.terminate(t)

	variables["ACTLOG_WORKER_LISTEN"] = freeAddress(t)
	worker = beginIn(t, variables, "work")
	untilAnswer(t, "http://"+variables["ACTLOG_WORKER_LISTEN"]+"/livez", http.StatusOK, "ok")
	worker.terminate(t)
}

// F6: an empty variable counts as one that is not set.
func TestEmptyVariables(t *testing.T) {
	t.Parallel()
	variables, _ := serveEnvironment(t, "")
	for name := range variables {
		variables[name] = ""
	}

	variables["ACTLOG_SERVER"] = ""
	p := beginIn(t, variables, "serve", "--listen", "127.0.0.1:0", "--otlp-listen", "off", "--database-url",
		pgtest.Empty(t).URL)
	p.served(t)
	p.terminate(t)

	p = beginIn(t, variables, "ready", "--server", "http://127.0.0.1:1")
	if err := p.cmd.Wait(); err == nil || strings.Contains(p.stderr.String(), "level") {
		t.Errorf("p.cmd.Wait() = %v\n%s", err, p.stderr)
	}
}
