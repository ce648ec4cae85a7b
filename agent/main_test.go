package agent_test

import (
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
