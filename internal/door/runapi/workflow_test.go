package runapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	executor "github.com/actlog/actlog/internal/runtime/executor/workflow"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// starter starts runs of an engine. It has no catalog.
type starter struct {
	*engine.Engine
	runapi.Catalog
}

// facade serves the execution API with a worker.
func facade(t *testing.T, turns ...scriptmodel.Turn) *client {
	t.Helper()
	return facadeWith(t, apitest.Options{}, func(_ context.Context, text string) (string, error) {
		if text == "fail" {
			return "", fmt.Errorf("it broke")
		}
		return text, nil
	}, turns...)
}

// facadeWith is facade with options, and what the tool echo does with a text.
func facadeWith(
	t *testing.T, o apitest.Options, does func(ctx context.Context,
		text string) (string, error), turns ...scriptmodel.Turn,
) *client {
	t.Helper()
	echo := tool.Func("echo", "Says it again.", func(ctx context.Context, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return does(ctx, in.Text)
	})

	a := define.Definition{
		Agent: "guide", SystemPrompt: "Guide.", Model: define.DefinitionModel{Name: "default"}, Tools: []string{"echo"},
		IncludeHistory: true, EnableWrite: true, MaxSteps: 3,
	}
	functions := func(name string) (workflow.Func, bool) {
		return func(ctx context.Context, f workflow.Facade, in json.RawMessage, _ string) (any, error) {
			r, err := f.RunAgent(ctx, "guide", string(in))
			return r.Text(), err
		}, name == "own"
	}

	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{{Name: "guide", Turns: turns}}, Tools: []tool.Tool{echo},
		Definitions: map[string]any{
			"agent.guide": a, "simple_workflow.chain": define.Workflow{
				Steps: []define.WorkflowStep{{Name: "guide", Type: define.AgentStep}},
			},
			"custom_workflow.own": define.Flow{Agents: []string{"guide"}},
			"agent.far":           define.Definition{AllOf: []string{"gone"}},
		},
		Executors: []engine.Executor{executor.Executor{Functions: functions}},
		Config:    func(c *engine.Config) { c.Watcher = c.Store.Deltas() },
	})
	h.Work(h.Engine)
	o.DB, o.Runtime = h.DB, func(*runstore.Store) (runapi.Starter, runapi.Catalog) {
		s := starter{Engine: h.Engine}
		return s, s
	}
	return &client{apitest.ServeWith(t, o)}
}

func use(text string) scriptmodel.ToolCall {
	return enginetest.Call("echo", enginetest.Object{"text": text})
}

// TestResultIsJSON checks that the result of an executor that answers with JSON is no text.
func TestResultIsJSON(t *testing.T) {
	t.Parallel()
	c := facade(t, scriptmodel.Turn{Content: "Done."})
	a := c.post("/api/v1/runs", obj{"executor": "workflow", "input": obj{"agent": "guide", "user_message": "Go."}},
		"Prefer", "wait=10")
	wantStatus(t, a, http.StatusOK)
	expect(t, a.JSON(t), obj{"state": "COMPLETED", "result.agent_name": "guide", "result.final_response.content": "Done."})
}

// TestExecution checks the execution API: agents, workflows, errors, sessions. D1, D2, D3, D4, D13, D19, D21, D22.
func TestExecution(t *testing.T) {
	t.Parallel()
	c := facade(t, scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{use("x")}}, scriptmodel.Turn{Content: "Done."},
		scriptmodel.Turn{Content: "Again."}, scriptmodel.Turn{Content: "More."})

	a := c.post("/execution/agents/guide/run", obj{"user_message": "Go.", "session_id": "s"})
	wantStatus(t, a, http.StatusOK)
	r := a.JSON(t).(obj)
	if r["status"] != "success" || r["final_response"].(obj)["content"] != "Done." || r["session_id"] != "s" ||
		len(r["conversation_history"].([]any)) != 4 {
		t.Errorf("r = %v", r)
	}

	a = c.post("/execution/agents/guide/run", obj{
		"messages": []obj{{"role": "user", "content": "Again."}}, "session_id": "s",
	})
	if r := a.JSON(t).(obj); r["final_response"].(obj)["content"] != "Again." ||
		len(r["conversation_history"].([]any)) != 6 {
		t.Errorf("r = %v", r)
	}

	for _, kind := range []string{"simple/chain", "linear/chain", "custom/own"} {
		a := c.post("/execution/workflows/"+kind+"/run", obj{"initial_input": "Go."})
		wantStatus(t, a, http.StatusOK)
		if r := a.JSON(t).(obj); r["status"] != "completed" || r["final_output"] != "Done." ||
			!strings.HasPrefix(r["session_id"].(string), "workflow-") || len(r["step_results"].([]any)) != 1 {
			t.Errorf("%s: %v", kind, r)
		}
	}

	for _, row := range []struct {
		path   string
		body   any
		status int
		want   string
	}{
		{"agents/nobody/run", obj{"user_message": "x"}, 404, "Agent configuration 'nobody' not found."},
		{"agents/nobody/stream", obj{"user_message": "x"}, 404, "Agent configuration 'nobody' not found."},
		{"agents/far/run", obj{"user_message": "x"}, 400, "MCP Server 'gone' required by agent 'far' not found."},
		{"workflows/simple/own/run", obj{"initial_input": "x"}, 404, "Workflow configuration 'own' not found."},
		{"agents/guide/run", obj{}, 400, "user_message or messages is required"},
		{"agents/guide/run", obj{"other": 1}, 400, "other is not known"},
		{"agents/guide/run", "[]", 400, "the body must be a JSON object"}, {
			"agents/guide/run", obj{"user_message": 1}, 400, "user_message must be",
		},
		{"workflows/simple/chain/run", obj{}, 400, "initial_input is required"},
		{"history/cleanup?days=x", obj{}, 400, "days must be a number"}, {
			"history/cleanup", obj{"days": -1}, 400, "days must not be negative",
		},
	} {
		a := c.post("/execution/"+row.path, row.body)
		problem, _ := a.JSON(t).(obj)["error"].(obj)
		if message, _ := problem["message"].(string); a.Status != row.status || !strings.HasPrefix(message, row.want) ||
			problem["error_type"] == "" || problem["details"] == nil {
			t.Errorf("%s: %d %v", row.path, a.Status, a.JSON(t))
		}
	}

	list := c.Read("/execution/history?agent_name=guide&limit=2").(obj)
	if len(list["sessions"].([]any)) != 2 || list["total"] != float64(4) || list["limit"] != float64(2) ||
		list["offset"] != float64(0) {
		t.Errorf("list = %v", list)
	}
	list = c.Read("/execution/history?workflow_name=chain&offset=1").(obj)
	if len(list["sessions"].([]any)) != 3 || list["total"] != float64(4) { // two runs, with a step each
		t.Errorf("list = %v", list)
	}

	h := c.Read("/execution/history/s?limit=2&offset=1").(obj)
	if said := h["history"].([]any); len(said) != 2 || h["total"] != float64(6) || said[0].(obj)["tool_calls"] == nil ||
		said[1].(obj)["role"] != "tool" || h["metadata"].(obj)["agent_name"] != "guide" {
		t.Errorf("h = %v", h)
	}

	for _, want := range []int{204, 404} {
		if a := c.Do(http.MethodDelete, "/execution/history/s", nil); a.Status != want {
			t.Errorf("delete: %d, want %d", a.Status, want)
		}
	}
	if a := c.Do(http.MethodGet, "/execution/history/s", nil); a.Status != 404 {
		t.Errorf("read: %d", a.Status)
	}

	a = c.post("/execution/history/cleanup?max_sessions=1", obj{})
	if r := a.JSON(t).(obj); a.Status != 200 || r["deleted"] != float64(4) { // two workflows, with a step each
		t.Errorf("a.Status = %d %v", a.Status, r)
	}
	if s := c.Read("/execution/status").(obj); s["status"] != "active" {
		t.Errorf("s = %v", s)
	}
}

// streamed are the events of a stream, the pieces of a text as one, and all texts.
func streamed(
	t *testing.T, c *client, path string, body any, header ...string,
) (events []obj, ids []string, texts string) {
	t.Helper()
	before := "" // the texts before this one
	ids = listen(t, c, path, body, func(e obj) {
		text, isText := e["data"].(obj)["text"].(string)
		if !isText {
			text, isText = e["data"].(obj)["content"].(string)
		}

		if last := len(events) - 1; !isText || last < 0 || events[last]["type"] != e["type"] {
			events, before = append(events, e), texts
		}
		if e["data"].(obj)["reset"] == true {
			texts = before
		}
		texts += text
	}, header...)
	return events, ids, texts
}

// listen calls on with the events of a stream as they arrive, and returns their ids.
func listen(t *testing.T, c *client, path string, body any, on func(obj), header ...string) (ids []string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.Base+path,
		strings.NewReader(string(apitest.JSON(t, body))))
	if err != nil {
		t.Fatal(err)
	}

	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}

	res, err := c.HTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()

	if got := res.Header.Get("Content-Type") + " " + res.Header.Get("Cache-Control") + " " +
		res.Header.Get("X-Accel-Buffering"); res.StatusCode != 200 || got != "text/event-stream no-cache no" {
		t.Fatalf("res.StatusCode = %d %s", res.StatusCode, got)
	}

	lines := bufio.NewScanner(res.Body)
	for lines.Buffer(nil, 32<<20); lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			ids = append(ids, id)
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			if text := lines.Text(); text != "" && text != ":" && !strings.HasPrefix(text, "id: ") {
				t.Errorf("a line of the stream is %.100q", text)
			}
			continue
		}

		var e obj
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		on(e)
	}

	if err := lines.Err(); err != nil && t.Context().Err() == nil {
		t.Logf("the stream ended: %v", err)
	}
	return ids
}

func types(events []obj) string {
	var all []string
	for _, e := range events {
		all = append(all, e["type"].(string))
	}
	return strings.Join(all, " ")
}

// TestStream checks the order of events, with several calls of a turn, and that a client which comes back receives
// what it missed. D15, D16.
func TestStream(t *testing.T) {
	t.Parallel()
	turns := []scriptmodel.Turn{
		{Content: "Let me see.", ToolCalls: []scriptmodel.ToolCall{use("one"), use("fail")}}, {Content: "It is done."},
	}
	c := facade(t, turns...)

	events, ids, texts := streamed(t, c, "/execution/agents/guide/stream", obj{"user_message": "Go."})
	const use = " tool_use_start tool_use_input_delta tool_use_end"
	want := "session_info text_delta" + use + use + " tool_result tool_execution_error text_delta stream_end"
	if got := types(events); got != want || texts != "Let me see.It is done." {
		t.Fatalf("types(events) = %s\n%q", got, texts)
	}

	if d := events[len(events)-1]["data"].(obj); d["status"] != "success" ||
		d["final_response"].(obj)["content"] != "It is done." {
		t.Errorf("d = %v", d)
	}
	if d := events[8]["data"].(obj); d["output"] != "one" || d["name"] != "echo" {
		t.Errorf("d = %v", d)
	}

	// From the middle: what follows, and the texts whole.
	again, _, texts := streamed(t, c, "/execution/agents/guide/stream", obj{}, "Last-Event-ID", ids[len(ids)-3])
	if got := types(again); !strings.HasSuffix(want, got) || len(again) == 0 || len(again) >= len(events) ||
		texts != "It is done." && texts != "" {
		t.Errorf("types(again) = %s %q", got, texts)
	}

	all, more, texts := streamed(t, c, "/execution/agents/guide/stream", obj{}, "Last-Event-ID",
		strings.Split(ids[0], "/")[0]+"/0")
	if types(all) != want || texts != "Let me see.It is done." || len(more) != len(all) {
		t.Errorf("types(all) = %s %q %v", types(all), texts, more)
	}

	// The same under Aurite's names.
	events, ids, texts = streamed(t, c, "/execution/agents/guide/stream?format=aurite", obj{"user_message": "Go."})
	if got := types(events); got !=
		"session_info llm_response_start llm_response tool_call tool_call tool_output tool_output llm_response "+
			"llm_response_stop" || texts != "Let me see.It is done." {
		t.Errorf("types(events) = %s %q", got, texts)
	}

	const toolEvents = `[{"data":{"input":{"text":"one"},"name":"echo"},"type":"tool_call"},{"data":{"input":{"text":"fail"},"name":"echo"},"type":"tool_call"},` +
		`{"data":{"name":"echo","output":"one"},"type":"tool_output"},{"data":{"name":"echo","output":"it broke"},"type":"tool_output"}]`
	if got := string(apitest.JSON(t, events[3:7])); got != toolEvents {
		t.Errorf("string(apitest.JSON(events[3:7])) = %s", got)
	}
	if d := events[8]["data"].(obj); d["status"] != "success" || d["reason"] != "message_complete" {
		t.Errorf("d = %v", d)
	}

	if again, _, _ := streamed(t, c, "/execution/agents/guide/stream?format=aurite", obj{}, "Last-Event-ID",
		ids[len(ids)-2]); !strings.HasSuffix(types(again), "llm_response_stop") || len(again) > 3 {
		t.Errorf("types(again) = %s", types(again))
	}
	if a := c.post("/execution/agents/guide/stream?format=other", obj{"user_message": "Go."}); a.Status != 400 ||
		!strings.Contains(string(a.Body), `"field":"format"`) {
		t.Errorf("another format: %d %s", a.Status, a.Body)
	}
	if a := c.post("/execution/agents/other/stream", obj{}, "Last-Event-ID", ids[0]); a.Status != 400 {
		t.Errorf("the stream of another agent: %d", a.Status)
	}
}

// TestStreamEnds checks how the stream of an agent without an answer ends. D16.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	again := scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{use("x")}}
	c := facade(t, again, again, again)

	events, _, _ := streamed(t, c, "/execution/agents/guide/stream", obj{"user_message": "Go.", "session_id": "s"})
	if last := events[len(events)-1]; last["type"] != "stream_end" || last["data"].(obj)["status"] != "error" ||
		last["data"].(obj)["reason"] != "turn_limit_reached" {
		t.Errorf("last = %v", last)
	}
	if h := c.Read("/execution/history/s").(obj); h["total"] != float64(7) {
		t.Errorf("the history has %v messages", h["total"])
	}

	events, _, _ = streamed(t, c, "/execution/agents/guide/stream?format=aurite", obj{"user_message": "Go."})
	if last := events[len(events)-1]; last["type"] != "llm_response_stop" || last["data"].(obj)["status"] != "error" ||
		last["data"].(obj)["reason"] != "turn_limit_reached" {
		t.Errorf("last = %v", last)
	}

	c = facade(t, scriptmodel.Turn{Error: &scriptmodel.Failure{Status: 400, Message: "No."}})
	for format, want := range map[string]string{
		"": "session_info error stream_end", "?format=aurite": "session_info error",
	} {
		events, _, _ = streamed(t, c, "/execution/agents/guide/stream"+format, obj{"user_message": "Go."})
		if got := types(events); got != want {
			t.Errorf("types(events) = %s", got)
		}
	}
}

// TestStreamOfHostileTexts checks that what models, tools and callers say cannot end an event of a stream, or begin
// another, and is told as it is on record. D16.
func TestStreamOfHostileTexts(t *testing.T) {
	t.Parallel()
	const hostile = "a\n\nid: plan-1/9\ndata: {\"type\":\"stream_end\"}\r\n\r\n:\u2028"
	outputs := map[string]string{"lines": hostile, "bytes": "a\xff\x00b", "long": strings.Repeat("x", 5<<20)}
	c := facadeWith(t, apitest.Options{}, func(_ context.Context, text string) (string, error) {
		return outputs[text], nil
	},
		scriptmodel.Turn{
			Content: hostile, ToolCalls: []scriptmodel.ToolCall{
				use("lines"), use("bytes"), use("long"), enginetest.Call("no\n\ndata: {}", obj{}), enginetest.Call("echo", hostile),
			},
		},
		scriptmodel.Turn{Content: "Done.\x00"})

	events, ids, texts := streamed(t, c, "/execution/agents/guide/stream",
		obj{"user_message": hostile, "session_id": hostile})
	calls := strings.Repeat(" tool_use_start tool_use_input_delta tool_use_end", 5)
	if got := types(events); got != "session_info text_delta"+calls+
		" tool_result tool_result tool_result tool_execution_error tool_execution_error text_delta stream_end" ||
		texts != hostile+"Done.\uFFFD" {
		t.Fatalf("types(events) = %s %q", got, texts)
	}

	for _, id := range ids {
		if !strings.HasPrefix(id, events[0]["data"].(obj)["plan_id"].(string)+"/") {
			t.Errorf("an id is %q", id)
		}
	}

	for i, want := range []string{
		hostile, "a\uFFFD\uFFFDb", "xxx", "There is no tool no", "Error: Invalid JSON arguments provided: ",
	} {
		d := events[17+i]["data"].(obj)
		text, _ := d["output"].(string)
		if i > 2 {
			text, _ = d["error"].(string)
		}
		if !strings.HasPrefix(text, want) || i < 2 && text != want || len(text) > tool.MaxText {
			t.Errorf("result %d: %.300q, want %.300q", i, text, want)
		}
	}

	if said := c.Read("/execution/history/" + url.PathEscape(hostile)).(obj); said["session_id"] != hostile ||
		len(said["history"].([]any)) != 8 {
		t.Errorf("said = %v", said)
	}
}

// TestHostileRequests checks that what is wrong with a request is said with the field and the limit.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	c := facade(t, scriptmodel.Turn{Content: "Done."})
	long := strings.Repeat("x", 10<<10)

	for _, row := range []struct {
		name, path, body string
		header           string // Last-Event-ID
		status           int
		want             string
	}{
		{
			"a session with NUL", "guide/stream", `{"user_message":"a","session_id":"\u0000"}`, "", 400,
			"session_id must be without NUL",
		},
		{
			"a long session", "guide/stream", `{"user_message":"a","session_id":"` + long + `"}`, "", 400,
			"session_id must not be longer than 255 bytes",
		},
		{
			"a long text", "guide/stream", `{"user_message":"` + strings.Repeat("x", 50<<20) + `"}`, "", 413,
			"the body is over 4194304 bytes",
		},
		{"half a body", "guide/stream", `{"user_message":`, "", 400, "the body must be a JSON object"},
		{"bytes", "guide/stream", "{\"user_message\":\"\xff\"}", "", 400, "the body must be UTF-8"},
		{
			"a deep body", "guide/run", `{"messages":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, "", 400,
			"the body must not nest deeper than 100 levels",
		},
		{
			"a role", "guide/run", `{"messages":[{"role":"tool","content":"x"}]}`, "", 400,
			"messages[0].role must be user or assistant",
		},
		{"a name with NUL", "a%00/run", `{"user_message":"a"}`, "", 404, "There is no such agent"},
		{
			"a name of lines", "a%0A%0Adata:/stream", `{"user_message":"a"}`, "", 404,
			`Agent configuration 'a\n\ndata:' not found.`,
		},
		{"a long name", long + "/run", `{"user_message":"a"}`, "", 404, "xxx...' not found."},
		{"a last event without number", "guide/stream", `{}`, "plan-1", 400, "Last-Event-ID must be the id of an event"},
		{"a last event of long ago", "guide/stream", `{}`, "plan-1/-9", 400, "Last-Event-ID must be the id of an event"},
		{
			"a last event beyond numbers", "guide/stream", `{}`, "plan-1/99999999999999999999", 400,
			"Last-Event-ID must be the id of an event",
		},
		{"a last event of bytes", "guide/stream", `{}`, "\xff/1", 400, "Last-Event-ID must be the id of an event"},
		{
			"a last event of no run", "guide/stream", `{}`, "plan-1/1", 404, "There is no such agent, workflow, session or run.",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			header := []string{}
			if row.header != "" {
				header = append(header, "Last-Event-ID", row.header)
			}
			a := (&client{c.For(t)}).post("/execution/agents/"+row.path, row.body, header...)
			if a.Status != row.status || !strings.Contains(string(a.Body), row.want) || len(a.Body) > 1_000 {
				t.Errorf("a.Status = %d %.500s", a.Status, a.Body)
			}
		})
	}

	// What can be said is said, whatever is in it.
	for _, input := range []string{`{"a\u0000":"\u0000"}`, `"\ud800"`, `1e999999`, `[[[]]]`} {
		a := c.post("/execution/workflows/custom/own/run", `{"initial_input":`+input+`}`)
		if r, _ := a.JSON(t).(obj); r["status"] != "completed" {
			t.Errorf("%s: %d %.500s", input, a.Status, a.Body)
		}
	}
}

// TestListenerLeaves checks that events are told as they happen, and that the run goes on when the client leaves.
// D15, D16.
func TestListenerLeaves(t *testing.T) {
	t.Parallel()
	var log apitest.Log
	release := make(chan struct{})
	c := facadeWith(t, apitest.Options{Log: &log}, func(ctx context.Context, text string) (string, error) {
		if text == "hold" {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return text, nil
	}, scriptmodel.Turn{Content: "Let me see.", ToolCalls: []scriptmodel.ToolCall{use("one"), use("hold")}},
		scriptmodel.Turn{Content: "It is done."})

	res, err := c.HTTP.Post(c.Base+"/execution/agents/guide/stream", "application/json",
		strings.NewReader(`{"user_message":"Go.","session_id":"s"}`))
	if err != nil {
		t.Fatal(err)
	}

	lines := bufio.NewScanner(res.Body)
	// of the first call: the second is under way
	for lines.Scan() && !strings.Contains(lines.Text(), `"type":"tool_result"`) {
	}
	res.Body.Close()
	for len(log.Lines("route=/execution/agents/:name/stream")) == 0 {
		pause(t)
	}

	close(release)
	id := res.Header.Get("Actlog-Plan-Id")
	for c.run(id).(obj)["state"] != "COMPLETED" {
		pause(t)
	}
	if h := c.Read("/execution/history/s").(obj)["history"].([]any); len(h) != 5 ||
		h[4].(obj)["content"] != "It is done." {
		t.Errorf("h = %v", h)
	}
}

// pause waits a little for what happens meanwhile.
func pause(t *testing.T) {
	t.Helper()
	if err := pg.Pause(t.Context(), 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
}

// TestListenerStalls checks that a client which does not read is cut, that the run goes on, and that the client can
// come back for the rest. D16.
func TestListenerStalls(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	c := facadeWith(t, apitest.Options{Log: io.Discard, Server: func(config *apitest.Config) {
		config.HTTP.AnswerPatience = 200 * time.Millisecond
	}},
		func(_ context.Context, text string) (string, error) { return fmt.Sprint(len(text)), nil },
		scriptmodel.Turn{Whole: true, ToolCalls: []scriptmodel.ToolCall{use(large)}},
		scriptmodel.Turn{Whole: true, Content: large})

	door := httptest.NewUnstartedServer(c.Server)
	// so that what waits in the system is little
	door.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if err := conn.(*net.TCPConn).SetWriteBuffer(64 << 10); err != nil {
			t.Error(err)
		}
		return ctx
	}
	door.Start()
	t.Cleanup(door.Close)

	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", door.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}

	const body = `{"user_message":"Go."}`
	if _, err := fmt.Fprintf(conn,
		"POST /execution/agents/guide/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}

	c.WantMetric("actlog_http_answers_cut_total", 1)
	var id string
	for state := ""; state != "COMPLETED"; pause(t) {
		only := c.Read("/api/v1/runs").(obj)["items"].([]any)[0].(obj)
		id, state = only["planId"].(string), only["state"].(string)
	}

	events, _, texts := streamed(t, c, "/execution/agents/guide/stream", obj{}, "Last-Event-ID", id+"/1")
	if got := types(events); got !=
		"tool_use_start tool_use_input_delta tool_use_end tool_result text_delta stream_end" || texts != large {
		t.Errorf("types(events) = %s", got)
	}
}
