package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// attachedWorker is a worker in a process of its own. It ends when this process does, however that ends:
// with this process its stdin ends.
type attachedWorker struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	output lastWords
	wanted atomic.Bool // that it ends
	ended  chan struct{}
}

// attachWorker starts a worker. If it ends by itself, failed is called.
func attachWorker(dataDir, configFile, databaseURL string, failed func(error)) (*attachedWorker, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}

	w := &attachedWorker{ended: make(chan struct{})}
	w.cmd = exec.CommandContext(context.Background(), program, "work", "--attached", "--data-dir", dataDir, "--config",
		configFile, "--workers", "1", "--listen=", "--drain", "2s")
	w.cmd.Env = append(os.Environ(), "ACTLOG_DATABASE_URL="+databaseURL) // other users can see command lines
	w.cmd.Stdout, w.cmd.Stderr = &w.output, &w.output
	ownProcessGroup(w.cmd) // Ctrl-C at the terminal is for this process alone

	if w.stdin, err = w.cmd.StdinPipe(); err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}

	go func() {
		defer close(w.ended)
		_ = w.cmd.Wait()
		if !w.wanted.Load() {
			failed(errors.New(strings.TrimSpace(fmt.Sprintf("the worker ended (%s): %s", w.cmd.ProcessState, w.output))))
		}
	}()
	return w, nil
}

func (w *attachedWorker) pid() int { return w.cmd.Process.Pid }

// kill ends the worker with SIGKILL.
func (w *attachedWorker) kill() {
	w.wanted.Store(true)
	_ = w.cmd.Process.Kill() // it may have ended
	<-w.ended
}

// attachedPatience is how long a worker may take to hand its runs back.
const attachedPatience = 10 * time.Second

// close lets the worker, if there is one, hand its runs back and end.
func (w *attachedWorker) close() {
	if w == nil {
		return
	}

	w.wanted.Store(true)
	_ = w.stdin.Close() // it may have ended
	select {
	case <-w.ended:
	case <-time.After(attachedPatience):
		w.kill()
	}
}

// lastWords are the end of what a process printed.
type lastWords []byte

func (l *lastWords) Write(p []byte) (int, error) {
	const most = 8 << 10
	*l = append(*l, p...)
	*l = (*l)[max(0, len(*l)-most):]
	return len(p), nil
}
