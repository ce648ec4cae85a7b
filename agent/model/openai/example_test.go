package openai_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// A model asks for a tool, and answers with its result. A script stands in for the provider: with a
// base URL, any server that speaks Chat Completions can.
func Example() {
	server, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "weather",
		Turns: []scriptmodel.Turn{
			{ToolCalls: []scriptmodel.ToolCall{{Name: "weather-forecast", Arguments: map[string]any{"city": "Oslo"}}}},
			{Content: "Take an umbrella."},
		}}}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	m, err := openai.New(openai.Config{Model: "gpt-5-mini", BaseURL: server.URL(), APIKey: "the key"})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	req := model.Request{
		Messages: []model.Message{model.System("You know the weather."), model.User("Will it rain in Oslo?")},
		Tools: []model.ToolSpec{{
			Name: "weather.forecast", Description: "Returns the weather of tomorrow.",
			Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`),
		}},
	}
	resp, err := m.Generate(ctx, req, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	req.Messages = append(req.Messages, resp.Message)
	for _, call := range resp.Message.Calls() {
		fmt.Println(resp.Finish, call.Name, call.Arguments)
		req.Messages = append(req.Messages, model.Results(model.ToolResult{CallID: call.ID, Name: call.Name, Text: "rain"}))
	}

	resp, err = m.Generate(ctx, req, func(d model.Delta) { fmt.Print(d.Text) })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println()
	fmt.Println(resp.Finish, *resp.Usage.Output, "tokens")

	// Output:
	// tool_calls weather.forecast {"city":"Oslo"}
	// Take an umbrella.
	// stop 5 tokens
}
