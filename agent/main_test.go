package agent_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

func TestMain(m *testing.M) {
	url := os.Getenv(asWorker)
	if url == "" && os.Getenv(asServer) == "" {
		pgtest.Main(m)
	}

	other := serve
	if url != "" {
		other = func() error { return workUntilKilled(url) }
	}
	if err := other(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// database returns the URL of an empty Postgres database. done drops it.
func database() (url string, done func()) {
	e := &example{}
	return pgtest.New(e).URL, e.end
}

// scripted returns a model that gives these answers, one after the other. done stops it.
func scripted(turns ...scriptmodel.Turn) (m model.Model, done func()) {
	server, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "only", Turns: turns}}}, nil)
	if err != nil {
		panic(err)
	}
	if m, err = newModel(server.URL()); err != nil {
		panic(err)
	}
	return m, func() { _ = server.Close() }
}

func newModel(baseURL string) (model.Model, error) {
	return openai.New(openai.Config{Model: "scripted", BaseURL: baseURL, Provider: "scripted"})
}

// calls returns an answer that calls a tool.
func calls(tool string, arguments any) scriptmodel.Turn {
	return scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{{Name: model.OfferedName(tool), Arguments: arguments}}}
}

// says returns an answer that ends the work.
func says(text string) scriptmodel.Turn {
	return calls("terminate", map[string]string{"message": text})
}

// example stands in for a test in examples.
type example struct {
	testing.TB
	cleanups []func()
}

func (*example) Helper()                           {}
func (*example) Context() context.Context          { return context.Background() }
func (*example) Failed() bool                      { return false }
func (*example) Logf(string, ...any)               {}
func (*example) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (*example) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (e *example) Cleanup(f func())                { e.cleanups = append(e.cleanups, f) }

func (e *example) end() {
	for i := len(e.cleanups) - 1; i >= 0; i-- {
		e.cleanups[i]()
	}
}
