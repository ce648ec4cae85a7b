// Command dbos-go runs agents on DBOS, for the benchmark.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/actlog/actlog/cmd/bench/peers/internal/peer"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() (err error) {
	ctx, err := dbos.NewContext(context.Background(), dbos.Config{
		AppName: "bench", DatabaseURL: os.Getenv("PEER_DATABASE"), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return err
	}
	dbos.RegisterWorkflow(ctx, agent)
	if err := dbos.Launch(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dbos.Shutdown(ctx, 10*time.Second)) }()

	return peer.Peer{
		Version: peer.VersionOf("github.com/dbos-inc/dbos-transact-golang"),
		Run: func(id string) error {
			handle, err := dbos.RunWorkflow(ctx, agent, "Go on.", dbos.WithWorkflowID(id))
			if err != nil {
				return err
			}
			_, err = handle.GetResult()
			return err
		},
	}.Serve()
}

// agent thinks and calls a tool. Each is a step, whose result is on record before the next.
func agent(ctx dbos.Context, request string) (string, error) {
	talk := []string{request}
	for range peer.Cycles {
		thought, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) { return peer.Think(), nil },
			dbos.WithStepName("think"))
		if err != nil {
			return "", err
		}

		seen, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) { return peer.Look(), nil },
			dbos.WithStepName("look"))
		if err != nil {
			return "", err
		}
		talk = append(talk, thought, seen)
	}
	return "done", nil
}
