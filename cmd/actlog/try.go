package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/actlog/actlog/internal/runtime/modelcall"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/view/words"
)

type tryCmd struct {
	Plan             string   `arg:"" help:"Id of a plan: of a run, or one that was only recorded."`
	At               string   `help:"The cycle whose model is asked again: cycle:STEP/SEQ." placeholder:"ROW" required:""`
	Model            string   `help:"Name of the model in the configuration." placeholder:"NAME" required:""`
	SystemPromptFile string   `help:"A file with another system prompt." placeholder:"FILE"`
	Temperature      *float64 `help:"Another temperature." placeholder:"X"`
	By               string   `help:"Who asks. Default: the name of the API key." placeholder:"NAME"`
	JSON             bool     `help:"Print the answer of the server as JSON."`
	serverFlags
}

func (c *tryCmd) Run(ctx context.Context, e *env, client *client) error {
	changes := map[string]any{}
	if c.SystemPromptFile != "" {
		prompt, err := os.ReadFile(c.SystemPromptFile)
		if err != nil {
			return usageError("--system-prompt-file: " + err.Error())
		}
		changes["systemPrompt"] = string(prompt)
	}
	if c.Temperature != nil {
		changes["temperature"] = *c.Temperature
	}

	body := map[string]any{"at": c.At, "model": c.Model, "changes": changes}
	if c.By != "" {
		body["by"] = c.By
	}

	if err := client.wholeFrom(ctx, leastShortID, &c.Plan); err != nil {
		return err
	}
	var raw json.RawMessage
	if err := client.post(ctx, named("plan", c.Plan), planPath(c.Plan)+"/try", nil, body, &raw); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, raw)
	}

	var tried runs.Tried
	if err := json.Unmarshal(raw, &tried); err != nil {
		return err
	}

	if err := printAnswer(e.stdout, "before", tried.Before); err != nil {
		return err
	}
	if err := printAnswer(e.stdout, "after", tried.After); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e.stdout, "plan: %s\n", words.Clean(tried.PlanID))
	return err
}

// printAnswer prints what a model answered: which one, for how many tokens, its text, and the tool calls that it asked
// for.
func printAnswer(out io.Writer, when string, a modelcall.Answer) error {
	about := ""
	if a.ModelName != nil {
		about = " " + words.Clean(*a.ModelName)
	}
	if a.InputTokens != nil && a.OutputTokens != nil {
		about += fmt.Sprintf(", %d tokens in, %d out", *a.InputTokens, *a.OutputTokens)
	}
	if a.CostUSD != nil {
		about += fmt.Sprintf(", $%.6f", *a.CostUSD)
	}

	if _, err := fmt.Fprintf(out, "%s:%s\n", when, about); err != nil {
		return err
	}
	if a.Text != "" {
		if _, err := fmt.Fprintf(out, "  %s\n", words.Clean(a.Text)); err != nil {
			return err
		}
	}
	for _, call := range a.ToolCalls {
		if _, err := fmt.Fprintf(out, "  calls %s %s\n", words.Clean(call.Name), words.Clean(call.Parameters)); err != nil {
			return err
		}
	}
	return nil
}
