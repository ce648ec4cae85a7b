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

	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/scriptmodel"
)

// TestChatClients talks to an agent with the official clients of OpenAI for Python and TypeScript: whole and as a stream, with errors, a
// time-out and the client's own retries.
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
		scene("Slowly.", scriptmodel.Turn{Delay: scriptmodel.Duration(2500 * time.Millisecond), ToolCalls: terminate("At last.")}),
		scene("Be brief.", scriptmodel.Turn{Content: "I look around.", ToolCalls: []scriptmodel.ToolCall{{Name: "files-list_files", Arguments: map[string]string{"path": "."}}}},
			scriptmodel.Turn{Content: "I know.", ToolCalls: terminate(answer), ChunkDelay: scriptmodel.Duration(20 * time.Millisecond)}),
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })

	dir := t.TempDir()
	secret, line, err := httpd.NewKey("chat", []httpd.Scope{httpd.ScopeRun})
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("models:\n  default: {provider: openai, model: scripted, baseURL: %q, apiKey: x}\ntoolsets:\n  files: {root: %q}\n"+
		"agents:\n  guide: {description: Guides., tools: [files.list_files]}\n", model.URL(), dir)
	for name, text := range map[string]string{"keys": line + "\n", "actlog.yaml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := serve(t, "--config", filepath.Join(dir, "actlog.yaml"), "--api-keys", filepath.Join(dir, "keys"))

	bad, failed := "invalid_value", "InternalServerError"
	for _, c := range []struct {
		client
		program, file string
		timeout       string
		breaks        []any
	}{
		{client{name: "chat"}, "python", "ask.py", "APITimeoutError", []any{"APIError", "invalid_request"}},
		{client{name: "chat-js", js: true}, "node", "ask.js", "APIConnectionTimeoutError", []any{"APIError", "invalid_request"}},
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
				t.Fatalf("%v\n%s", err, &log)
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
