package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actlog/actlog/internal/testkit/pgtest"
)

// failedRun are the records of a run that failed.
const failedRun = `{"kind":"plan","rootPlanId":"night","currentPlanId":"night","title":"Nightly report","state":"FAILED","startTime":"2026-11-19T23:00:00Z","endTime":"2026-11-19T23:01:30Z"}
{"kind":"agentExecution","rootPlanId":"night","planId":"night","stepId":"night-s1","agentName":"reporter","state":"FAILED"}
{"kind":"thinkAct","rootPlanId":"night","stepId":"night-s1","seq":0,"thinkInput":"Report the sales","thinkOutput":"I write the file.","state":"COMPLETED"}
{"kind":"actTool","rootPlanId":"night","stepId":"night-s1","seq":0,"toolCallId":"night-c1","name":"write_file","parameters":{"path":"report.md"},"state":"FAILED","errorKind":"disk_full","errorMessage":"no space left on device"}
`

// assistant is actlog mcp as a process, for a server and with a key.
func assistant(t *testing.T, server, key string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "mcp", "--server", server)
	cmd.Env = append(os.Environ(), beMain+"=1", "ACTLOG_API_KEY="+key)
	return cmd
}

// oldTransport does not speak the protocol of 2026-07-28.
type oldTransport struct{ sdk.Transport }

func (oldTransport) SupportsProtocolVersion(version string) bool { return version < "2026-07-28" }

// connectAssistant connects the SDK's own client over stdio, with the newest protocol or an older one.
func connectAssistant(t *testing.T, cmd *exec.Cmd, old bool) (*sdk.ClientSession, error) {
	t.Helper()
	var transport sdk.Transport = &sdk.CommandTransport{Command: cmd}
	if old {
		transport = oldTransport{transport}
	}

	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport,
		nil)
	if err == nil {
		t.Cleanup(func() {
			if err := session.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return session, err
}

// called calls a tool, and returns the text of its answer.
func called(t *testing.T, session *sdk.ClientSession, name string, arguments object) string {
	t.Helper()
	r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r.Content[0].(*sdk.TextContent).Text
}

// TestAssistant asks why a run failed over stdio: of a server with a Postgres of its own, which offers SQL without
// configuration, also when it is started again.
func TestAssistant(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve := func() *program { return start(t, "serve", "--listen", "127.0.0.1:0", "--data-dir", dir) }
	s := serve()
	post(t, s.url, failedRun)

	for _, old := range []bool{false, true} {
		c, err := connectAssistant(t, assistant(t, s.url, ""), old)
		if err != nil {
			t.Fatal(err)
		}

		for _, ask := range []struct {
			tool      string
			arguments object
			want      string
		}{
			{"find_runs", object{"failed": true}, `"planId":"night","title":"Nightly report"`},
			{"failures", object{"planId": "night"}, `"error":"disk_full: no space left on device"`},
			{"read_run", object{"planId": "night"}, `"failure":1`},
			{"read_step", object{"planId": "night", "at": "step:night-s1"}, `"output":"I write the file."`},
			{"read_row", object{"planId": "night", "at": "call:night-s1/0/night-c1"}, `{\"path\":\"report.md\"}`},
			{"search", object{"planId": "night", "text": "SPACE left"}, `"match":"space left"`},
			{"sql", object{"query": "SELECT error_kind FROM failure WHERE level = 'tool_call'"}, `[["disk_full"]]`},
			{"sql", object{"query": "SELECT pg_advisory_lock(1)"}, "permission denied for function"},
			{"sql", object{"query": "SELECT * FROM actlog.plan_execution_record"}, "permission denied for schema actlog"},
			{"describe_reports", object{"view": "failure"}, "error_kind"},
		} {
			if got := called(t, c, ask.tool, ask.arguments); !strings.Contains(got, ask.want) {
				t.Errorf("%s %v: %s, want %s", ask.tool, ask.arguments, got, ask.want)
			}
		}
	}

	s.kill(t)
	s = serve()
	c, err := connectAssistant(t, assistant(t, s.url, ""), false)
	if err != nil {
		t.Fatal(err)
	}
	if got := called(t, c, "sql", object{"query": "SELECT count(*) FROM plan"}); !strings.Contains(got, "[[1]]") {
		t.Errorf("called = %v", got)
	}

	// When the server goes away, calls end with an error that says so.
	s.kill(t)
	_, err = c.CallTool(t.Context(), &sdk.CallToolParams{Name: "find_runs", Arguments: object{}})
	if err == nil || !strings.Contains(err.Error(), "no answer from "+s.url) ||
		!strings.Contains(err.Error(), "is a server running there?") {
		t.Error(err)
	}
}

// TestAssistantIsRefused checks what error an assistant gets if it cannot ask the server.
func TestAssistantIsRefused(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	var writes bytes.Buffer
	var line bytes.Buffer
	if code := run(t.Context(), []string{"key", "writer", "--scopes", "write"}, &writes, &line); code != exitDone {
		t.Fatalf("exit code %d: %s", code, &line)
	}

	i := strings.Index(line.String(), "writer:")
	if i < 0 {
		t.Fatalf("line.String() = %v", line.String())
	}
	if err := os.WriteFile(keys, []byte(strings.Fields(line.String()[i:])[0]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	s := start(t, "serve", "--listen", "127.0.0.1:0", "--database-url", pgtest.New(t).URL, "--api-keys", keys)
	closed, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)

	for _, c := range []struct{ server, key, want string }{
		{"http://" + closed.Addr().String(), "", "no answer from"},
		{other.URL, "", "there is no /mcp at"},
		{s.url, "", "the server requires an API key: pass one in ACTLOG_API_KEY or --api-key"},
		{s.url, "actlog_wrong", "the server does not know this API key"},
		{s.url, strings.TrimSpace(writes.String()), "its scopes lack read: pass another key"},
	} {
		for _, old := range []bool{false, true} {
			if _, err := connectAssistant(t, assistant(t, c.server, c.key), old); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: %v", c, err)
			}
		}
	}
}

// TestAssistantLines sends lines that are no requests. Nothing but messages comes back, and the process ends with its
// input.
func TestAssistantLines(t *testing.T) {
	t.Parallel()
	s := start(t, "serve", "--listen", "127.0.0.1:0", "--database-url", pgtest.New(t).URL)
	cmd := assistant(t, s.url, "")
	cmd.Stdin = strings.NewReader(strings.Join([]string{
		"", "no message", `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":"a","result":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`,
		`{"jsonrpc":"2.0","id":2,"method":"no/method","params":{}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":[]}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"find_runs","arguments":{"q":"` +
			strings.Repeat("x", 100_000) + `"}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"find_runs","arguments":{}}}`,
	}, "\n"))

	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cmd.Output() = %v\n%s", err, &stderr)
	}

	got := map[string]string{}
	for lines := bufio.NewReader(bytes.NewReader(out)); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF && line == "" {
			break
		}

		var m struct {
			JSONRPC string
			ID      any
			Result  json.RawMessage
			Error   *struct {
				Code    int
				Message string
			}
		}

		if err := json.Unmarshal([]byte(line), &m); err != nil || m.JSONRPC != "2.0" {
			t.Fatalf("%q: %v", line, err)
		}
		what := string(m.Result)
		if m.Error != nil {
			what = m.Error.Message
		}
		got[fmt.Sprint(m.ID)] = what
	}

	for id, want := range map[string]string{
		"<nil>": "no message of JSON-RPC", "1": `"find_runs"`, "2": "no/method", "3": "invalid params",
		"4": "at most 64 KiB", "5": `"runs"`,
	} {
		if !strings.Contains(got[id], want) {
			t.Errorf("%s: %s, want %s", id, got[id], want)
		}
	}
	if len(got) != 6 || stderr.Len() > 0 {
		t.Errorf("%d answers; stderr: %s", len(got), &stderr)
	}
}

// TestAssistantCancels checks that the request of a call ends when the assistant does not wait for it any more, and
// that other calls go on.
func TestAssistantCancels(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan struct{})
	second := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if bytes.Contains(body, []byte(`"id":1`)) {
			close(begun)
			<-r.Context().Done()
			close(ended)
			return
		}

		close(second)
		<-ended
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"jsonrpc":"2.0",
			"id":2,"result":{}}`)
	}))
	t.Cleanup(server.Close)

	in, out := io.Pipe()
	var answers bytes.Buffer
	c := &client{base: server.URL}
	t.Cleanup(c.http.CloseIdleConnections)
	b := &bridge{client: c, out: &answers, stderr: t.Output(), calls: map[string]context.CancelFunc{}}
	var bridged sync.WaitGroup
	bridged.Go(func() {
		if err := b.serve(t.Context(), in); err != nil {
			t.Error(err)
		}
	})

	fmt.Fprintln(out, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
	<-begun
	fmt.Fprintln(out, `{"jsonrpc":"2.0","id":2,"method":"tools/call"}`)
	<-second
	fmt.Fprintln(out, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	<-ended
	out.Close()
	bridged.Wait()

	if got := answers.String(); got != `{"jsonrpc":"2.0","id":2,"result":{}}`+"\n" {
		t.Errorf("answers.String() = %v", got)
	}
}

// TestUnsafeReportRole checks that a role that may do more than read the reports is not used, and that everything else
// is served.
func TestUnsafeReportRole(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := start(t, "serve", "--listen", "127.0.0.1:0", "--database-url", db.URL, "--report-url", db.URL)
	if log := s.stderr.String(); !strings.Contains(log, "assistants have no SQL on the reports") ||
		!strings.Contains(log, "is a superuser") {
		t.Errorf("log = %v", log)
	}

	c, err := connectAssistant(t, assistant(t, s.url, ""), false)
	if err != nil {
		t.Fatal(err)
	}

	tools, err := c.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 6 || slices.ContainsFunc(tools.Tools, func(tool *sdk.Tool) bool {
		return tool.Name == "sql"
	}) {
		t.Errorf("tools = %+v, %v", tools, err)
	}
}

// TestDocsAssistant makes the role for SQL as the docs say, and asks what their example asks.
func TestDocsAssistant(t *testing.T) {
	t.Parallel()
	requireClients(t, "curl")
	database := docsServer(t)
	admin := connect(t, database, "")
	mustSQL(t, admin, under(t, codeBlocks(t, "operations.md", "sql"), "Roles", 2)[0])
	if code, _, stderr := actlog(t, "migrate", "up", "--database-url", as(t, database, "actlog_owner")); code != exitDone {
		t.Fatalf("migrate: exit code %d\n%s", code, stderr)
	}

	for _, sql := range under(t, codeBlocks(t, "mcp.md", "sql"), "The role for SQL", 2) {
		mustSQL(t, admin, sql)
	}
	mustSQL(t, connect(t, database, "actlog_owner"), under(t, codeBlocks(t, "operations.md", "sql"), "Partitions", 3)[0])

	s := start(t, "serve", "--listen", "127.0.0.1:0", "--database-url", as(t, database, "actlog_server"), "--report-url",
		as(t, database, "actlog_sql"))
	output(t, strings.ReplaceAll(under(t, codeBlocks(t, "mcp.md", "sh"), "An example", 1)[0], defaultServer, s.url))
	c, err := connectAssistant(t, assistant(t, s.url, ""), false)
	if err != nil {
		t.Fatal(err)
	}

	for shown := under(t, codeBlocks(t, "mcp.md", "json"), "An example", 6); len(shown) > 0; shown = shown[2:] {
		var call struct {
			Name      string
			Arguments object
		}
		if err := json.Unmarshal([]byte(shown[0]), &call); err != nil {
			t.Fatal(err)
		}

		var got any
		if err := json.Unmarshal([]byte(called(t, c, call.Name, call.Arguments)), &got); err != nil {
			t.Fatal(err)
		}
		wantShown(t, shown[1], got)
	}

	if got := called(t, c, "sql", object{"query": "SELECT pg_advisory_lock(1)"}); !strings.Contains(got,
		"permission denied for function pg_advisory_lock") {
		t.Errorf("called = %v", got)
	}
	s.terminate(t)
	if strings.Contains(s.stderr.String(), "level=WARN") || strings.Contains(s.stderr.String(), "level=ERROR") {
		t.Errorf("the server lacks rights:\n%s", s.stderr)
	}
}
