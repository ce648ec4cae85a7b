// Command temporal runs agents on the development server of Temporal, for the benchmark.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/actlog/actlog/cmd/bench/peers/internal/peer"
)

const queue = "agents"

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run starts the server, which keeps its state in a file, and a worker.
func run() (err error) {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	server := exec.CommandContext(ctx, os.Getenv("PEER_SERVER"), "server", "start-dev", "--headless",
		"--log-level", "error", "--ip", host, "--port", port,
		"--db-filename", filepath.Join(os.Getenv("PEER_DIR"), "temporal.db"))
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	server.WaitDelay = 10 * time.Second
	server.Stdout, server.Stderr = os.Stderr, os.Stderr

	if err := server.Start(); err != nil {
		return err
	}
	defer func() { cancel(); _ = server.Wait() }()

	c, err := connect(ctx, address)
	if err != nil {
		return err
	}
	defer c.Close()

	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflow(agent)
	w.RegisterActivity(think)
	w.RegisterActivity(look)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()

	return peer.Peer{
		Version: fmt.Sprintf("%s, SDK %s", os.Getenv("PEER_VERSION"), peer.VersionOf("go.temporal.io/sdk")),
		Server:  server.Process.Pid,
		Run: func(id string) error {
			run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: queue}, agent, "Go on.")
			if err != nil {
				return err
			}
			return run.Get(ctx, nil)
		},
	}.Serve()
}

func freeAddress() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// connect waits until the server answers.
func connect(ctx context.Context, address string) (client.Client, error) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	for until := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		c, err := client.Dial(client.Options{HostPort: address, Logger: quiet})
		if err == nil {
			return c, nil
		}
		if time.Now().After(until) {
			return nil, errors.Join(errors.New("the server of Temporal does not answer"), err)
		}
	}
}

// agent thinks and calls a tool. Each is an activity, whose result is on record before the next.
func agent(ctx workflow.Context, request string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	talk := []string{request}
	for range peer.Cycles {
		var thought, seen string
		if err := workflow.ExecuteActivity(ctx, think).Get(ctx, &thought); err != nil {
			return "", err
		}
		if err := workflow.ExecuteActivity(ctx, look).Get(ctx, &seen); err != nil {
			return "", err
		}
		talk = append(talk, thought, seen)
	}
	return "done", nil
}

func think(context.Context) (string, error) { return peer.Think(), nil }
func look(context.Context) (string, error)  { return peer.Look(), nil }
