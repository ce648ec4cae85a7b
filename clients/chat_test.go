//go:build clients

package clients_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// TestChatClients talks to an agent with the official clients of OpenAI for Python and TypeScript: whole and as a
// stream, with errors, a time-out and the client's own retries.
func TestChatClients(t *testing.T) {
	t.Parallel()
	answer := "Go to Lisbon: \"sun\", 24 degrees." + strings.Repeat(" There is a castle that is worth the way.", 20)
	scene := func(user string, turns ...scriptmodel.Turn) scriptmodel.Scene {
		return scriptmodel.Scene{Name: user, Match: scriptmodel.Match{User: user}, Turns: turns}
	}
	terminate := func(text string) []scriptmodel.ToolCall {
		return []scriptmodel.ToolCall{{Name: "terminate", Arguments: map[string]string{"message": text}}}
	}

	model, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{
		scene("Break.", scriptmodel.Turn{Error: &scriptmodel.Failure{Status: 400, Message: "no"}}),
		scene("Slowly.", scriptmodel.Turn{
			Delay: scriptmodel.Duration(2500 * time.Millisecond), ToolCalls: terminate("At last."),
		}),
		scene("Be brief.", scriptmodel.Turn{
			Content: "I look around.", ToolCalls: []scriptmodel.ToolCall{
				{Name: "files-list_files", Arguments: map[string]string{"path": "."}},
			},
		},
			scriptmodel.Turn{
				Content: "I know.", ToolCalls: terminate(answer), ChunkDelay: scriptmodel.Duration(20 * time.Millisecond),
			}),
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })

	server, secret := serveAgent(t, "guide", model)

	bad, failed := "invalid_value", "InternalServerError"

	for _, c := range []struct {
		client
		program, file string
		timeout       string
		breaks        []any
	}{
		{client{name: "chat"}, "python", "ask.py", "APITimeoutError", []any{"APIError", "invalid_request"}},
		{
			client{name: "chat-js", js: true}, "node", "ask.js", "APIConnectionTimeoutError",
			[]any{"APIError", "invalid_request"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			bin, err := c.install()
			if err != nil {
				t.Fatal(err)
			}

			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, c.program), c.file, string(server), secret)
			cmd.Dir = c.name
			var log strings.Builder
			cmd.Stderr = &log
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("cmd.Output() = %v\n%s", err, &log)
			}

			var got map[string]any
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}

			want := map[string]any{
				"models": []any{"agent/guide"}, "model": "agent/guide",
				"whole": []any{answer, "stop", true}, "stream": []any{answer, true, "stop", true},
				"errors": []any{
					[]any{"NotFoundError", 404.0, "model_not_found", "model"}, []any{"BadRequestError", 400.0, bad, "n"},
					[]any{"BadRequestError", 400.0, "missing_field", "messages"}, []any{"BadRequestError", 400.0, bad, "tools"},
					[]any{"AuthenticationError", 401.0, "invalid_api_key", nil}, []any{failed, 500.0, "invalid_request", nil},
				},
				"stream error": c.breaks, "timeout": c.timeout, "once": []any{"At last.", true}, "again": "At last.",
				"another": []any{"UnprocessableEntityError", 422.0, "idempotency_key_in_use", "Idempotency-Key"},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// serveAgent starts a server with an agent that may list files, and a key that may start its runs.
func serveAgent(t *testing.T, agent string, model *scriptmodel.Server) (s server, secret string) {
	t.Helper()
	secret, line, err := httpd.NewKey("chat", []httpd.Scope{httpd.ScopeRun})
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	config := fmt.Sprintf("models:\n  default: {provider: openai, model: scripted, baseURL: %q, apiKey: x}\n"+
		"toolsets:\n  files: {root: %q}\nagents:\n  %s: {description: Guides., tools: [files.list_files]}\n", model.URL(),
		dir, agent)
	for name, text := range map[string]string{"keys": line + "\n", "actlog.yaml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	return serve(t, "--config", filepath.Join(dir, "actlog.yaml"), "--api-keys", filepath.Join(dir, "keys")), secret
}

// TestWhatTheChatPageSays does what docs/openai.md begins with, in empty folders: it runs the lines that install the
// clients, within the lock files, and the programs, with the address and a key of a server here.
func TestWhatTheChatPageSays(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "openai.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := snippet.FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 4 {
		t.Fatalf("the page has %d blocks, want two lines that install, each with a program", len(blocks))
	}

	const answer = "It greets the world."
	done := scriptmodel.Turn{
		ToolCalls: []scriptmodel.ToolCall{{Name: "terminate", Arguments: map[string]string{"message": answer}}},
	}

	model, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{
		{Name: "ask", Match: scriptmodel.Match{User: "What does this program do?"}, Turns: []scriptmodel.Turn{done}},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })

	server, secret := serveAgent(t, "reader", model)
	here := strings.NewReplacer("http://127.0.0.1:8420", string(server), "actlog_...", secret)

	for i, c := range []struct {
		folder, language, file, program string
		empty                           func(t *testing.T, client, dir string) []string
	}{
		{"chat", "python", "ask.py", "python", emptyPython},
		{"chat-js", "js", "ask.mjs", "node", emptyNode},
	} {
		t.Run(c.folder, func(t *testing.T) {
			t.Parallel()
			install, program := blocks[2*i], blocks[2*i+1]
			if install[1] != "sh" || program[1] != c.language {
				t.Fatalf("blocks of %s and %s, want sh and %s", install[1], program[1], c.language)
			}

			dir := t.TempDir()
			env := c.empty(t, c.folder, dir)
			run(t, dir, env, "sh", "-ec", install[2])
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(here.Replace(program[2])), 0o600); err != nil {
				t.Fatal(err)
			}

			run(t, dir, env, "sh", "-ec", c.program+" "+c.file+" > said")
			said, err := os.ReadFile(filepath.Join(dir, "said"))
			if err != nil || strings.TrimSpace(string(said)) != answer {
				t.Errorf("the program says %q: %v", said, err)
			}
		})
	}
}
