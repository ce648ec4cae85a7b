package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/actlog/actlog/internal/view/words"
)

type forkCmd struct {
	Plan    string `arg:"" help:"Id of the plan of a run that no other run started."`
	At      string `help:"The first row that is made anew: step:STEP, cycle:STEP/SEQ or call:STEP/SEQ/CALL, as in the address of the row on the page." placeholder:"ROW" required:""`
	Changes string `help:"File with what changes, a JSON object: systemPrompt, model, temperature, maxTokens, tools, limits, request, rows. - is standard input." placeholder:"FILE"`
	By      string `help:"Who asks. Default: the name of the API key." placeholder:"NAME"`
	JSON    bool   `help:"Print the answer of the server as JSON."`
	serverFlags
}

func (c *forkCmd) Run(ctx context.Context, e *env, client *client) error {
	body := map[string]any{"at": c.At}
	if c.By != "" {
		body["by"] = c.By
	}
	if c.Changes != "" {
		changes, err := readChanges(e, c.Changes)
		if err != nil {
			return err
		}
		body["changes"] = changes
	}

	if err := client.wholeFrom(ctx, leastShortID, &c.Plan); err != nil {
		return err
	}
	var raw json.RawMessage
	if err := client.post(ctx, named("run", c.Plan), runPath(c.Plan)+"/fork", nil, body, &raw); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, raw)
	}

	var started struct{ PlanID string }
	if err := json.Unmarshal(raw, &started); err != nil {
		return err
	}
	_, err := fmt.Fprintln(e.stdout, words.Clean(started.PlanID))
	return err
}

// readChanges reads a JSON object from a file, or from standard input.
func readChanges(e *env, file string) (json.RawMessage, error) {
	read := func() ([]byte, error) { return os.ReadFile(file) }
	if file == "-" {
		read = func() ([]byte, error) { return io.ReadAll(e.stdin) }
	}
	raw, err := read()
	if err != nil {
		return nil, fmt.Errorf("--changes: %w", err)
	}

	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return nil, usageError("--changes: " + file + " must be a JSON object")
	}
	return raw, nil
}
