package direct_test

import (
	"context"
	"log"
	"os"

	"github.com/actlog/actlog/recorder"
	"github.com/actlog/actlog/recorder/direct"
)

// A program opens one Sink and one Recorder, and closes the Sink as the last thing it does.
func Example() {
	ctx := context.Background()
	sink, err := direct.Open(ctx, os.Getenv("ACTLOG_DATABASE_URL"), &direct.Options{Migrate: true})
	if err != nil {
		log.Fatal(err)
	}
	defer sink.Close(ctx)
	rec := recorder.New(sink, recorder.Options{Project: "docs", Environment: "production"})

	ctx, plan, err := rec.StartPlan(ctx, recorder.PlanInfo{Title: "Answer a question"})
	if err != nil {
		log.Print(err)
	}
	defer plan.Close(ctx)
	if err := plan.End(ctx, recorder.PlanResult{Summary: "It is a record."}); err != nil {
		log.Print(err)
	}
}
