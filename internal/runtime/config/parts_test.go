package config_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actlog/actlog/agent/mcp"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/config"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// serverVariable makes the test binary an MCP server.
const serverVariable = "CONFIG_TEST_SERVER"

// serve is an MCP server over stdio with the tools echo and hidden.
func serve() {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	for _, name := range []string{"echo", "hidden"} {
		sdk.AddTool(s, &sdk.Tool{Name: name},
			func(_ context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: os.Getenv(serverVariable)}}}, nil, nil
			})
	}
	if err := s.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

const partsFile = `models:
  default: {provider: openai, model: m, baseURL: "${URL}", apiKey: "${KEY}", maxConcurrent: 1}
  claude: {provider: anthropic, model: m, baseURL: "${ROOT}", apiKey: "${KEY}", maxPerMinute: 5}
mcpServers:
  demo: {command: ["${PROGRAM}"], env: {` + serverVariable + `: "${KEY}"}, exclude: [hid*], trusted: true}
toolsets: {files: {root: src}}
agents:
  a: {tools: ["files.*"], mcpServers: [demo]}
  b: {tools: ["files.*", demo-echo], enableWrite: false}
  c: {tools: ["files.*"], mcpServers: [demo], exclude: ["files.wr*", "files.edit_*", "files.append_file", "files.m*", "files.delete_file"]}
policies: [{tools: demo-echo, writes: false}, {tools: files.edit_file, approval: false, timeout: 1m}]
`

// What a configuration makes works: a model answers over HTTP, an MCP server lists its tools, and files are read.
func TestParts(t *testing.T) {
	t.Parallel()
	script := scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "only", Turns: []scriptmodel.Turn{{Content: "hi"}}}}}
	api, err := scriptmodel.Start(script, &scriptmodel.Options{APIKey: "key-12345678"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Close(); err != nil {
			t.Error(err)
		}
	})

	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "src"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "src", "a.txt"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}

	lookup := environment("URL", api.URL(), "ROOT", strings.TrimSuffix(api.URL(), "/v1"), "KEY", "key-12345678",
		"PROGRAM", program)
	c, err := config.Parse(filepath.Join(dir, "actlog.yaml"), []byte(partsFile), config.Options{Lookup: lookup})
	if err != nil {
		t.Fatal(err)
	}

	parts, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer parts.Close()
	for _, name := range []string{"default", "claude"} {
		answer, err := parts.Models[name].Generate(t.Context(),
			model.Request{Messages: []model.Message{model.User("hello")}}, nil)
		if err != nil || answer.Message.Text() != "hi" {
			t.Fatalf("%s: %+v %v", name, answer, err)
		}
	}

	pool := mcp.NewPool(mcp.Options{})
	defer pool.Close()
	ofServers, err := pool.Tools(t.Context(), parts.Servers())
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(parts.Tools, ofServers)

	for agent, want := range map[string]string{
		"a": "files.list_files files.read_file files.search_in_files files.glob files.file_info files.write_file " +
			"files.edit_file files.edit_lines files.append_file " +
			"files.make_folder files.move_file files.delete_file demo-echo",
		"b": "files.list_files files.read_file files.search_in_files files.glob files.file_info demo-echo",
		// D7: an agent excludes tools, too
		"c": "files.list_files files.read_file files.search_in_files files.glob files.file_info demo-echo",
	} {
		d, ok := c.Definition(agent)
		if !ok {
			t.Fatalf("agent = %v", agent)
		}
		set, err := tool.NewSet(d.Select(all)...)
		if err != nil {
			t.Fatal(err)
		}

		if got := strings.Join(set.Names(), " "); got != want {
			t.Errorf("%s: %s", agent, got)
		}
		if !slices.Equal(d.MCPServers, []string{"demo"}) {
			t.Errorf("%s: %v", agent, d.MCPServers)
		}
		for name, want := range map[string]string{"demo-echo": "key-12345678", "files.read_file": "text"} {
			called, _ := set.Get(name)
			arguments := map[string]string{"files.read_file": `{"path":"a.txt"}`}[name]
			result, err := tool.Do(t.Context(), called, d.Policy(called.Spec()),
				tool.Call{ID: "1", Arguments: json.RawMessage(arguments)}, 0)
			if err != nil || !strings.Contains(result.Text, want) {
				t.Errorf("%s: %+v %v", name, result, err)
			}
		}
	}

	d, _ := c.Definition("a")
	for _, each := range all {
		if s := each.Spec(); s.Name == "files.edit_file" {
			if p := d.Policy(s); p.Approval || p.Timeout != time.Minute || !p.Writes {
				t.Errorf("d.Policy(s) = %+v", p)
			}
		}
	}
}

const definitionFile = `models:
  default: {provider: openai, model: m, baseURL: "${URL}", apiKey: "${KEY}", temperature: 0.5, maxTokens: 100}
mcpServers: {srv: {command: [x]}, other: {command: [x]}}
toolsets: {files: {}}
policies: [{tools: "files.*", timeout: 30s}, {tools: "srv-*", onUnknown: ask}, {tools: "git.*", approval: true}]
agents:
  a: {description: D, systemPrompt: P, tools: [files.read_file, "s*-x"], maxSteps: 3, limits: {costUsd: 0.5}, waitTimeout: 5m,
    responseSchema: {type: object, properties: {b: {type: string}, a: {type: integer, minimum: 1}}}}
`

// The definition of an agent is the same for the same file, in whatever order its keys are, and another one if
// anything changes that the agent depends on.
func TestDefinition(t *testing.T) {
	t.Parallel()
	pin := func(text string) (string, string) {
		t.Helper()
		c, err := parse(t, text, config.Options{})
		if err != nil {
			t.Fatal(err)
		}

		d, ok := c.Definition("a")
		if !ok {
			t.Fatal("no definition")
		}
		b, sum, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}

		var back define.Definition
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if again, other, err := back.JSON(); err != nil || string(again) != string(b) || sum != other {
			t.Errorf("read back: %s, %s %v", b, again, err)
		}
		return string(b), sum
	}

	got, sum := pin(definitionFile)
	want := `{"agent":"a","description":"D","systemPrompt":"P","model":{"name":"default","provider":"openai","model":"m","temperature":0.5,"maxTokens":100},` +
		`"tools":["files.read_file","s*-x"],"mcpServers":["srv"],"maxSteps":3,` +
		`"responseSchema":{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer","minimum":1}}},` +
		`"limits":{"costUsd":0.5},"waitTimeout":"5m0s","enableWrite":true,` +
		`"policies":[{"tools":"files.*","timeout":"30s"},{"tools":"srv-*","onUnknown":"ask"}]}`
	if got != want || len(sum) != 64 {
		t.Errorf("cmp.Diff(want, got) = %s", cmp.Diff(want, got))
	}

	for _, tt := range []struct {
		from, to string
		same     bool
	}{
		{"description: D, systemPrompt: P", "systemPrompt: P, description: D", true},
		{"approval: true", "approval: false", true}, // of a tool that the agent does not have
		{"{command: [x]}, other", "{command: [y]}, other", true},
		{"P,", "Q,", false},
		{"0.5, max", "0.6, max", false},
		{"timeout: 30s", "timeout: 31s", false},
	} {
		if _, other := pin(strings.Replace(definitionFile, tt.from, tt.to, 1)); (other == sum) != tt.same {
			t.Errorf("%s to %s: same %v", tt.from, tt.to, other == sum)
		}
	}
}

// What opens not is an error that names it, and leaves nothing open.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), planted)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}

	c, err := parse(t, "toolsets: {files: {root: \"${D}\"}}\n", config.Options{Lookup: environment("D", dir)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}

	if _, err := c.Open(); err == nil || err.Error() != "toolsets.files: the folder [secret] cannot be opened" {
		t.Error(err)
	}
}

// C16: with an embedder, the toolset search finds by its vectors, which are kept when the file is loaded again.
func TestSearchWithEmbedder(t *testing.T) {
	t.Parallel()
	api, err := scriptmodel.Start(scriptmodel.Script{
		Scenes: []scriptmodel.Scene{{Name: "only", Turns: []scriptmodel.Turn{{Content: "hi"}}}},
	}, &scriptmodel.Options{APIKey: "key-12345678"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Close(); err != nil {
			t.Error(err)
		}
	})

	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.go"), "package apple\n")
	write(t, filepath.Join(dir, "b.go"), "package banana\n")
	path := filepath.Join(dir, "actlog.yaml")
	const file = "models: {default: {provider: openai, model: m}}\n" +
		"embedder: {provider: openai, model: words, baseURL: \"${URL}\", apiKey: \"${KEY}\"}\ntoolsets: {search: {}}\n"
	write(t, path, file)

	current, err := config.Open(path, config.Options{Lookup: environment("URL", api.URL(), "KEY", "key-12345678")})
	if err != nil {
		t.Fatal(err)
	}
	defer current.Close()
	for i, more := range []string{"", "redact: [email]\n"} {
		if write(t, path, file+more); i > 0 {
			if err := current.Reload(); err != nil {
				t.Fatal(err)
			}
		}
		parts, release, err := current.Use()
		if err != nil {
			t.Fatal(err)
		}

		result, err := tool.Do(t.Context(), parts.Tools[0], tool.Policy{},
			tool.Call{Arguments: json.RawMessage(`{"query":"banana"}`)}, 0)
		if err != nil || result.Failed || len(result.Sources) != 1 || result.Sources[0].URI != "b.go" ||
			result.Sources[0].Score < 0.7 {
			t.Errorf("tool.Do = %+v %v", result, err)
		}
		release()
	}

	asked := 0
	for _, r := range api.Requests() {
		asked += strings.Count(string(r.Body), "package ")
	}
	if asked != 2 {
		t.Errorf("%d parts were embedded", asked)
	}
}
