package anthropic_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/anthropic"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// A model answers in JSON. A script stands in for the provider.
func Example() {
	server, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "capital",
		Turns: []scriptmodel.Turn{
			{Content: `{"capital":"Oslo"}`, Reasoning: "It is in the south."},
		}}}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	m, err := anthropic.New(anthropic.Config{
		Model: "claude-sonnet-5", BaseURL: strings.TrimSuffix(server.URL(), "/v1"), APIKey: "the key",
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	resp, err := m.Generate(context.Background(), model.Request{
		Messages: []model.Message{model.User("What is the capital of Norway?")},
		ResponseSchema: json.RawMessage(
			`{"type":"object","properties":{"capital":{"type":"string"}},"required":["capital"]}`,
		),
		MaxTokens: 100,
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Finish, resp.Message.Text())

	// The whole message, with its reasoning, is kept and sent back as it was.
	fmt.Println(len(resp.Message.Raw) > len(resp.Message.Text()))

	// Output:
	// stop {"capital":"Oslo"}
	// true
}
