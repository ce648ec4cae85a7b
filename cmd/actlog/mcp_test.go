package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
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
			return &sdk.CallToolResult{RequestState: fmt.Sprint("of ", os.Getpid()),
				InputRequests: sdk.InputRequestMap{"city": &sdk.ElicitParams{
					Mode: "form", Message: "Which city?", RequestedSchema: object{
						"type": "object", "properties": object{"city": object{"type": "string"}},
					},
				}}}, nil
		}
		return text("%s %v, asked by another: %v", answer.Action, answer.Content["city"],
			r.Params.RequestState != fmt.Sprint("of ", os.Getpid()))
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

// counted serves a server over HTTP, and counts how often a client connects to it.
func counted(t *testing.T, s *sdk.Server) (url string, connected *atomic.Int32) {
	t.Helper()
	connected = new(atomic.Int32)
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method == "initialize" {
				connected.Add(1)
			}
			return next(ctx, method, r)
		}
	})
	return serveMCP(t, s), connected
}

// TestServersOfAgents runs agents of the facade with MCP servers over stdio and HTTP.
//
// D4: a server is registered when the first run needs it, once, and stays so; how registration fails. D5, D7: what the
// server and what the agent excludes is not offered. D6: the names of tools, one that there is not, and one of a server
// that the agent may not use.
func TestServersOfAgents(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	mute, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })

	remote, connected := counted(t, toolServer())
	foreign, foreignConnected := counted(t, toolServer())
	all := scriptmodel.Turn{}
	for _, name := range []string{
		"local-echo", "remote-echo", "local-environment", "remote-headers", "remote-two-echo", "nobody-echo",
	} {
		all.ToolCalls = append(all.ToolCalls, scriptmodel.ToolCall{Name: name, Arguments: fields{"a": 1}})
	}
	done := scriptmodel.Turn{Content: "Done."}
	begun := filepath.Join(t.TempDir(), "begun")

	h := newHouse(t, fmt.Sprintf(`
  helper: {systemPrompt: Help., mcpServers: [local, remote], exclude: ["remote-h*", "*-block"]}
  single: {systemPrompt: Alone., tools: [remote-echo]}
  lost: {mcpServers: [gone]}
  patient: {mcpServers: [mute]}
mcpServers:
  local: {command: [sh, -c, 'echo >> "$STARTED"; exec "$0"', %q], env: {%s: "1", STARTED: %q}, exclude: [env*]}
  remote: {url: %q}
  remote-two: {url: %q}
  gone: {url: %q}
  mute: {url: "http://%s", registerTimeout: 300ms}
policies: [{tools: "local-*", approval: false}, {tools: "remote-*", approval: false}]
workflows:
  chain: {steps: [single, helper, lost]}
`, os.Args[0], beServer, begun, remote, foreign, closed.URL, mute.Addr()),
		scriptmodel.Scene{
			Name: "help", Match: scriptmodel.Match{System: "Help."}, Turns: []scriptmodel.Turn{all, done, all, done, all, done},
		},
		scriptmodel.Scene{
			Name: "alone", Match: scriptmodel.Match{System: "Alone."}, Turns: []scriptmodel.Turn{
				calls("remote-echo", fields{"a": 1}), done,
			},
		})

	s := h.serve(t, 1)
	started := func() int {
		text, err := os.ReadFile(begun)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
	wantStarts := func(local int, over int32) {
		t.Helper()
		if started() != local || connected.Load() != over || foreignConnected.Load() != 0 {
			t.Errorf("local was started %d times, remote connected to %d times, the foreign one %d times; want %d, %d, 0",
				started(), connected.Load(), foreignConnected.Load(), local, over)
		}
	}

	wantStarts(0, 0)
	if r := ran[workflow.AgentResult](t, s, "agents/single", fields{"user_message": "Go."}); r.Text() != "Done." ||
		!strings.HasPrefix(r.ConversationHistory[2].Content, `{"a":1}`) {
		t.Errorf("ran[workflow.AgentResult] = %+v", r)
	}
	wantStarts(0, 1)

	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			r := ran[workflow.AgentResult](t, s, "agents/helper", fields{"user_message": "Go."})
			if r.Text() != "Done." || len(r.ConversationHistory) != 9 {
				t.Errorf("ran[workflow.AgentResult] = %+v", r)
				return
			}

			const others = "There are: local-ask, local-echo, local-headers, remote-ask, remote-echo, remote-environment."
			for i, want := range []string{
				`{"a":1} toolcall-`, `{"a":1} toolcall-`,
				"Error executing tool 'local-environment': There is no tool local-environment. " + others,
				"Error executing tool 'remote-headers': There is no tool remote-headers. " + others,
				"Error executing tool 'remote-two-echo': PermissionError: agent 'helper' may not use the tool 'remote-two-echo'",
				"Error executing tool 'nobody-echo': There is no tool nobody-echo. " + others,
			} {
				if got := r.ConversationHistory[2+i].Content; !strings.HasPrefix(got, want) {
					t.Errorf("call %d: %q, want %q", i, got, want)
				}
			}
		})
	}
	both.Wait()
	wantStarts(1, 1)

	const failed = "Error during conversation turn 1: tools: The tools cannot be had: register MCP server "
	for agent, want := range map[string]string{
		"lost": failed + "gone: ", "patient": failed + "mute: no answer within 300ms",
	} {
		r := ran[workflow.AgentResult](t, s, "agents/"+agent, fields{"user_message": "Go."})
		if r.Status != workflow.Error || !strings.HasPrefix(*r.ErrorMessage, want) {
			t.Errorf("%s: %s %s", agent, r.Status, *r.ErrorMessage)
		}
	}

	r := ran[workflow.Result](t, s, "workflows/simple/chain", fields{"initial_input": "Go."})
	if r.Status != workflow.Failed || len(r.StepResults) != 3 ||
		!strings.HasPrefix(*r.Error, "Error processing component 'lost': "+failed+"gone: ") {
		t.Errorf("ran[workflow.Result] = %+v", r)
	}
	wantStarts(1, 1)
}

// ran runs an agent or a workflow of the facade, and returns its result.
func ran[T any](t *testing.T, s *program, what string, input any) (result T) {
	t.Helper()
	raw, err := json.Marshal(input)
	if err == nil {
		var resp *http.Response
		if resp, err = http.Post(s.url+"/execution/"+what+"/run", "application/json", bytes.NewReader(raw)); err == nil {
			defer resp.Body.Close()
			if err = json.NewDecoder(resp.Body).Decode(&result); resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %d", resp.StatusCode)
			}
		}
	}

	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	return result
}

// TestToolsOfServers runs an agent with tools of MCP servers. Its worker is killed while a call is under
// way, and another one while a server waits for an answer: the servers are started where the run goes on.
func TestToolsOfServers(t *testing.T) {
	t.Parallel()
	calls := func(all ...scriptmodel.ToolCall) scriptmodel.Turn { return scriptmodel.Turn{ToolCalls: all} }
	m, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "s", Turns: []scriptmodel.Turn{
		calls(scriptmodel.ToolCall{Name: "local-echo", Arguments: object{"a": 1}},
			scriptmodel.ToolCall{Name: "remote-echo", Arguments: object{"b": 2}}),
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
policies: [{tools: "local-*", approval: false}, {tools: "remote-*", approval: false}]
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

	rows, err := db.Pool.Query(t.Context(),
		`SELECT t.tool_call_id, t.name, t.state, t.attempt, t.result FROM actlog.act_tool_info AS t ORDER BY t.seq, t.call_index`)
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
		t.Fatalf("append = %q %v", got, rows.Err())
	}

	for i, want := range []string{
		`local-echo COMPLETED {"a":1} ID`, `remote-echo COMPLETED {"b":2} ID`, "local-block UNKNOWN ",
		"local-ask COMPLETED accept Oslo, asked by another: true", "terminate COMPLETED",
	} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("call %d: %s, want %s", i, got[i], want)
		}
	}
}
