package spool_test

import (
	"context"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/actlog/actlog/recorder"
	"github.com/actlog/actlog/recorder/spool"
)

// The record of this agent survives a kill while the server is away: the next agent that opens the
// folder delivers it.
func Example() {
	server, err := recorder.NewHTTP("http://127.0.0.1:8420", recorder.HTTPOptions{APIKey: os.Getenv("ACTLOG_API_KEY")})
	if err != nil {
		log.Fatal(err)
	}

	kept, err := spool.Open("/var/lib/agent/spool", server, spool.Options{
		Buffer: recorder.BufferOptions{Logger: slog.Default()},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { // the last thing that the program does
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := kept.Close(ctx); err != nil {
			log.Print(err) // what waits for the next start, and why
		}
	}()
	rec := recorder.New(kept, recorder.Options{Project: "docs"})

	ctx, plan, err := rec.StartPlan(context.Background(), recorder.PlanInfo{Title: "Answer a question"})
	if err != nil {
		log.Print(err)
	}
	defer plan.Close(ctx)
	// Here the agent works.
	if err := plan.End(ctx, recorder.PlanResult{Summary: "It is a record."}); err != nil {
		log.Print(err)
	}
}
