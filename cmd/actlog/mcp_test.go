package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/scriptmodel"
)

// beServer is a variable that makes the test binary an MCP server.
const beServer = "ACTLOG_TEST_BE_SERVER"

type object map[string]any

// toolServer returns an MCP server with tools for the tests.
func toolServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	add := func(name string, handle func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error)) {
		s.AddTool(&sdk.Tool{Name: name, Description: "Does " + name + ".", InputSchema: object{"type": "object"}}, handle)
	}
	text := func(format string, args ...any) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}, nil
	}
	add("echo", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text("%s %v", r.Params.Arguments, r.Params.Meta["actlog/toolCallId"])
	})
	add("environment", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text("%s", strings.Join(os.Environ(), "\n"))
	})
	add("headers", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text("%v", r.Extra.Header)
	})
	add("ask", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		answer, ok := r.Params.InputResponses["city"].(*sdk.ElicitResult)
		if !ok {
			return &sdk.CallToolResult{RequestState: fmt.Sprint("of ", os.Getpid()), InputRequests: sdk.InputRequestMap{"city": &sdk.ElicitParams{
				Mode: "form", Message: "Which city?", RequestedSchema: object{"type": "object", "properties": object{"city": object{"type": "string"}}},
			}}}, nil
		}
		return text("%s %v, asked by another: %v", answer.Action, answer.Content["city"], r.Params.RequestState != fmt.Sprint("of ", os.Getpid()))
	})
	// It never ends by itself.
	add("block", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if err := os.WriteFile(os.Getenv("BEGUN"), nil, 0o600); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	return s
}

// serveTools is an MCP server on standard input and output.
func serveTools() {
	if err := toolServer().Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// serveMCP serves a server over HTTP, and returns the URL.
func serveMCP(t *testing.T, s *sdk.Server) string {
	t.Helper()
	over := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(func() {
		for session := range s.Sessions() { // of clients that were killed, too
			_ = session.Close()
		}
		over.Close()
	})
	return over.URL
}

// TestToolsOfServers runs an agent with tools of MCP servers. Its worker is killed while a call is under
// way, and another one while a server waits for an answer: the servers are started where the run goes on.
func TestToolsOfServers(t *testing.T) {
	t.Parallel()
	calls := func(all ...scriptmodel.ToolCall) scriptmodel.Turn { return scriptmodel.Turn{ToolCalls: all} }
	m, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "s", Turns: []scriptmodel.Turn{
		calls(scriptmodel.ToolCall{Name: "local-echo", Arguments: object{"a": 1}}, scriptmodel.ToolCall{Name: "remote-echo", Arguments: object{"b": 2}}),
		calls(scriptmodel.ToolCall{Name: "local-block"}),
		calls(scriptmodel.ToolCall{Name: "local-ask"}),
		calls(scriptmodel.ToolCall{Name: "terminate", Arguments: object{"message": "Done."}}),
	}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	remote := serveMCP(t, toolServer())
	dir := t.TempDir()
	file, begun := filepath.Join(dir, "actlog.yaml"), filepath.Join(dir, "begun")
	config := fmt.Sprintf(`
models:
  default: {provider: openai, model: scripted, baseURL: %q, apiKey: key}
mcpServers:
  local: {command: [%q], env: {%s: "1", BEGUN: %q}, timeout: 1m}
  remote: {url: %q}
agents:
  helper: {description: Helps, tools: [local-block, "remote-*"], mcpServers: [local]}
`, m.URL(), os.Args[0], beServer, begun, remote)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	db := pgtest.Fresh(t)
	server := start(t, "serve", "--listen", "127.0.0.1:0", "--database-url", db.URL, "--config", file, "--workers", "0")
	worker := func() *program { return begin(t, "work", "--database-url", db.URL, "--config", file, "--workers", "1") }
	kill := func(p *program) {
		if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	c := runClient{t, server.url}
	first := worker()
	id := c.start("helper", "Help.")
	c.until(id, "a call is under way", func(shownRun) bool {
		_, err := os.Stat(begun)
		return err == nil
	})
	kill(first)
	second := worker()
	r := c.until(id, "it waits", func(r shownRun) bool { return r.State == "WAITING" })
	kill(second)
	c.decide(id, r.Waits[0].WaitID, `{"decision":"submit","values":{"city":"Oslo"}}`)
	worker()
	if r = c.until(id, "it ends", func(r shownRun) bool { return r.State == "COMPLETED" }); r.Result != "Done." {
		t.Errorf("it ended: %+v", r)
	}
	rows, err := db.Pool.Query(t.Context(), `SELECT t.tool_call_id, t.name, t.state, t.attempt, t.result FROM actlog.act_tool_info AS t ORDER BY t.seq, t.call_index`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var callID, name, state, result string
		var attempt *int64
		if err := rows.Scan(&callID, &name, &state, &attempt, &result); err != nil {
			t.Fatal(err)
		}
		got = append(got, name+" "+state+" "+strings.ReplaceAll(result, callID, "ID"))
	}
	if rows.Err() != nil || len(got) != 5 {
		t.Fatalf("%q %v", got, rows.Err())
	}
	for i, want := range []string{`local-echo COMPLETED {"a":1} ID`, `remote-echo COMPLETED {"b":2} ID`, "local-block UNKNOWN ", "local-ask COMPLETED accept Oslo, asked by another: true", "terminate COMPLETED"} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("call %d: %s, want %s", i, got[i], want)
		}
	}
}
