// Package peer is how the benchmark speaks with a program that runs agents: it reads commands from standard input, a
// line each, and writes an answer as a line of JSON. When there are no more commands, the program ends.
package peer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Cycles is how often an agent thinks and then calls a tool.
const Cycles = 10

// Peer is what such a program can do.
type Peer struct {
	// Version is of the engine.
	Version string
	// Server is the process id of a server that does the work of Postgres, or 0.
	Server int
	// Run runs an agent until its end is durable. Runs are made at the same time.
	Run func(id string) error
}

// Script has what model and tool answer.
type Script struct{ Answers, Results []string }

var (
	script    Script
	next, got atomic.Int64
	firstCall atomic.Int64
)

// Think is the call of a model.
func Think() string {
	firstCall.CompareAndSwap(0, time.Now().UnixNano())
	return script.Answers[int(next.Add(1))%len(script.Answers)]
}

// Look is the call of a tool.
func Look() string { return script.Results[int(got.Add(1))%len(script.Results)] }

// Bare is a run without a record.
func Bare() (texts []string) {
	for range Cycles {
		texts = append(texts, Think(), Look())
	}
	return texts
}

// Serve does what the benchmark commands.
func (p Peer) Serve() error {
	content, err := os.ReadFile(os.Getenv("PEER_SCRIPT"))
	if err == nil {
		err = json.Unmarshal(content, &script)
	}
	if err != nil {
		return err
	}

	answer := json.NewEncoder(os.Stdout)
	if err := answer.Encode(map[string]any{"version": p.Version, "server": p.Server}); err != nil {
		return err
	}

	nth := 0
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		var what string
		var runs int
		if _, err := fmt.Sscan(commands.Text(), &what, &runs); err != nil {
			return fmt.Errorf("command %q: %w", commands.Text(), err)
		}

		start := time.Now()
		firstCall.Store(0)
		switch what {
		case "bare":
			for range runs {
				Bare()
			}
		case "carry":
			ended := make(chan error, runs)
			for range runs {
				nth++
				id := fmt.Sprintf("%d-%d", os.Getpid(), nth)
				go func() { ended <- p.Run(id) }()
			}
			var errs []error
			for range runs {
				errs = append(errs, <-ended)
			}
			if err := errors.Join(errs...); err != nil {
				return err
			}
		}

		took := time.Since(start)
		first := time.Unix(0, firstCall.Load()).Sub(start)
		if err := answer.Encode(map[string]any{"took": took.Seconds(), "first": first.Seconds()}); err != nil {
			return err
		}
	}
	return nil
}

// VersionOf returns the version of a module that is linked into this program.
func VersionOf(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version[1:]
		}
	}
	return "unknown"
}
