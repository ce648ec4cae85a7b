package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/actlog/actlog/internal/view/words"
)

type eventCmd struct {
	Key     string `arg:"" help:"What runs wait for, such as paid:17."`
	Data    string `help:"What the runs get: JSON. Default: null." placeholder:"JSON"`
	Project string `help:"The project of the runs. Default: that of runs which name none." placeholder:"NAME"`
	By      string `help:"Who sends it. Default: the name of the API key." placeholder:"NAME"`
	JSON    bool   `help:"Print the answer of the server as JSON."`
	serverFlags
}

// eventBody is what a server takes to send an event.
type eventBody struct {
	Key     string          `json:"key"`
	Data    json.RawMessage `json:"data,omitempty"`
	Project string          `json:"project,omitempty"`
	By      string          `json:"by,omitempty"`
}

func (c *eventCmd) Run(ctx context.Context, e *env, client *client) error {
	if c.Data != "" && !json.Valid([]byte(c.Data)) {
		return usageError("--data: must be JSON")
	}

	body := eventBody{Key: c.Key, Data: json.RawMessage(c.Data), Project: c.Project, By: c.By}
	var raw json.RawMessage
	if err := client.post(ctx, named("event", c.Key), "/api/v1/events", nil, body, &raw); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, raw)
	}

	var sent struct {
		Key   string
		Woken int64
	}
	if err := json.Unmarshal(raw, &sent); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e.stdout, "%s woke %s\n", words.Clean(sent.Key), words.Plural(sent.Woken, "run"))
	return err
}
