package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/actlog/actlog/agent/tool"
	_ "github.com/actlog/actlog/agent/tool/code" // registers the toolset
	"github.com/actlog/actlog/internal/runtime/config"
	"github.com/actlog/actlog/internal/runtime/define"
)

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) != "" {
		serve()
		return
	}
	goleak.VerifyTestMain(m)
}

// environment returns variables as Options.Lookup.
func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

var keys = environment("KEY", "k-12345678", "URL", "http://127.0.0.1:1/v1", "EMPTY", "", "LINES", "hunter2\n")

// parse reads a text as the file actlog.yaml of an empty folder.
func parse(t testing.TB, text string, o config.Options) (*config.Config, error) {
	t.Helper()
	if o.Lookup == nil {
		o.Lookup = keys
	}
	return config.Parse(filepath.Join(t.TempDir(), "actlog.yaml"), []byte(text), o)
}

// problems returns the mistakes of a text as "line: field: message".
func problems(t testing.TB, text string) (found []string) {
	t.Helper()
	_, err := parse(t, text, config.Options{})
	if err == nil {
		return nil
	}
	wrong, ok := errors.AsType[*config.InvalidError](err)
	if !ok {
		t.Fatal(err)
	}

	for _, p := range wrong.Problems {
		line := fmt.Sprintf("%d: %s: %s", p.Line, p.Field, p.Message)
		if p.Field == "" {
			line = fmt.Sprintf("%d: %s", p.Line, p.Message)
		}
		found = append(found, line)
	}
	return found
}

// The example of docs/configuration.md loads, without a warning but for what is not built.
func TestExampleOfTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) == 0 {
		t.Fatal("the page has no example")
	}

	c, err := parse(t, blocks[0][1], config.Options{
		Lookup: environment("OPENAI_BASE_URL", "http://127.0.0.1:1/v1", "OPENAI_API_KEY", "k", "ANTHROPIC_BASE_URL",
			"http://127.0.0.1:1", "ANTHROPIC_API_KEY", "k", "SEARCH_TOKEN", "t"),
	})
	if err != nil {
		t.Fatal(err)
	}

	for _, w := range c.Warnings {
		if !strings.Contains(w.Message, "no tools of it yet") {
			t.Errorf("w = %v", w)
		}
	}
	if len(c.Models) != 2 || c.Embedder == nil || len(c.MCPServers) != 2 || len(c.Agents) != 3 || len(c.Workflows) != 1 ||
		len(c.Plans) != 1 || len(c.Roles) != 1 || len(c.Redact) != 3 {
		t.Errorf("parse = %+v", c)
	}

	// Every key that the package knows is on the page.
	source, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`"(\w+)": +(?:func\(n node\)|agent,|request,|model,|tools,)`)
	for _, file := range source {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range key.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(string(page), "`"+m[1]+"`") {
				t.Errorf("docs/configuration.md lacks key %s of %s", m[1], file)
			}
		}
	}
}

const base = `models:
  default: {provider: openai, model: m}
`

// Each mistake is named with its line and field.
func TestProblems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "# nothing\n", []string{"0: the file is empty"}},
		{"not YAML", "a: b\nc: [\n", []string{"2: not YAML: did not find expected node content"}},
		{"anchor", "a: *hunter2\n", []string{"0: not YAML: unknown anchor ... referenced"}},
		{"two documents", base + "---\na: b\n", []string{"3: the file has a second document; want one"}},
		{"a list", "- a\n", []string{"1: want a mapping, not a list"}},
		{"unknown keys", "modles: {}\nzebra: 1\n", []string{
			"1: modles: no such key; did you mean models?",
			"2: zebra: no such key; there are: agents, dag, embedder, mcpServers, models, orchestrator, plans, policies, projects, " +
				"redact, roles, runs, schedules, toolsets, workflows"}},
		{"twice", "models: {}\nroles: {}\nmodels: {}\n", []string{"3: models: it is there twice, first in line 1"}},
		{"merge", "x: 1\nmodels:\n  a: &a {provider: openai, model: m}\n  b: {<<: *a}\n", []string{
			"1: x: no such key; there are: agents, dag, embedder, mcpServers, models, orchestrator, plans, policies, projects, redact, " +
				"roles, runs, schedules, toolsets, workflows",
			"4: models.b: want a name as key", "4: models.b.provider: required", "4: models.b.model: required"}},
		{"model", `models:
  a: {provider: opnai, model: "", baseURL: "ftp://x", temperature: 3, maxTokens: 0, timeout: 10, maxConcurrent: -1, maxPerMinute: 1.5}
  b: {provider: openai, baseURL: "http://u:hunter2@h/v1", cache: true, apiKey: [a]}
  c: {provider: openai, model: m, baseURL: "http://h/v1?key=hunter2", apikey: x, max_tokens: 1}
  d:
  e f: {provider: anthropic, model: m, cache: "yes", timeout: -1s}
`, []string{
			"2: models.a.provider: want openai or anthropic", "2: models.a.model: it is empty",
			"2: models.a.baseURL: want a URL of the form http://host/path or https://host/path",
			"2: models.a.temperature: want a number from 0 to 2",
			"2: models.a.maxTokens: want a whole number from 1 to 2147483647",
			"2: models.a.timeout: want a time such as 30s or 2m, not a number",
			"2: models.a.maxConcurrent: want a whole number from 1 to 100000",
			"2: models.a.maxPerMinute: want a whole number, not a number",
			"3: models.b.baseURL: a URL cannot have a user or password here: they would be shown",
			"3: models.b.apiKey: want a text, not a list", "3: models.b.model: required",
			"3: models.b.cache: only provider anthropic has it",
			"4: models.c.baseURL: a URL cannot end in ?... or #... here",
			"4: models.c.apikey: no such key; did you mean apiKey?",
			"4: models.c.max_tokens: no such key; did you mean maxTokens?",
			"5: models.d: want a mapping, not nothing",
			"6: models.e f: a name has at most 64 letters, digits, '_', '-' and '.'",
			"6: models.e f.cache: want true or false, not a text", "6: models.e f.timeout: want a time such as 30s or 2m"}},
		{"variables", `models:
  a: {provider: openai, model: "${KEY}", apiKey: "${NOT_SET}", baseURL: "${EMPTY}"}
  b: {provider: openai, model: m, apiKey: "${hunter2 x}"}
  c: {provider: openai, model: m, apiKey: "${KEY"}
  d: {provider: openai, model: $$m$, apiKey: "$$ $ ${KEY}"}
  e: {provider: openai, model: m, apiKey: "${LINES}"}
`, []string{
			"2: models.a.model: the variable KEY cannot be used here, because this text goes on record; a dollar itself is " +
				"written $$",
			"2: models.a.apiKey: the variable NOT_SET is not set",
			"3: models.b.apiKey: after ${ comes the name of a variable and }; a dollar itself is written $$",
			"4: models.c.apiKey: after ${ comes the name of a variable and }; a dollar itself is written $$",
			"6: models.e.apiKey: it cannot have line breaks or other control characters"}},
		{
			"embedder", "embedder: {provider: anthropic}\n", []string{
				"1: embedder.provider: want openai", "1: embedder.model: required",
			},
		},
		{"servers", `mcpServers:
  a: {}
  b: {command: [x], url: "http://h"}
  c: {command: x}
  d: {url: "h", headers: {"a b": c, D: "x\ny"}}
  e: {command: [x], headers: {A: b}}
  f: {url: "http://h?token=x", env: {A: b}}
  g: {command: [x, 1, true], env: {PORT: 80, "A=B": c}, timeout: 0s}
  h: {url: "http://hunter2:x@h", exclude: x, trusted: 1}
  i.j: {command: [x]}
`, []string{
			"2: mcpServers.a.command: a server needs a command or a url",
			"3: mcpServers.b.url: a server has a command or a url, not both",
			"4: mcpServers.c.command: want a list, not a text",
			"5: mcpServers.d.url: want a URL of the form http://host/path or https://host/path",
			"5: mcpServers.d.headers.a b: a header cannot have this name",
			"5: mcpServers.d.headers.D: it cannot have line breaks or other control characters",
			"6: mcpServers.e.headers: they are for servers with a url",
			"7: mcpServers.f.env: it is for servers with a command",
			"8: mcpServers.g.env.A=B: a variable cannot have this name",
			"8: mcpServers.g.timeout: want a time such as 30s or 2m",
			"9: mcpServers.h.url: a URL cannot have a user or password here: they would be shown",
			"9: mcpServers.h.exclude: want a list, not a text", "9: mcpServers.h.trusted: want true or false, not a number",
			"10: mcpServers.i.j: the name of a server has at most 54 letters, digits, '_' and '-'"}},
		{"toolsets", `toolsets:
  files: {root: "/nowhere/at/all", write: true}
  git: {name: Me, remotes: {"a b": "https://git.example.org/x", http: "http://git.example.org/x", ssh: "ssh://git@git.example.org/x", ext: {url: "ext::sh"}, both: {url: "https://git.example.org/x", token: a, header: "A: b"}, user: "https://ann:planted@git.example.org/x", none: {token: x}}}
  code: {root: "${KEY}"}
  search: []
  tests: {"a b": [x], go: [], py: pytest, sh: [""], m: {root: "/nowhere/at/all"}, e: {command: [x], env: {A=B: x}}}
  shel: {}
`, []string{
			"2: toolsets.files.root: there is no folder /nowhere/at/all",
			"2: toolsets.files.write: no such key; did you mean enableWrite?",
			"3: toolsets.git.remotes.a b: the name of a remote has at most 50 letters, digits, '-' and '_'",
			"3: toolsets.git.remotes.http: want https; http is for servers of this machine only",
			"3: toolsets.git.remotes.ssh: ssh needs keyFile and knownHosts, as absolute paths",
			"3: toolsets.git.remotes.ext.url: it has more than a host and a path",
			"3: toolsets.git.remotes.both.token: it does not go with header",
			"3: toolsets.git.remotes.user: it has a user or a password; put them into username and token",
			"3: toolsets.git.remotes.none.url: required",
			"3: toolsets.git: who commits needs both a name and an email",
			"4: toolsets.code.root: there is no folder [secret]",
			"5: toolsets.search: want a mapping, not a list",
			"6: toolsets.tests.a b: a name has at most 58 letters, digits, '_', '-' and '.'",
			"6: toolsets.tests.go: want a program and its arguments",
			"6: toolsets.tests.py: want a list, not a text", "6: toolsets.tests.sh: want a program and its arguments",
			"6: toolsets.tests.m.root: there is no folder /nowhere/at/all", "6: toolsets.tests.m.command: required",
			"6: toolsets.tests.e.env.A=B: a variable cannot have this name",
			"7: toolsets.shel: no such key; did you mean shell?"}},
		{"reports", `toolsets:
  tests:
    a: {command: [make, check], format: tap}
    b: {command: [make, check], format: junit}
    c: {command: [make, check], report: "../*.xml"}
    d: {command: [make, check, "--log={report}"], format: junit}
    e: {command: [make, check], format: junit, report: "out/**/*.xml"}
`, []string{
			"3: toolsets.tests.a.format: want go or junit or jest or text",
			"4: toolsets.tests.b: report: say which files have the report, or let the command write it to {report}",
			`5: toolsets.tests.c: report: "../*.xml" leaves the folder; patterns are relative to it, such as src/**/*.go`}},
		{"policies", `policies:
  - {approval: true}
  - {tools: "a b", onUnknown: maybe, approvl: true}
  - {tools: "*", timeout: soon, waitTimeout: 1h, writes: no, exclusive: 1}
  - x
  - {tools: "*", retry: 3, maxConcurrent: 0, maxPerMinute: many}
  - {tools: "*", retry: {from: 5, most: -1s, factor: 0.5, on: [tool, crash], pause: 1s}}
  - {tools: "*", retry: {tries: 0}}
  - {tools: "*", retry: {tries: 3, from: 1m, most: 10s}}
`, []string{
			"2: policies[0].tools: required",
			`3: policies[1].tools: pattern "a b" may only have letters, digits, '_', '-', '.' and '*'`,
			"3: policies[1].onUnknown: want report or retry or ask",
			"3: policies[1].approvl: no such key; did you mean approval?",
			"4: policies[2].timeout: want a time such as 30s or 2m", "4: policies[2].writes: want true or false, not a text",
			"4: policies[2].exclusive: want true or false, not a number",
			"5: policies[3]: want a mapping, not a text",
			"6: policies[4].retry: want a mapping, not a number",
			"6: policies[4].maxConcurrent: want a whole number from 1 to 100000",
			"6: policies[4].maxPerMinute: want a whole number, not a text",
			"7: policies[5].retry.from: want a time such as 30s or 2m, not a number",
			"7: policies[5].retry.most: want a time such as 30s or 2m",
			"7: policies[5].retry.factor: want a number from 1 to 100", "7: policies[5].retry.on[1]: want tool or timeout",
			"7: policies[5].retry.pause: no such key; there are: factor, from, most, on, tries",
			"7: policies[5].retry.tries: required", "8: policies[6].retry.tries: want a whole number from 1 to 100",
			"9: policies[7].retry.most: it is less than the first pause, 1m0s"}},
		{"agents", base + `toolsets: {files: {enableWrite: false}}
mcpServers: {srv: {command: [x]}}
agents:
  a: {model: gpt, tools: [files.read_fil, files.write_file, agent.b, agent.nobody, "git.*", "files.*", form, srv-x, "s*", other-x], mcpServers: [srv, svr], exclude: [files.list_file]}
  b:
    maxSteps: 0
    limits: {rounds: 0, toolCalls: many, tokens: 1, costUsd: -1, seconds: .nan, money: 1}
    includeHistory: maybe
    waitTimeout: 1
    temperature: hot
    enableWrite: null
    responseSchema: null
  c d: {tools: all}
`, []string{
			`6: agents.a.model: no model is called "gpt"; there are: default`,
			`6: agents.a.tools[0]: no tool is called "files.read_fil"; did you mean files.read_file?`,
			`6: agents.a.tools[1]: no tool is called "files.write_file"; there are: files.list_files, files.read_file, files.search_in_files, files.glob, files.file_info, form, terminate, wait_for, agent.a, agent.b, agent.c d, srv-*`,
			`6: agents.a.tools[3]: no tool is called "agent.nobody"; there are: files.list_files, files.read_file, files.search_in_files, files.glob, files.file_info, form, terminate, wait_for, agent.a, agent.b, agent.c d, srv-*`,
			`6: agents.a.tools[4]: no tool matches "git.*"; there are: files.list_files, files.read_file, files.search_in_files, files.glob, files.file_info, form, terminate, wait_for, agent.a, agent.b, agent.c d, srv-*`,
			`6: agents.a.tools[9]: no tool is called "other-x"; there are: files.list_files, files.read_file, files.search_in_files, files.glob, files.file_info, form, terminate, wait_for, agent.a, agent.b, agent.c d, srv-*`,
			`6: agents.a.mcpServers[1]: no MCP server is called "svr"; did you mean srv?`,
			`6: agents.a.exclude[0]: no tool is called "files.list_file"; did you mean files.list_files?`,
			"8: agents.b.maxSteps: want a whole number from 1 to 2147483647",
			"9: agents.b.limits.rounds: want a whole number from 1 to 2147483647",
			"9: agents.b.limits.toolCalls: want a whole number, not a text",
			"9: agents.b.limits.costUsd: want a number above 0", "9: agents.b.limits.seconds: want a number above 0",
			"9: agents.b.limits.money: no such key; there are: costUsd, rounds, seconds, tokens, toolCalls",
			"10: agents.b.includeHistory: want true or false, not a text",
			"11: agents.b.waitTimeout: want a time such as 30s or 2m, not a number",
			"12: agents.b.temperature: want a number, not a text",
			"15: agents.c d: a name has at most 58 letters, digits, '_', '-' and '.'",
			"15: agents.c d.tools: want a list, not a text"}},
		{
			"default model", "models: {x: {provider: openai, model: m}}\nagents:\n  a: {}\n",
			[]string{`3: agents.a.model: no model is called "default"; there are: x`},
		},
		{"schemas", base + `agents:
  a: {responseSchema: {type: strin}}
  b: {responseSchema: {type: object, required: x}}
  c: {responseSchema: {type: object, properties: {a: {$ref: "#/$defs/no"}}}}
  d: {responseSchema: text}
  e: {responseSchema: {type: object, properties: {a: {type: string}, a: {type: string}}}}
  f: {responseSchema: {type: object, properties: {a: {anyOf: [{$ref: "#/properties/a"}]}}}}
`, []string{
			"4: agents.a.responseSchema: want the schema of an object: {type: object, properties: ...}",
			"5: agents.b.responseSchema: not a JSON Schema: ", "6: agents.c.responseSchema: not a JSON Schema: ",
			"7: agents.d.responseSchema: want a JSON Schema, not a text",
			"8: agents.e.responseSchema.properties.a: it is there twice, first in line 8",
			`9: agents.f.responseSchema: not a JSON Schema: "#/properties/a`}},
		{"same to a model", base + "mcpServers: {agent: {command: [x]}, srv: {command: [x]}}\nagents:\n  a.b: {}\n  a-b: {}\n", []string{
			"3: mcpServers.agent: to a model, tools of this server could have the same names as agent.a-b; it needs another name",
			"5: agents.a.b: the tools agent.a-b and agent.a.b are both agent-a-b to a model"}},
		{"workflows", base + `agents: {a: {}, both: {}}
workflows:
  both: {steps: [a]}
  w: {steps: [a, both, {name: both, type: agent}, nobody, {name: a, type: custom_workflow}, {type: agent}, {name: a, type: thing}]}
  empty: {steps: []}
  none: {}
  ring: {steps: [{name: gnir}]}
  gnir: {steps: [ring]}
  half: {modulePath: news}
  mixed: {modulePath: news.py, className: News, steps: [half, {name: half, type: simple_workflow}]}
`, []string{
			`6: workflows.w.steps[1]: "both" found in multiple types (agent, simple_workflow); write {name: both, type: ...}`,
			`6: workflows.w.steps[3]: no agent or workflow is called "nobody"; there are: a, both, both, empty, gnir, none, ring, w, half, mixed`,
			`6: workflows.w.steps[4].name: no custom_workflow is called "a"; there are: half, mixed`,
			"6: workflows.w.steps[5].name: required",
			"6: workflows.w.steps[6].type: want agent or simple_workflow or custom_workflow",
			"7: workflows.empty.steps: want at least one step", "8: workflows.none.steps: required",
			"9: workflows.ring: it contains itself and would not end: ring, gnir, ring",
			"10: workflows.gnir: it contains itself and would not end: gnir, ring, gnir",
			"11: workflows.half.className: required",
			`12: workflows.mixed.steps[1].name: no simple_workflow is called "half"; there are: both, empty, gnir, none, ring, w`,
			"12: workflows.mixed.steps: a workflow has steps or a class, not both",
			`12: workflows.mixed.className: this program has no custom workflows. Write the workflow with steps, or build a program of your own ` +
				`that registers a Go function as "news.py.News" (docs/workflow.md)`}},
		{"plans", base + `agents: {reader: {}}
plans:
  p:
    title: "<<a b>>"
    steps:
    - {agent: reader, request: "Read <<path>> in <<planId>> with << x"}
    - {agent: raeder, request: "<<>>"}
    - {request: "no agent"}
    - {agent: reader}
    - {agentName: reader, agent: reader, request: x}
    - {stepRequirement: "[READER] x"}
    - {stepRequirement: "[reader] x", modelName: no, terminateColumns: "a, b", selectedToolKeys: [nothing]}
    planType: other
`, []string{
			"6: plans.p.title: the placeholder <<a b>> is not of the form <<name>>",
			`9: plans.p.steps[1].agent: no agent is called "raeder"; did you mean reader?`,
			"9: plans.p.steps[1].request: the placeholder <<>> is not of the form <<name>>",
			"10: plans.p.steps[2].agent: required", "11: plans.p.steps[3].request: required",
			"12: plans.p.steps[4].agentName: it is another name of agent, which is there too",
			`13: plans.p.steps[5].stepRequirement: no agent is called "READER"; did you mean reader?`,
			`14: plans.p.steps[6].modelName: no model is called "no"; there are: default`,
			`14: plans.p.steps[6].selectedToolKeys[0]: no tool is called "nothing"; there are: form, terminate, wait_for, agent.reader, plan.p`,
			"15: plans.p.planType: want dynamic_agent"}},
		{"orchestrator", "orchestrator: {maxPlanSteps: 11, agents: {GIT: {enabled: maybe}, ORCHESTRATOR: {description: " +
			"x}, TIDY: {tools: [\"git.*\"]}}}\n", []string{
			"1: orchestrator.maxPlanSteps: want a whole number from 1 to 10",
			"1: orchestrator.agents.GIT.enabled: want true or false, not a text",
			"1: orchestrator.agents.ORCHESTRATOR: ORCHESTRATOR is the orchestrator itself; the agent needs another name",
			`1: orchestrator.agents.TIDY.tools[0]: no tool matches "git.*"; there are: form, terminate`,
			"1: orchestrator.agents.TIDY.description: required",
			`1: orchestrator.model: no model is called "default"; there are: none`,
		}},
		{"roles", "roles: {QA: {tools: [\"fo*\", \"a b\"]}, DEV: {}}\n", []string{
			`1: roles.QA.tools[1]: pattern "a b" may only have letters, digits, '_', '-', '.' and '*'`,
			"1: roles.DEV.tools: required"}},
		{"redact", "redact:\n- emial\n- email\n- \"hunter2(\"\n- \"x*\"\n- 5\n- \"\"\n", []string{
			`2: redact[0]: no kind is called "emial"; there are: private-key, bearer-token, jwt, api-key, email, credit-card, phone, ip; to replace the word itself, write (?:emial); did you mean email?`,
			"4: redact[2]: not a regular expression (RE2): missing closing )",
			"5: redact[3]: the regular expression matches the empty text",
			"6: redact[4]: want a text, in quotes if need be, not a number", "7: redact[5]: it is empty"}},
		{"patience", "models:\n  a:\n    provider: openai\n    model: m\n    giveUpAfter: 0s\n    probe: {from: 5s, most: 2s}\n" +
			"    retry: {tries: 0, factor: 0.5, most: soon, pause: 2s}\n", []string{
			"5: models.a.giveUpAfter: want a time such as 30s or 2m", "6: models.a.probe.most: it is shorter than from",
			"7: models.a.retry.tries: want a whole number from 1 to 1000",
			"7: models.a.retry.factor: want a number from 1 to 100", "7: models.a.retry.most: want a time such as 30s or 2m",
			"7: models.a.retry.pause: no such key; there are: factor, from, most, tries"}},
		{"fallback", "models:\n  a: {provider: openai, model: m, fallback: [a, b, b, bb]}\n" +
			"  b: {provider: openai, model: m, fallback: [a]}\n", []string{
			"2: models.a.fallback[0]: it is the model itself", "2: models.a.fallback[2]: b is there twice",
			`2: models.a.fallback[3]: no model is called "bb"`}},
		{"lines of keys", "models:\n  a:\n    model: m\n    extra:\n      more: 1\nagents:\n  - x\n", []string{
			"2: models.a.provider: required",
			"4: models.a.extra: no such key; there are: apiKey, baseURL, cache, fallback, giveUpAfter, maxConcurrent, maxPerMinute, " +
				"maxTokens, model, probe, provider, retry, temperature, timeout, tokensPerMinute",
			"6: agents: want a mapping, not a list"}},
		{
			"JSON", "{\n  \"models\": {\n    \"a\": {\"provider\": \"x\", \"model\": \"m\"}\n  }\n}\n",
			[]string{"3: models.a.provider: want openai or anthropic"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found := problems(t, tt.text)
			if len(found) == len(tt.want) {
				for i, want := range tt.want {
					if !strings.HasPrefix(found[i], want) {
						t.Errorf("found[i]:\n%s, want\n%s", found[i], want)
					}
				}
			} else {
				t.Errorf("cmp.Diff(tt.want, found) = %s", cmp.Diff(tt.want, found))
			}

			if strings.Contains(strings.Join(found, "\n"), "hunter2") {
				t.Error("a secret is shown")
			}
		})
	}
}

// JSON is read, with all its escapes, as programs write it.
func TestJSONFile(t *testing.T) {
	t.Parallel()
	c, err := parse(t, "{\n\t\"models\": {\n\t\t\"default\": {\"provider\": \"openai\", \"model\": \"a\\/b\"}\n\t},\n"+
		`"agents": {"a": {"systemPrompt": "\ud83d\ude00 \"\u00e9\"\n<<\u2028>> \\ 😀"}}}`, config.Options{})
	if err != nil {
		t.Fatal(err)
	}

	if got := c.Models["default"].Model + c.Agents["a"].SystemPrompt; got != "a/b😀 \"é\"\n<<\u2028>> \\ 😀" {
		t.Errorf("%q", got)
	}
}

// A rule that matches nothing may be a mistake, or about tools that are not known here.
func TestWarnings(t *testing.T) {
	t.Parallel()
	c, err := parse(t, "policies:\n- {tools: git.comit, approval: true}\n- {tools: \"crm.*\"}\n"+
		"- {tools: \"agent.*\", retry: {tries: 3}}\n",
		config.Options{Tools: []string{"crm.find"}})
	if err != nil {
		t.Fatal(err)
	}

	if len(c.Warnings) != 3 || !strings.HasSuffix(c.Warnings[0].String(),
		"actlog.yaml:2: policies[0].tools: no tool of this file matches it") ||
		!strings.HasSuffix(c.Warnings[2].String(),
			"policies[2].retry: it does not count for agents, plan templates, forms and waits") {
		t.Errorf("c.Warnings = %v", c.Warnings)
	}
}

// Names of tools and workflows of the program are known.
func TestThingsOfTheProgram(t *testing.T) {
	t.Parallel()
	c, err := parse(t, base+"agents: {a: {tools: [crm.find]}}\n"+
		"workflows: {w: {steps: [mine, {name: mine, type: custom_workflow}]}}\n",
		config.Options{Tools: []string{"crm.find"}, Workflows: []string{"mine"}})
	if err != nil {
		t.Fatal(err)
	}

	want := []define.WorkflowStep{{Name: "mine", Type: define.CustomStep}, {Name: "mine", Type: define.CustomStep}}
	if !cmp.Equal(c.Workflows["w"].Steps, want) {
		t.Errorf("c.Workflows = %v", c.Workflows)
	}

	// D20: a class stands for a function of the program.
	c, err = parse(t, base+"workflows: {w: {steps: [news]}, news: {modulePath: flows/news.py, className: News}}\n",
		config.Options{Workflows: []string{"flows/news.py.News"}})
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Workflows; w["news"].Function() != "flows/news.py.News" || w["w"].Steps[0].Type != define.CustomStep {
		t.Errorf("c.Workflows = %v", w)
	}
}

// B38: a template has placeholders, and may be in the form of the plan JSON.
func TestPlanTemplates(t *testing.T) {
	t.Parallel()
	c, err := parse(t, base+`agents: {reader: {}}
plans:
  ours: {title: "For <<who>>", steps: [{agent: reader, request: "Read <<path>> for <<who>> in <<planId>>"}]}
  theirs: {"title": "T", "planType": "dynamic_agent", "planTemplateId": "t-1", "steps": [{"stepRequirement": "[reader] Do <<it>>", "modelName": "default", "terminateColumns": "a, b", "selectedToolKeys": ["form"]}]}
`, config.Options{})
	if err != nil {
		t.Fatal(err)
	}

	if got := c.Plans["ours"].Placeholders(); !slices.Equal(got, []string{"who", "path"}) {
		t.Errorf("%q", got)
	}
	want := []define.PlanStep{
		{
			Agent: "reader", Request: "Do <<it>>", Model: "default", Tools: []string{"form"},
			TerminateColumns: []string{"a", "b"},
		},
	}
	if got := c.Plans["theirs"].Steps; !cmp.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// Aliases are followed, with a bound: a few lines could stand for a million values.
func TestAliases(t *testing.T) {
	t.Parallel()
	c, err := parse(t, "models:\n  default: &m {provider: openai, model: m}\n  other: *m\n", config.Options{})
	if err != nil || c.Models["other"].Model != "m" {
		t.Fatalf("parse = %v, %v", c, err)
	}

	var bomb strings.Builder
	bomb.WriteString(base + "agents:\n  a:\n    responseSchema:\n      type: object\n" +
		"      x0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n")
	for i := range 12 {
		fmt.Fprintf(&bomb, "      x%d: &x%d [%s]\n", i+1, i+1,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d, ", i), 10), ", "))
	}

	if got := problems(t, bomb.String()); len(got) != 1 || !strings.Contains(got[0], "more than 50000 values") {
		t.Errorf("problems(bomb.String()) = %q", got)
	}
	if got := problems(
		t, base+"agents:\n  a:\n    responseSchema: &s\n      type: object\n      properties: {a: *s}\n",
	); len(got) != 1 || !strings.Contains(got[0], "more than 50000 values") {
		t.Errorf("problems = %q", got)
	}
}

// The names of tools that the package knows are those of the toolsets.
func TestToolsetsHaveTheirNames(t *testing.T) {
	t.Parallel()
	for _, toolset := range []string{"files: {enableWrite: true}", "files: {enableWrite: false}",
		"git: {enableWrite: true}", "git: {enableWrite: false}",
		"code: {enableWrite: true}", "code: {enableWrite: false}", "search: {}", "tests: {unit: [x], go: {command: [go]}}",
		"http: {hosts: [a.com]}", "http: {hosts: [a.com], methods: [POST]}",
		"http: {hosts: [a.com], methods: [DELETE, OPTIONS]}", "shell: {commands: {ls: [ls], build: {command: [make]}}}",
		"db: {url: \"postgres://x/y\"}", "db: {url: \"postgres://x/y\", enableWrite: true}",
		"docker: {socket: /x, containers: [a]}", "docker: {socket: /x, containers: [a], enableWrite: true}"} {
		c, err := parse(t, fmt.Sprintf("toolsets: {%s}\n", toolset), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		parts, err := c.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer parts.Close()

		for _, each := range parts.Tools {
			if _, err := parse(t, fmt.Sprintf(base+"toolsets: {%s}\nagents: {a: {tools: [%s]}}\n", toolset, each.Spec().Name),
				config.Options{}); err != nil {
				t.Error(err)
			}
		}

		_, err = parse(t, fmt.Sprintf(base+"toolsets: {%s}\nagents: {a: {tools: [nothing]}}\n", toolset), config.Options{})
		_, there, _ := strings.Cut(fmt.Sprint(err), "there are: ")
		known := strings.Split(strings.TrimSuffix(there, ", form, terminate, wait_for, agent.a"), ", ")
		set, err := tool.NewSet(parts.Tools...)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(known, set.Names()) {
			t.Errorf("known %q, there are %q", known, set.Names())
		}
	}
}

const contract = `models:
  default: {provider: openai, model: gpt-5-mini, baseURL: "${URL}", apiKey: "${KEY}", temperature: 0.3, maxConcurrent: 8}
  claude:  {provider: anthropic, model: claude-sonnet-5, baseURL: "${URL}", apiKey: "${KEY}"}
embedder:  {provider: openai, model: text-embedding-3-small, baseURL: "${URL}", apiKey: "${KEY}"}  # optional
mcpServers:
  everything: {command: [npx, -y, "@modelcontextprotocol/server-everything"], env: {}, exclude: [], trusted: true, timeout: 10s}
  search:     {url: "http://127.0.0.1:9000/mcp"}
toolsets:
  files: {root: .}
  tests: {pytest: [pytest, -q], go: [go, test]}
policies:
  - {tools: "git.commit", approval: true, waitTimeout: 1h}
  - {tools: "pay-*", onUnknown: ask, timeout: 30s}
agents:
  reader: {description: Reads code, systemPrompt: "...", model: default, tools: [files.read_file, files.search_in_files, agent.researcher, form], mcpServers: [everything], maxSteps: 30, includeHistory: true, responseSchema: null, limits: {tokens: 200000, costUsd: 1}}
  researcher: {tools: [agent.reader]}
  critic: {}
workflows:
  review: {steps: [reader, {name: critic, type: agent}]}
plans:
  nightly: {title: Nightly, steps: [{agent: reader, request: "Read <<path>>"}]}
roles: {QA: {tools: ["files.*", "tests.*"]}}
redact: [email, bearer-token, "sk-[A-Za-z0-9]{20,}"]
`

// A file as the contract of the runtime has it, with the agents that it names.
func TestContract(t *testing.T) {
	t.Parallel()
	c, err := parse(t, contract, config.Options{})
	if err != nil {
		t.Fatal(err)
	}

	r := c.Agents["reader"]
	if r.MaxSteps != 30 || !r.IncludeHistory || r.ResponseSchema != nil ||
		r.Limits != (define.Limits{Tokens: 200000, CostUSD: 1}) || !r.EnableWrite {
		t.Errorf("r = %+v", r)
	}
	if p := c.Policies.Policy("git.commit", tool.Policy{}); !p.Approval || p.WaitTimeout != time.Hour {
		t.Errorf("c.Policies.Policy = %+v", p)
	}

	var warnings []string
	for _, w := range c.Warnings {
		warnings = append(warnings, fmt.Sprintf("%d %s", w.Line, w.Field))
	}
	if want := []string{"12 policies[0].tools", "13 policies[1].tools"}; !slices.Equal(warnings, want) {
		t.Errorf("warnings = %q", warnings)
	}
}

// S9: policies say whether who started a run may approve a call.
func TestApprovalByAnother(t *testing.T) {
	t.Parallel()
	c, err := parse(t, "policies:\n- {tools: git.commit, approval: {notStarter: true}}\n"+
		"- {tools: \"pay-*\", approval: {notStarter: false}}\n- {tools: x, approval: true}\n", config.Options{})
	if err != nil {
		t.Fatal(err)
	}

	for name, want := range map[string]tool.Policy{
		"git.commit": {Approval: true, NotStarter: true}, "pay-card": {Approval: true}, "x": {Approval: true},
	} {
		if got := c.Policies.Policy(name, tool.Policy{}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}

	for text, want := range map[string]string{
		"{notstarter: true}": "policies[0].approval.notstarter: no such key; did you mean notStarter?",
		"{}":                 "policies[0].approval.notStarter: required",
		"{notStarter: 1}":    "policies[0].approval.notStarter: want true or false",
		"yes please":         "policies[0].approval: want true, false or {notStarter: true}, not a text",
		"[true]":             "policies[0].approval: want true, false or {notStarter: true}, not a list",
	} {
		if _, err := parse(t, "policies:\n- {tools: x, approval: "+text+"}\n", config.Options{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// How many workers a run may lose is a setting.
func TestRuns(t *testing.T) {
	t.Parallel()
	const text = "runs: {maxTakeovers: 3, maxPerOwner: 4, maxPerKey: 5}\nprojects: {p: {maxRuns: 6, budgetUsdPerDay: 12.5}}\n" +
		"models: {default: {provider: openai, model: m}}\nagents: {a: {maxRuns: 7}}\n"
	c, err := config.Parse("a.yaml", []byte(text), config.Options{})
	if err != nil || c.Runs != (config.Runs{MaxTakeovers: 3, MaxPerOwner: 4, MaxPerKey: 5}) ||
		c.Projects["p"] != (config.Project{MaxRuns: 6, BudgetUSDPerDay: 12.5}) || c.Agents["a"].MaxRuns != 7 {
		t.Errorf("config.Parse = %+v, %v", c, err)
	}

	for field, text := range map[string]string{
		"runs.maxPerOwner": "runs: {maxPerOwner: 0}", "runs.maxPerKey": "runs: {maxPerKey: -1}",
		"projects.p.maxRuns": "projects: {p: {maxRuns: many}}", "agents.a.maxRuns": "agents: {a: {maxRuns: 0}}",
		"projects.support.budgetUsdPerDay: want a number above 0": "projects: {support: {budgetUsdPerDay: 0}}",
		"projects.p.budgetUsdPerDay: want a number above 0":       "projects: {p: {budgetUsdPerDay: .inf}}",
		"projects.p.budgetUsdPerDay: want a number":               "projects: {p: {budgetUsdPerDay: much}}",
		"projects.p.budgetUsdPerday: no such key":                 "projects: {p: {budgetUsdPerday: 1}}",
	} {
		if _, err := config.Parse("a.yaml", []byte(text), config.Options{}); err == nil ||
			!strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", text, err)
		}
	}

	for _, wrong := range []string{"0", "-1", "1001", "many", "1.5"} {
		if _, err := config.Parse("a.yaml", []byte("runs: {maxTakeovers: "+wrong+"}"), config.Options{}); err == nil ||
			!strings.Contains(err.Error(), "runs.maxTakeovers") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
