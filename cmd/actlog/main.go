// Command actlog serves the execution record of LLM agents, migrates its database and shows
// what is on record.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/actlog/actlog/agent/sandbox"
)

func main() {
	// Before anything else: every command may hold keys and passwords.
	if err := sandbox.HideProcess(); err != nil {
		fmt.Fprintf(os.Stderr, "actlog: other programs may read the secrets of this process: %v\n", err)
	}

	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		received := <-signals
		signal.Stop(signals) // a second signal ends the program at once
		end(interruption{received.(syscall.Signal)})
	}()

	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
