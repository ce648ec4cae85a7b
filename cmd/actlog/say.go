package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/actlog/actlog/internal/view/words"
)

type sayCmd struct {
	Plan      string `arg:"" help:"Id of the plan of a run at work."`
	Text      string `arg:"" help:"What is said: its model reads it as a message of the user."`
	To        string `help:"Id of a step that goes on, which is to read it. Default: the step of the run whose model is asked next." placeholder:"STEP"`
	Interrupt bool   `help:"Cancel the call of the model that is under way, and make it again with the message."`
	By        string `help:"Who says it. Default: the name of the API key." placeholder:"NAME"`
	JSON      bool   `help:"Print the message as JSON."`
	serverFlags
}

func (c *sayCmd) Run(ctx context.Context, e *env, client *client) error {
	if err := client.wholeFrom(ctx, leastShortID, &c.Plan); err != nil {
		return err
	}

	body := map[string]any{"text": c.Text}
	for name, value := range map[string]string{"to": c.To, "by": c.By} {
		if value != "" {
			body[name] = value
		}
	}
	if c.Interrupt {
		body["when"] = "interrupt"
	}

	var raw json.RawMessage
	if err := client.post(ctx, named("run", c.Plan), runPath(c.Plan)+"/messages", nil, body, &raw); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, raw)
	}

	var said struct{ MessageID string }
	if err := json.Unmarshal(raw, &said); err != nil {
		return err
	}
	_, err := fmt.Fprintln(e.stdout, words.Clean(said.MessageID))
	return err
}
