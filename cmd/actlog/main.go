// Command actlog serves the execution record of LLM agents, migrates its database and shows
// what is on record.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
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
