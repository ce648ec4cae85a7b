package recorder_test

import (
	"context"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/actlog/actlog/recorder"
)

// This agent records over HTTP. It neither waits for the server nor fails if the server is away.
func ExampleNewBuffer() {
	server, err := recorder.NewHTTP("http://127.0.0.1:8420", recorder.HTTPOptions{APIKey: os.Getenv("ACTLOG_API_KEY")})
	if err != nil {
		log.Fatal(err)
	}
	buffer := recorder.NewBuffer(server, recorder.BufferOptions{Logger: slog.Default()})

	defer func() { // the last thing that the program does
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := buffer.Close(ctx); err != nil {
			log.Print(err) // what is not on record, and why
		}
	}()
	rec := recorder.New(buffer, recorder.Options{Project: "docs"})

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
