//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// beTools is an environment variable. If it is set, this program is an MCP server, and the value is
// the file to which its tools append what they do.
const beTools = "ACTLOG_CHAOS_TOOLS"

// The tools. Each has an effect: two lines in the file of effects.
const (
	toolPay     = "pay"     // is called at most once
	toolAgain   = "again"   // may be called again if its outcome is unknown
	toolJudge   = "judge"   // a human judges what became of a call whose outcome is unknown
	toolApprove = "approve" // a human approves each call
)

var toolNames = []string{toolPay, toolAgain, toolJudge, toolApprove}

// toolServer is the name of the MCP server in the configuration.
const toolServer = "chaos"

// done is what a tool returns.
func done(name, item string) string { return name + " " + item + " done" }

// The words of a line in the file of effects. What follows is the id of the call, the tool and its item.
const (
	effectBegins = "begin"
	effectEnds   = "end"
)

// runTools serves the tools on standard input and output until that ends.
func runTools(ctx context.Context, path string, stderr io.Writer) int {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		fmt.Fprintf(stderr, "chaos: %v\n", err)
		return exitViolated
	}
	defer file.Close()

	s := mcp.NewServer(&mcp.Implementation{Name: toolServer, Version: "1"}, nil)
	for _, name := range toolNames {
		s.AddTool(&mcp.Tool{
			Name: name, Description: "Has an effect.",
			InputSchema: map[string]any{
				"type": "object", "properties": map[string]any{"item": map[string]any{"type": "string"}},
				"required": []string{"item"},
			},
		}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in struct{ Item string }
			if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
				return nil, err
			}

			id, _ := r.Params.Meta["actlog/toolCallId"].(string)
			if err := effect(file, id, name, in.Item); err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: done(name, in.Item)}}}, nil
		})
	}

	if err := s.Run(ctx, &mcp.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintf(stderr, "chaos: %v\n", err)
		return exitViolated
	}
	return exitDone
}

// effect takes a while, so that faults hit calls under way. How long follows from the id of the call.
func effect(file *os.File, id, name, item string) error {
	note := func(word string) error {
		if _, err := fmt.Fprintf(file, "%s\t%s\t%s\t%s\n", word, id, name, item); err != nil {
			return err
		}
		return file.Sync()
	}

	if err := note(effectBegins); err != nil {
		return err
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	// An effect takes its time, also when nobody waits for it any more.
	pause(context.Background(), time.Duration(100+h.Sum32()%2000)*time.Millisecond)
	return note(effectEnds)
}

// effects is what the tools did, by the ids of their calls.
type effects map[string]*calls

// calls is what was done for one tool call.
type calls struct {
	tool, item   string
	begins, ends int
}

func readEffects(path string) (effects, error) {
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the effects: %w", err)
	}

	all := effects{}
	for line := range strings.Lines(string(content)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(parts) != 4 || !strings.HasSuffix(line, "\n") {
			return nil, fmt.Errorf("read the effects: invalid line %q", line)
		}

		c := all[parts[1]]
		if c == nil {
			c = &calls{tool: parts[2], item: parts[3]}
			all[parts[1]] = c
		}
		switch parts[0] {
		case effectBegins:
			c.begins++
		case effectEnds:
			c.ends++
		}
	}

	return all, nil
}
