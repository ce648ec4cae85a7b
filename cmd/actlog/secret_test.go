package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// planted are variables with secrets, which the programs of tests inherit.
var planted = map[string]string{
	"PLANTED_KEY": "planted-model-key-0123", "PLANTED_TOKEN": "planted-token-0123",
	"PLANTED_HEADER": "planted-header-0123",
}

// TestSecretsAreNowhere plants secrets in the configuration, a request, answers of models, results of tools,
// errors and a form, and looks for them in the database, the log, and everything that the server sends.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	const key, mail = "sk-planted0planted0planted0", "planted@example.org"
	const password = "planted-password"
	modelKey, token := planted["PLANTED_KEY"], planted["PLANTED_TOKEN"]

	call := func(name string, arguments any) scriptmodel.ToolCall {
		return scriptmodel.ToolCall{Name: name, Arguments: arguments}
	}
	m, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "s", Turns: []scriptmodel.Turn{
		{Content: strings.Repeat("I think. ", 40) + "My key is " + modelKey + ". " + strings.Repeat("I think. ", 40),
			Reasoning: "With " + modelKey, ToolCalls: []scriptmodel.ToolCall{
				call("local-environment", nil), call("remote-headers", nil),
				call("local-echo", object{"text": mail, key: modelKey}), call("nothing-"+token, nil),
			}},
		{ToolCalls: []scriptmodel.ToolCall{call("form", object{"title": "For " + mail, "description": key, "inputs": []object{
			{"label": "Password", "name": "password", "type": "password"}, {"label": "Key", "name": "key"},
		}})}},
		{ToolCalls: []scriptmodel.ToolCall{call("terminate", object{"message": "Done with " + token + " and " + key})}},
	}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })

	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, `{"error":{"message":"wrong key `+r.Header.Get("Authorization")+`","type":"invalid_request_error"}}`,
			http.StatusUnauthorized)
	}))
	t.Cleanup(refusing.Close)
	file := filepath.Join(t.TempDir(), "actlog.yaml")

	config := fmt.Sprintf(`
models:
  default: {provider: openai, model: scripted, baseURL: %q, apiKey: "${PLANTED_KEY}"}
  refused: {provider: openai, model: scripted, baseURL: %q, apiKey: "${PLANTED_KEY}"}
mcpServers:
  local: {command: [%q], env: {%s: "1", TOKEN: "${PLANTED_TOKEN}"}}
  remote: {url: %q, headers: {Authorization: "Bearer ${PLANTED_HEADER}"}}
  lost: {command: [sh, -c, "echo the token is $TOKEN >&2; exit 1"], env: {TOKEN: "${PLANTED_TOKEN}"}}
agents:
  helper: {description: Helps, systemPrompt: "Mail %s.", tools: [form], mcpServers: [local, remote]}
  refused: {description: Is refused, model: refused}
  lost: {description: Has no tools, mcpServers: [lost]}
policies: [{tools: "local-*", approval: false}, {tools: "remote-*", approval: false}]
redact: [email, bearer-token, "sk-[A-Za-z0-9]{20,}"]
`, m.URL(), refusing.URL, os.Args[0], beServer, serveMCP(t, toolServer()), mail)

	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	db := pgtest.Fresh(t)
	server := start(t, "serve", "--listen", "127.0.0.1:0", "--database-url", db.URL, "--config", file, "--workers", "1",
		"--log-level", "debug")
	c := runClient{t, server.url}
	ended := func(r shownRun) bool { return r.State == "COMPLETED" || r.State == "FAILED" }

	id := c.start("helper", "Use "+key+" and write to "+mail)
	r := c.until(id, "it waits", func(r shownRun) bool { return r.State == "WAITING" })
	c.decide(id, r.Waits[0].WaitID,
		`{"decision":"submit","values":{"password":"`+password+`","key":"`+key+`"},"text":"`+key+`","by":"ann"}`)
	if r = c.until(id, "it ends", ended); r.Result != "Done with [secret] and [redacted]" {
		t.Errorf("it ended: %+v", r)
	}

	refused, lost := c.start("refused", key), c.start("lost", key)
	if r = c.until(refused, "it fails", ended); r.ErrorKind != "auth" || !strings.Contains(r.Error, "wrong key") {
		t.Errorf("it ended: %+v", r)
	}
	if r = c.until(lost, "it fails", ended); r.ErrorKind != "tools" ||
		!strings.Contains(r.Error, "the token is [secret]") {
		t.Errorf("it ended: %+v", r)
	}

	anyPlanted := regexp.MustCompile(`(?i).{0,80}planted.{0,80}`)
	look := func(where, text string) {
		t.Helper()
		if found := anyPlanted.FindString(text); found != "" {
			t.Errorf("%s: %s", where, found)
		}
	}

	for _, plan := range []string{id, refused, lost} {
		for _, path := range []string{
			"/api/v1/runs/" + plan, "/api/v1/runs/" + plan + "/trace", "/api/v1/runs/" + plan + "/trace?format=markdown",
			"/api/v1/plans/" + plan, "/api/v1/plans/" + plan + "/records",
			"/api/v1/plans/" + plan + "/waits", "/api/v1/plans/" + plan + "/sources", "/api/executor/details/" + plan,
		} {
			text := body(t, server.url+path)
			// an exception, which is served once
			if !strings.Contains(text, plan) && !strings.Contains(path, "sources") && !strings.Contains(path, "waits") &&
				!strings.HasPrefix(text, `{"error":`) {
				t.Errorf("%s: %s", path, text)
			}
			look(path, text)
			for _, step := range regexp.MustCompile(`"stepId": ?"([^"]+)"`).FindAllStringSubmatch(text, -1) {
				look("step", body(t, server.url+"/api/v1/steps/"+step[1]))
				look("step", body(t, server.url+"/api/executor/agent-execution/"+step[1]))
			}
		}
	}

	look("runs", body(t, server.url+"/api/v1/runs"))
	look("metrics", body(t, server.url+"/metrics"))
	look("log", server.stderr.String())
	for _, request := range m.Requests() {
		look("what the model is sent", string(request.Body))
	}

	rows, err := db.Pool.Query(t.Context(),
		`SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	if err != nil {
		t.Fatal(err)
	}

	tables := 0
	var table string
	var names []string
	for rows.Next() {
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		names = append(names, table)
	}
	if rows.Err() != nil || len(names) < 20 {
		t.Fatalf("names = %v, %v", names, rows.Err())
	}

	for _, name := range names {
		var text *string
		if err := db.Pool.QueryRow(t.Context(),
			"SELECT string_agg(t::text, E'\\n') FROM "+name+" AS t").Scan(&text); err != nil {
			t.Fatal(err)
		}
		if text != nil {
			tables++
			look(name, *text)
		}
	}
	if tables < 10 {
		t.Errorf("only %d tables have rows", tables)
	}

	if text := body(t, server.url+"/api/v1/plans/"+id+"/records"); strings.Count(text, "[secret]") < 5 ||
		strings.Count(text, "[redacted]") < 4 || !strings.Contains(text, "[email]") {
		t.Errorf("what was planted did not come so far:\n%s", text)
	}
}
