//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// beTools is an environment variable that turns this program into an MCP server, whose tools note each
// effect in the file that it names.
const beTools = "ACTLOG_CHAOS_TOOLS"

// The tools: a call of once and of pay must not be made twice, one of again may. All do the same.
var toolNames = []string{"once", "again", "pay"}

// runTools is the whole process of the MCP server. It ends with its standard input.
func runTools(ctx context.Context, effects string) int {
	s := sdk.NewServer(&sdk.Implementation{Name: "chaos", Version: "1"}, nil)
	for _, name := range toolNames {
		s.AddTool(&sdk.Tool{Name: name, Description: "Has an effect.", InputSchema: map[string]any{"type": "object"}},
			func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				var in struct{ Name string }
				if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
					return nil, err
				}
				id := fmt.Sprint(r.Params.Meta["actlog/toolCallId"])
				if err := noteEffect(effects, "begin", name, id); err != nil {
					return nil, err
				}
				time.Sleep(rand.N(400 * time.Millisecond)) // an effect takes time, also if nobody waits for it any more
				if err := noteEffect(effects, "end", name, id); err != nil {
					return nil, err
				}
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: name + " " + in.Name}}}, nil
			})
	}
	if err := s.Run(ctx, &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, "chaos tools:", err)
		return exitViolated
	}
	return exitDone
}

// noteEffect appends a line to the file of effects. It is there when this returns, also if the process is
// killed then.
func noteEffect(path string, words ...string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(words, " ") + "\n")
	return errors.Join(err, f.Close())
}

// effects are how often the call of an id began and ended.
type effects struct{ begun, ended map[string]int }

func readEffects(path string) (e effects, err error) {
	e = effects{map[string]int{}, map[string]int{}}
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return e, fmt.Errorf("read the effects: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		words := strings.Fields(line)
		if len(words) != 3 {
			return e, fmt.Errorf("read the effects: %q is no effect", line)
		}
		switch id := words[2]; words[0] {
		case "begin":
			e.begun[id]++
		case "end":
			e.ended[id]++
		}
	}
	return e, nil
}
