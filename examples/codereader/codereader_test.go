package codereader_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/examples/codereader"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/scriptmodel"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bundle is an agent with a scripted model and a folder.
type bundle struct {
	agent  *codereader.Agent
	model  *codereader.Model
	server *scriptmodel.Server

	mu    sync.Mutex
	slept []time.Duration
}

// setup starts the script and opens dir. If dir is empty, it creates a small project.
func setup(t *testing.T, script scriptmodel.Script, dir string, options *codereader.Options) *bundle {
	t.Helper()
	if dir == "" {
		dir = project(t)
	}
	b := &bundle{}
	var err error
	if b.server, err = scriptmodel.Start(script, &scriptmodel.Options{APIKey: "key"}); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = b.server.Close()
	})
	b.model, err = codereader.NewModel(codereader.ModelConfig{
		BaseURL:    b.server.URL(),
		APIKey:     "key",
		Model:      "scripted",
		HTTPClient: &http.Client{Transport: transport},
		Sleep: func(ctx context.Context, d time.Duration) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.slept = append(b.slept, d)
			return ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	folder, err := codereader.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	b.agent = codereader.New(b.model, folder, options)
	return b
}

// project creates a folder of code with everything that is hard for the tools, and next to it a
// file that must not be readable.
func project(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "project")
	for name, text := range map[string]string{
		"../secret.txt":     "secret\n",
		"main.go":           "package main\n\nfunc main() {\n\tprintln(\"hi\")\n}\n",
		"lib/add.go":        "package lib\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n",
		"lib/logo.png":      "\x89PNG\x00\x00func",
		"lib/latin.txt":     "caf\xe9 func\n",
		"empty.txt":         "",
		"long.txt":          strings.Repeat("line\n", 1000),
		"wide.txt":          strings.Repeat("x", 1000) + "\n",
		"huge.txt":          strings.Repeat("func\n", 1<<20),
		".git/config":       "func\n",
		"node_modules/x.js": "func\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"out.txt": "../secret.txt", "out": "..", "in.go": "main.go"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func call(name string, arguments any) scriptmodel.ToolCall {
	return scriptmodel.ToolCall{Name: name, Arguments: arguments}
}

func says(content string, calls ...scriptmodel.ToolCall) scriptmodel.Turn {
	return scriptmodel.Turn{Content: content, ToolCalls: calls}
}

func turns(t ...scriptmodel.Turn) scriptmodel.Script {
	return scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "only", Turns: t}}}
}

func TestConversation(t *testing.T) {
	t.Parallel()
	b := setup(t, turns(
		says("I look.", call("list_files", map[string]any{"path": "lib"}), call("read_file", map[string]any{"path": "main.go", "from_line": 3, "to_line": 4})),
		says("It adds."),
	), "", nil)
	answer, err := b.agent.Run(t.Context(), "", "What does it do?")
	if err != nil || answer != "It adds." {
		t.Fatalf("answer %q, %v", answer, err)
	}
	seen := b.server.Requests()
	if len(seen) != 2 {
		t.Fatalf("%d model calls, want 2", len(seen))
	}
	var offered []string
	for _, tool := range seen[1].Request.Tools {
		offered = append(offered, tool.Function.Name)
		if !json.Valid(tool.Function.Parameters) {
			t.Errorf("%s: parameters are not JSON", tool.Function.Name)
		}
	}
	if diff := cmp.Diff([]string{"list_files", "read_file", "search", "research"}, offered); diff != "" {
		t.Error(diff)
	}
	messages := seen[1].Request.Messages
	calls := messages[2].ToolCalls
	want := []scriptmodel.Message{
		{Role: "system", Content: messages[0].Content},
		{Role: "user", Content: "What does it do?"},
		{Role: "assistant", Content: "I look.", ToolCalls: []scriptmodel.Call{
			{ID: calls[0].ID, Type: "function", Function: scriptmodel.Function{Name: "list_files", Arguments: `{"path":"lib"}`}},
			{ID: calls[1].ID, Type: "function", Function: scriptmodel.Function{Name: "read_file", Arguments: `{"from_line":3,"path":"main.go","to_line":4}`}},
		}},
		{Role: "tool", ToolCallID: calls[0].ID, Content: "add.go 66 bytes\nlatin.txt 10 bytes\nlogo.png 10 bytes\n"},
		{Role: "tool", ToolCallID: calls[1].ID, Content: "    3  func main() {\n    4  \tprintln(\"hi\")\n(main.go has 5 lines; read on from line 5)\n"},
	}
	if diff := cmp.Diff(want, messages); diff != "" {
		t.Error(diff)
	}
}

// TestTools lets a real agent make each tool call and checks the result that the model receives.
func TestTools(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, tool string
		arguments  any
		want       string // prefix of the result
		more       string // also part of the result
	}{
		{"top", "list_files", map[string]any{"path": "/"}, ".git/\nempty.txt 0 bytes\n", "lib/\nlong.txt 5000 bytes\nmain.go 45 bytes\nnode_modules/\nout (L---------)\n"},
		{"no arguments", "list_files", "", ".git/\n", ""},
		{"list a file", "list_files", map[string]any{"path": "main.go"}, "error: ", "not a directory"},
		{"list through a link", "list_files", map[string]any{"path": "out"}, "error: ", "path escapes from parent"},
		{"list the parent folder", "list_files", map[string]any{"path": ".."}, "error: ", "path escapes from parent"},
		{"read in the parent folder", "read_file", map[string]any{"path": "../secret.txt"}, "error: ", "path escapes from parent"},
		{"read in the parent folder by a detour", "read_file", map[string]any{"path": "lib/../../secret.txt"}, "error: ", "path escapes from parent"},
		{"read an absolute path", "read_file", map[string]any{"path": "/etc/hostname"}, "error: ", "path escapes from parent"},
		{"read a link out", "read_file", map[string]any{"path": "out.txt"}, "error: ", "path escapes from parent"},
		{"read through a link out", "read_file", map[string]any{"path": "out/secret.txt"}, "error: ", "path escapes from parent"},
		{"read a link inside", "read_file", map[string]any{"path": "./in.go", "to_line": 1}, "    1  package main\n", ""},
		{"read a pipe", "read_file", map[string]any{"path": "pipe"}, "error: pipe is not a text file", ""},
		{"read a folder", "read_file", map[string]any{"path": "lib"}, "error: lib is a folder", ""},
		{"read without a path", "read_file", map[string]any{}, "error: path is missing", ""},
		{"read a missing file", "read_file", map[string]any{"path": "no.go"}, "error: no.go: no such file or directory", ""},
		{"read a picture", "read_file", map[string]any{"path": "lib/logo.png"}, "error: lib/logo.png is not a text file", ""},
		{"read Latin-1", "read_file", map[string]any{"path": "lib/latin.txt"}, "error: lib/latin.txt is not a text file", ""},
		{"read a huge file", "read_file", map[string]any{"path": "huge.txt"}, "error: huge.txt has 5242880 bytes, more than 4194304", ""},
		{"read an empty file", "read_file", map[string]any{"path": "empty.txt"}, "(empty file)\n", ""},
		{"read a long file", "read_file", map[string]any{"path": "long.txt", "from_line": 100}, "  100  line\n", "  499  line\n(long.txt has 1000 lines; read on from line 500)\n"},
		{"read a long line", "read_file", map[string]any{"path": "wide.txt"}, "    1  " + strings.Repeat("x", 300) + "…\n", ""},
		{"read after the end", "read_file", map[string]any{"path": "main.go", "from_line": 6}, "error: main.go has 5 lines, none from line 6 on", ""},
		{"read backwards", "read_file", map[string]any{"path": "main.go", "from_line": 3, "to_line": 2}, "error: from_line 3 is after to_line 2", ""},
		{"search everything", "search", map[string]any{"pattern": `^func (\w+)\(`}, "lib/add.go:4: func Add(a, b int) int { return a + b }\nmain.go:3: func main() {\n", ""},
		{"search a file", "search", map[string]any{"pattern": "hi", "path": "main.go"}, "main.go:4: println(\"hi\")\n", ""},
		{"search without a match", "search", map[string]any{"pattern": "goto"}, "(no match)\n", ""},
		{"search with too many matches", "search", map[string]any{"pattern": "line", "path": "long.txt"}, "long.txt:1: line\n", "long.txt:100: line\n(more than 100 matches; narrow the search)\n"},
		{"search the parent folder", "search", map[string]any{"pattern": "secret", "path": ".."}, "error: ", "path escapes from parent"},
		{"search through a link", "search", map[string]any{"pattern": "secret", "path": "out"}, "error: ", "path escapes from parent"},
		{"search a picture", "search", map[string]any{"pattern": "PNG", "path": "lib/logo.png"}, "error: lib/logo.png is not a text file", ""},
		{"search ignores links", "search", map[string]any{"pattern": "^secret"}, "(no match)\n", ""},
		{"search a missing path", "search", map[string]any{"pattern": "x", "path": "no"}, "error: ", "no such file"},
		{"search without a pattern", "search", map[string]any{}, "error: pattern is missing", ""},
		{"search an invalid pattern", "search", map[string]any{"pattern": "("}, "error: error parsing regexp: missing closing )", ""},
		{"research without a question", "research", map[string]any{}, "error: question is missing", ""},
		{"incomplete arguments", "search", `{"pattern":`, "error: arguments: unexpected end of JSON input", ""},
		{"arguments of a wrong type", "read_file", map[string]any{"path": "main.go", "from_line": "one"}, "error: arguments: json: cannot unmarshal string", ""},
		{"unknown tool", "write_file", nil, `error: unknown tool "write_file"; there are list_files, read_file, search, research`, ""},
	}
	dir := project(t)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, turns(says("", call(row.tool, row.arguments)), says("done")), dir, nil)
			if answer, err := b.agent.Run(t.Context(), "", "?"); err != nil || answer != "done" {
				t.Fatalf("answer %q, %v", answer, err)
			}
			last := b.server.Requests()[1].Request
			got := last.ToolResults()[0].Content
			if !strings.HasPrefix(got, row.want) || !strings.Contains(got, row.more) {
				t.Errorf("got %q, want %q... and %q", got, row.want, row.more)
			}
		})
	}
}

// TestParallelCalls lets the sub-agents of one turn wait for each other. The first one finishes
// last.
func TestParallelCalls(t *testing.T) {
	t.Parallel()
	started, second := make(chan struct{}), make(chan struct{})
	script := scriptmodel.Script{Scenes: []scriptmodel.Scene{
		{Name: "one", Match: scriptmodel.Match{User: "part one"}, Turns: []scriptmodel.Turn{{Reply: func(ctx context.Context, _ *scriptmodel.Request) (scriptmodel.Turn, error) {
			close(started)
			select {
			case <-second:
			case <-ctx.Done():
			}
			return says("answer one"), ctx.Err()
		}}}},
		{Name: "two", Match: scriptmodel.Match{User: "part two"}, Turns: []scriptmodel.Turn{{Reply: func(ctx context.Context, _ *scriptmodel.Request) (scriptmodel.Turn, error) {
			select {
			case <-started:
			case <-ctx.Done():
			}
			close(second)
			return says("answer two"), ctx.Err()
		}}}},
		{Name: "whole", Turns: []scriptmodel.Turn{
			says("", call("research", map[string]any{"question": "part one"}), call("research", map[string]any{"question": "part two"}), call("no_tool", nil)),
			{Reply: func(_ context.Context, req *scriptmodel.Request) (scriptmodel.Turn, error) {
				r := req.ToolResults()
				return says(r[0].Content + ", " + r[1].Content + ", " + r[2].Content[:8]), nil
			}},
		}},
	}}
	b := setup(t, script, "", &codereader.Options{MaxParallel: 2})
	answer, err := b.agent.Run(t.Context(), "", "the whole")
	if err != nil || answer != "answer one, answer two, error: u" {
		t.Errorf("answer %q, %v", answer, err)
	}
}

func TestResearchDepth(t *testing.T) {
	t.Parallel()
	deeper := func(_ context.Context, req *scriptmodel.Request) (scriptmodel.Turn, error) {
		for _, tool := range req.Tools {
			if tool.Function.Name == "research" {
				return says("", call("research", map[string]any{"question": req.Question() + "!"})), nil
			}
		}
		return says(req.Question()), nil
	}
	last := func(_ context.Context, req *scriptmodel.Request) (scriptmodel.Turn, error) {
		return says(req.ToolResults()[0].Content), nil
	}
	b := setup(t, turns(scriptmodel.Turn{Reply: deeper}, scriptmodel.Turn{Reply: last}), "", &codereader.Options{MaxDepth: 2})
	answer, err := b.agent.Run(t.Context(), "", "deep")
	if err != nil || answer != "deep!!" {
		t.Errorf("answer %q, %v", answer, err)
	}
}

func TestSubAgentFails(t *testing.T) {
	t.Parallel()
	b := setup(t, scriptmodel.Script{Scenes: []scriptmodel.Scene{
		{Name: "part", Match: scriptmodel.Match{User: "part"}, Turns: []scriptmodel.Turn{{Error: &scriptmodel.Failure{Status: 400, Message: "too hard"}}}},
		{Name: "whole", Turns: []scriptmodel.Turn{
			says("", call("research", map[string]any{"question": "part"})),
			{Reply: func(_ context.Context, req *scriptmodel.Request) (scriptmodel.Turn, error) {
				return says(req.ToolResults()[0].Content), nil
			}},
		}},
	}}, "", nil)
	answer, err := b.agent.Run(t.Context(), "", "whole")
	if err != nil || answer != "error: call the model, try 1: HTTP 400: too hard" {
		t.Errorf("answer %q, %v", answer, err)
	}
}

func TestLastRound(t *testing.T) {
	t.Parallel()
	again := says("", call("list_files", map[string]any{"path": "."}))
	rows := []struct {
		name string
		last scriptmodel.Turn
		want string
		err  error
	}{
		{"answers", says("That is all."), "That is all.", nil},
		{"answers and still calls a tool", says("Nearly.", call("list_files", nil)), "Nearly.", nil},
		{"still calls a tool", again, "", codereader.ErrNoAnswer},
		{"says nothing", says("  "), "", codereader.ErrNoAnswer},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, turns(again, again, again, row.last), "", &codereader.Options{MaxSteps: 3})
			answer, err := b.agent.Run(t.Context(), "", "?")
			if answer != row.want || !errors.Is(err, row.err) {
				t.Errorf("answer %q, %v", answer, err)
			}
			seen := b.server.Requests()
			last := seen[len(seen)-1].Request
			if len(seen) != 4 || len(seen[2].Request.Tools) == 0 || len(last.Tools) != 0 {
				t.Errorf("%d model calls, the last with %d tools", len(seen), len(last.Tools))
			}
			if m := last.Messages[len(last.Messages)-1]; m.Role != "user" || !strings.Contains(string(m.Content), "all of your 3 rounds") {
				t.Errorf("last message %+v", m)
			}
		})
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name    string
		failure scriptmodel.Failure
		slept   []int // in seconds
		status  int   // of the error, 0 for success
	}{
		{"rate limit with Retry-After", scriptmodel.Failure{Status: 429, RetryAfter: scriptmodel.Duration(7 * time.Second), Times: 2}, []int{7, 7}, 0},
		{"rate limit", scriptmodel.Failure{Status: 429, Times: 3}, []int{2, 4, 8}, 0},
		{"server error", scriptmodel.Failure{Status: 503, Times: 1}, []int{2}, 0},
		{"permanent server error", scriptmodel.Failure{Status: 500}, []int{2, 4, 8, 16, 32}, 500},
		{"Retry-After too long", scriptmodel.Failure{Status: 429, RetryAfter: scriptmodel.Duration(time.Hour)}, nil, 429},
		{"refused", scriptmodel.Failure{Status: 403}, nil, 403},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, turns(scriptmodel.Turn{Content: "yes", Error: &row.failure}), "", nil)
			answer, err := b.agent.Run(t.Context(), "", "?")
			var refused *codereader.APIError
			if row.status == 0 && (err != nil || answer != "yes") {
				t.Errorf("answer %q, %v", answer, err)
			}
			if row.status != 0 && (!errors.As(err, &refused) || refused.Status != row.status) {
				t.Errorf("error %v, want HTTP %d", err, row.status)
			}
			var slept []time.Duration
			for _, seconds := range row.slept {
				slept = append(slept, time.Duration(seconds)*time.Second)
			}
			if diff := cmp.Diff(slept, b.slept); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// transport sends answers that a script cannot send.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestUnusualAnswers(t *testing.T) {
	t.Parallel()
	reply := func(status int, body string, header ...string) func() (*http.Response, error) {
		return func() (*http.Response, error) {
			resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
			for i := 0; i < len(header); i += 2 {
				resp.Header.Set(header[i], header[i+1])
			}
			return resp, nil
		}
	}
	good := reply(200, `{"choices":[{"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}`)
	broken := func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }
	rows := []struct {
		name  string
		first func() (*http.Response, error)
		tries int
		err   string
	}{
		{"network error", broken, 2, ""},
		{"gateway that answers in HTML", reply(502, "<html>"), 2, ""},
		{"Retry-After in the past", reply(429, "", "Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT"), 2, ""},
		{"code as a number", reply(400, `{"error":{"message":"no","code":400}}`), 1, "HTTP 400: no"},
		{"quota used up", reply(429, `{"error":{"message":"pay","code":"insufficient_quota"}}`), 1, "HTTP 429: pay"},
		{"not JSON", reply(200, "yes"), 1, "unusable answer: invalid character"},
		{"no choices", reply(200, "{}"), 1, "unusable answer: no choices"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			model, err := codereader.NewModel(codereader.ModelConfig{
				Sleep: func(context.Context, time.Duration) error { return nil },
				HTTPClient: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
					if r.URL.String() != "https://api.openai.com/v1/chat/completions" || r.Header.Get("Authorization") != "" {
						return nil, fmt.Errorf("unexpected request to %s with %v", r.URL, r.Header)
					}
					if tries++; tries == 1 {
						return row.first()
					}
					return good()
				})},
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = model.Chat(t.Context(), codereader.ChatRequest{})
			if tries != row.tries || (row.err == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), row.err)) {
				t.Errorf("%d tries, error %v", tries, err)
			}
		})
	}
}

// writer calls a function for every write.
type writer func()

func (f writer) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

func TestMissingToolCallIDs(t *testing.T) {
	t.Parallel()
	var requests []codereader.ChatRequest
	model, err := codereader.NewModel(codereader.ModelConfig{HTTPClient: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		var req codereader.ChatRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			return nil, err
		}
		requests = append(requests, req)
		body := `{"choices":[{"message":{"tool_calls":[{"function":{"name":"list_files"}},{"function":{"name":"list_files"}}]}}]}`
		if len(requests) == 2 {
			body = `{"choices":[{"message":{"content":"yes"}}]}`
		}
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(body))}, nil
	})}})
	if err != nil {
		t.Fatal(err)
	}
	folder, err := codereader.OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if _, err := codereader.New(model, folder, nil).Run(t.Context(), "", "?"); err != nil {
		t.Fatal(err)
	}
	m := requests[1].Messages
	if m[2].Role != "assistant" || m[2].ToolCalls[0].ID != "call_1" || m[3].ToolCallID != "call_1" || m[4].ToolCallID != "call_2" || m[4].Content != "(empty folder)\n" {
		t.Errorf("messages %+v", m)
	}
}

func TestNewModelRejectsBaseURL(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"api.openai.com/v1", "ftp://x/v1", "http://", ":"} {
		if _, err := codereader.NewModel(codereader.ModelConfig{BaseURL: base}); err == nil {
			t.Errorf("%q is accepted", base)
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user went away")

	t.Run("in a model call of a sub-agent", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		b := setup(t, scriptmodel.Script{Scenes: []scriptmodel.Scene{
			{Name: "part", Match: scriptmodel.Match{User: "part"}, Turns: []scriptmodel.Turn{{Reply: func(ctx context.Context, _ *scriptmodel.Request) (scriptmodel.Turn, error) {
				cancel(cause)
				<-ctx.Done() // the agent closes the connection
				return scriptmodel.Turn{}, ctx.Err()
			}}}},
			{Name: "whole", Turns: []scriptmodel.Turn{says("", call("research", map[string]any{"question": "part"}))}},
		}}, "", nil)
		if _, err := b.agent.Run(ctx, "", "whole"); !errors.Is(err, cause) || !strings.Contains(err.Error(), "call tools") {
			t.Errorf("error %v", err)
		}
	})

	t.Run("between two tries", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		tries := 0
		model, err := codereader.NewModel(codereader.ModelConfig{
			HTTPClient: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
				tries++
				return &http.Response{StatusCode: 500, Body: http.NoBody}, nil
			})},
			// The log line is written just before the real wait begins.
			Logger: slog.New(slog.NewTextHandler(writer(func() { cancel(cause) }), nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := model.Chat(ctx, codereader.ChatRequest{}); !errors.Is(err, cause) || tries != 1 {
			t.Errorf("%d tries, error %v", tries, err)
		}
	})

	t.Run("before the start", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		b := setup(t, turns(says("x")), "", nil)
		if _, err := b.agent.Run(ctx, "", "?"); !errors.Is(err, cause) {
			t.Errorf("error %v", err)
		}
	})
}

// TestDemo runs the demo on this repository, and on a folder without anything that the script
// looks for.
func TestDemo(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"this repository": "../..", "an empty folder": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, codereader.DemoScript(0), dir, nil)
			answer, err := b.agent.Run(t.Context(), "", codereader.DemoQuestion)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(answer)
			scenes := map[string]int{}
			failed := 0
			for _, seen := range b.server.Requests() {
				scenes[seen.Scene]++
				if seen.Status != http.StatusOK {
					t.Errorf("scene %s, turn %d: status %d", seen.Scene, seen.Turn, seen.Status)
				}
				if seen.Scene == "writing" && seen.Turn == 1 && strings.HasPrefix(seen.Request.ToolResults()[0].Content, "error: ") {
					failed++
				}
			}
			if diff := cmp.Diff(map[string]int{"reader": 3, "writing": 4, "hierarchy": 3, "links": 2}, scenes); diff != "" {
				t.Error(diff)
			}
			if failed != 1 {
				t.Errorf("%d failed tool calls in scene writing, want 1", failed)
			}
			if strings.Contains(answer, "“”") {
				t.Errorf("an empty quote in %s", answer)
			}
			if name == "this repository" && !strings.Contains(answer, "module github.com/actlog/actlog") {
				t.Errorf("go.mod is not quoted in %s", answer)
			}
		})
	}
}
