package config_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/runtime/config"
	"github.com/actlog/actlog/internal/runtime/define"
)

// Each mistake in the toolsets that reach beyond files has its line and its key, and no secret.
func TestProblemsOfHands(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http: {}":                               "2: toolsets.http.hosts: required",
		"http: {hosts: []}":                      "2: toolsets.http.hosts: name the hosts that requests may go to",
		"http: {hosts: [\"*\"]}":                 `2: toolsets.http.hosts: "*" is no host`,
		"http: {hosts: [a.com], methods: [get]}": `2: toolsets.http.methods: there is no "get"`,
		"http:\n    hosts: [a.com]\n    headers:\n      b.com: {X: hunter2}": `4: toolsets.http.headers: "b.com" is none of the hosts`,
		"http: {hosts: [a.com], headers: {a.com: {\"a b\": hunter2}}}": "2: toolsets.http.headers.a.com.a b: a header " +
			"cannot have this name",
		"http: {hosts: [a.com], maxBytes: 99999999}":       "2: toolsets.http.maxBytes: want a whole number from 1 to 61440",
		"http: {hosts: [a.com], method: [GET]}":            "2: toolsets.http.method: no such key; did you mean methods?",
		"db: {}":                                           "2: toolsets.db.url: required",
		"db: {url: \"postgres://hunter2:hunter2@[x\"}":     "2: toolsets.db.url: it is no URL of a Postgres database",
		"db: {url: \"${NOWHERE}\"}":                        "2: toolsets.db.url: the variable NOWHERE is not set",
		"db: {url: \"postgres://x/y\", maxRows: 5000}":     "2: toolsets.db.maxRows: want a whole number from 1 to 1000",
		"db: {url: \"postgres://x/y\", idempotency: true}": "2: toolsets.db.idempotency: it needs enableWrite: true",
		"shell: {}":                   "2: toolsets.shell.commands: required",
		"shell: {commands: {}}":       "2: toolsets.shell.commands: name at least one command",
		"shell: {commands: {ls: ls}}": "2: toolsets.shell.commands.ls: want a list, not a text",
		"shell: {commands: {ls: []}}": "2: toolsets.shell.commands.ls: want a program and its arguments",
		"shell: {commands: {ls: {command: [ls], arguments: \"(\"}}}": "2: toolsets.shell.commands.ls.arguments: it is no " +
			"regular expression",
		"shell: {commands: {ls: {command: [ls], allowOptions: true}}}": "2: toolsets.shell.commands.ls.allowOptions: it " +
			"needs arguments",
		"shell: {commands: {\"l s\": [ls]}}":          "2: toolsets.shell.commands.l s: a name has at most",
		"docker: {socket: /x}":                        "2: toolsets.docker.containers: required",
		"docker: {socket: /x, containers: []}":        "2: toolsets.docker.containers: name the containers",
		"docker: {socket: /x, containers: [\"a b\"]}": `2: toolsets.docker.containers: "a b" is no name`,
	} {
		found := problems(t, "toolsets:\n  "+text+"\n")
		if len(found) != 1 || !strings.HasPrefix(found[0], want) {
			t.Errorf("%s: %q, want %s", text, found, want)
		}
		if strings.Contains(strings.Join(found, ""), "hunter2") {
			t.Errorf("%s: a secret is shown: %q", text, found)
		}
	}
}

const handsWithSecrets = `toolsets:
  http: {hosts: [a.com], headers: {a.com: {Authorization: "Bearer ${KEY}"}}}
  db: {url: "postgres://me:${KEY}@x/y"}
  shell: {commands: {ls: {command: [ls], env: {KEY: "${KEY}"}}}}
agents: {a: {tools: ["http.*", "db.*", "shell.*"]}}
roles: {R: {tools: ["http.*", "db.*", "shell.*"]}}
`

// Secrets of these toolsets are shown nowhere, and no definition that a run pins has them.
func TestSecretsOfHands(t *testing.T) {
	t.Parallel()
	lookup := func(string) (string, bool) { return "hunter2-hunter2", true }
	c, err := parse(t, base+handsWithSecrets, config.Options{Lookup: lookup})
	if err != nil {
		t.Fatal(err)
	}

	parts, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer parts.Close()

	agent, _ := c.Definition("a")
	role := c.Roles["R"].Definition("R", define.DefinitionModel{}, nil, nil)
	all, err := json.Marshal([]any{c, agent, role})
	if err != nil {
		t.Fatal(err)
	}

	shown := string(all) + fmt.Sprintf("%v %+v %#v", c.Toolsets, c.Toolsets, c.Toolsets)
	for _, each := range parts.Tools {
		shown += fmt.Sprintf("%+v %s", each.Spec(), each.Spec().Schema)
	}
	if strings.Contains(shown, "hunter2") {
		t.Error("a secret is shown")
	}
}

// A role that names what is not there is a mistake. Roles that nobody wrote have what there is.
func TestRoles(t *testing.T) {
	t.Parallel()
	const toolsets = "toolsets: {search: {}}\nmcpServers: {crm: {url: \"http://127.0.0.1/\"}}\n"
	for tools, want := range map[string]string{
		`["search.*", "crm-*", "se*", "crm-find"]`: "",
		`["db.*"]`:                         `5: roles.OPS.tools[0]: no tool matches "db.*"; there are: search.search_code, `,
		`["search.*", search.serach_code]`: `5: roles.OPS.tools[1]: no tool is called "search.serach_code"; did you mean search.search_code?`,
		`["a b"]`:                          `5: roles.OPS.tools[0]: pattern "a b" may only have`,
		"[]":                               "5: roles.OPS.tools: name at least one tool",
	} {
		found := problems(t, base+toolsets+"roles: {OPS: {tools: "+tools+"}}\n")
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || !strings.HasPrefix(found[0], want)) {
			t.Errorf("%s: %q, want %q", tools, found, want)
		}
	}

	if got := define.DefaultRole("devops").Tools; len(got) != 8 {
		t.Errorf("%q", got)
	}
}
