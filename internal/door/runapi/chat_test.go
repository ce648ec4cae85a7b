package runapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// chatStarter starts runs of an engine. Its catalog has an agent.
type chatStarter struct {
	*engine.Engine
	runapi.Catalog
}

func (chatStarter) Startables() []engine.Startable { return runtime{}.Startables() }

// chat serves the chat API with a worker, whose agent reader follows turns. It has a tool echo, and a tool pay that a
// human approves.
func chat(t *testing.T, o apitest.Options, turns ...scriptmodel.Turn) (*client, *enginetest.House) {
	t.Helper()
	if turns == nil {
		turns = []scriptmodel.Turn{{ToolCalls: enginetest.Terminate("Well.")}}
	}

	say := func(_ context.Context, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	}
	a := define.Definition{
		Agent: "reader", Model: define.DefinitionModel{Name: "default"}, Tools: []string{"echo", "pay"}, EnableWrite: true,
		MaxSteps: 4,
	}

	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{{Name: "reader", Turns: turns}},
		Tools: []tool.Tool{
			tool.Func("echo", "Says it again.", say),
			tool.Func("pay", "Pays.", say, tool.WithPolicy(tool.Policy{Approval: true})),
		},
		Definitions: map[string]any{"agent.reader": a}, Executors: []engine.Executor{thinkact.Executor{}},
		Config: func(c *engine.Config) { c.Watcher = c.Store.Deltas() },
	})

	h.Work(h.Engine)
	o.DB, o.Runtime = h.DB, func(*runstore.Store) (runapi.Starter, runapi.Catalog) {
		s := chatStarter{Engine: h.Engine}
		return s, s
	}
	return &client{apitest.ServeWith(t, o)}, h
}

func ask(more ...obj) obj {
	body := obj{"model": "agent/reader", "messages": []obj{{"role": "user", "content": "Read."}}}
	for _, each := range more {
		for name, value := range each {
			body[name] = value
		}
	}
	return body
}

// started is the time in which a stream has begun to watch its run.
const started = scriptmodel.Duration(time.Second)

const completions = "/v1/chat/completions"

// pieces returns what the events of a stream say: the texts of the answer, the finish reason, and the last event.
func pieces(t *testing.T, body []byte) (texts []string, finish, last string) {
	t.Helper()
	for event := range strings.SplitSeq(strings.TrimSpace(string(body)), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok {
			continue // a comment
		}
		last = data

		var piece struct {
			Choices []struct {
				Delta        struct{ Content string }
				FinishReason string `json:"finish_reason"`
			}
		}
		if data == "[DONE]" {
			break
		}
		if err := json.Unmarshal([]byte(data), &piece); err != nil {
			t.Fatalf("%s: %v", data, err)
		}

		for _, choice := range piece.Choices {
			if choice.Delta.Content != "" {
				texts = append(texts, choice.Delta.Content)
			}
			finish += choice.FinishReason
		}
	}
	return texts, finish, last
}

// TestCompletion checks that a completion is a run of an agent, with the messages before as its history.
func TestCompletion(t *testing.T) {
	t.Parallel()
	c, h := chat(t, apitest.Options{}, scriptmodel.Turn{Content: "I think.", ToolCalls: enginetest.Terminate("Well.")},
		scriptmodel.Turn{ToolCalls: enginetest.Terminate("Well again.")})

	a := c.post(completions, ask(obj{
		"temperature": 0.1, "max_tokens": 7, "user": "ann", "metadata": obj{"team": "a"}, "n": 1,
		"response_format": obj{"type": "text"},
	}))
	wantStatus(t, a, http.StatusOK)
	expect(t, a.JSON(t), obj{
		"object": "chat.completion", "model": "agent/reader", "choices.0.message.content": "Well.",
		"choices.0.message.role": "assistant", "choices.0.finish_reason": "stop",
	})

	usage := a.JSON(t).(obj)["usage"].(obj)
	if usage["prompt_tokens"].(float64) <= 0 ||
		usage["total_tokens"] != usage["prompt_tokens"].(float64)+usage["completion_tokens"].(float64) {
		t.Errorf("usage: %v", usage)
	}

	id := a.Header.Get("X-Actlog-Run")
	expect(t, c.run(id), obj{"executor": "agent", "name": "reader", "state": "COMPLETED", "result": "Well."})
	p := h.Plan(id).Record
	if p.UserID == nil || *p.UserID != "ann" || !slices.Equal(p.Tags, []string{"team=a"}) {
		t.Errorf("the run is of %v, with tags %v", p.UserID, p.Tags)
	}

	talk := []obj{
		{"role": "system", "content": "Be brief."}, {
			"role": "user", "content": []obj{{"type": "text", "text": "Read"}, {"type": "text", "text": "it."}},
		},
		{"role": "assistant", "content": "Well."}, {"role": "assistant", "content": nil},
		{"role": "user", "content": "Again."},
	}
	wantStatus(t, c.post(completions, ask(obj{"messages": talk})), http.StatusOK)

	var sent struct {
		Messages []struct{ Role, Content string }
	}
	requests := h.Model.Requests()
	if err := json.Unmarshal(requests[len(requests)-1].Body, &sent); err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, m := range sent.Messages[1:] {
		got = append(got, m.Role+": "+m.Content)
	}
	if want := []string{
		"user: Be brief.", "user: Read\nit.", "assistant: Well.", "user: Again.",
	}; !slices.Equal(got, want) || strings.Contains(sent.Messages[0].Content, "brief") {
		t.Errorf("the model was told %q", got)
	}
}

// TestCompletionStreams checks that a stream has the answer while it arrives, and nothing of tools and thoughts.
func TestCompletionStreams(t *testing.T) {
	t.Parallel()
	answer := "First \"this\",\nthen Größe 漢字 \U0001F600. " + strings.Repeat("And more words. ", 40)
	c, _ := chat(t, apitest.Options{}, scriptmodel.Turn{
		Content: "I call a tool.", ToolCalls: []scriptmodel.ToolCall{use("hidden")},
	},
		scriptmodel.Turn{
			Content: "I think I am done.", ToolCalls: enginetest.Terminate(answer), Delay: started,
			ChunkDelay: scriptmodel.Duration(3 * time.Millisecond),
		})

	send := func(more obj) apitest.Answer {
		return c.post(completions, ask(obj{"stream": true, "stream_options": obj{"include_usage": true}}, more),
			"Idempotency-Key", "once")
	}

	a := send(nil)
	wantStatus(t, a, http.StatusOK)
	texts, finish, last := pieces(t, a.Body)
	if strings.Join(texts, "") != answer || len(texts) < 3 || finish != "stop" || last != "[DONE]" {
		t.Errorf("%d pieces, %q, %q: %q", len(texts), finish, last, texts)
	}
	if strings.Count(string(a.Body), `"prompt_tokens"`) != 1 {
		t.Errorf("usage is not there once: %s", a.Body)
	}

	again := send(nil) // from the record
	texts, finish, _ = pieces(t, again.Body)
	if again.Header.Get("X-Actlog-Run") != a.Header.Get("X-Actlog-Run") || strings.Join(texts, "") != answer ||
		finish != "stop" {
		t.Errorf("again: %q %q", texts, finish)
	}

	whole := c.post(completions, ask(), "Idempotency-Key", "once")
	expect(t, whole.JSON(t), obj{"choices.0.message.content": answer})
	other := send(obj{"user": "bob"})
	wantStatus(t, other, http.StatusUnprocessableEntity)
	expect(t, other.JSON(t), obj{
		"error.code": "idempotency_key_in_use", "error.param": "Idempotency-Key", "error.type": "invalid_request_error",
	})
}

// TestCompletionRestarts checks that a stream never ends well that sent something else than the answer.
func TestCompletionRestarts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("It begins like this. ", 60)
	for name, tt := range map[string]struct{ second, finish string }{
		"the same": {long + "The end.", "stop"},
		"another":  {"Something else.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			// A process that has sent no text yet first learns who watches.
			first := scriptmodel.Turn{Content: "I call a tool.", ToolCalls: []scriptmodel.ToolCall{use("hidden")}}
			c, h := chat(t, apitest.Options{}, first,
				scriptmodel.Turn{Reply: func(context.Context, *scriptmodel.Request) (scriptmodel.Turn, error) {
					if tries++; tries > 1 {
						return scriptmodel.Turn{ToolCalls: enginetest.Terminate(tt.second)}, nil
					}
					return scriptmodel.Turn{
						ToolCalls: enginetest.Terminate(long), Delay: started, ChunkDelay: scriptmodel.Duration(20 * time.Millisecond),
						Break: &scriptmodel.Break{After: 60},
					}, nil
				}})

			a := c.post(completions, ask(obj{"stream": true}))
			texts, finish, last := pieces(t, a.Body)
			if finish != tt.finish || finish == "stop" && strings.Join(texts, "") != tt.second || finish == "" &&
				!strings.Contains(last, "answer_restarted") {
				t.Errorf("%q %q %s, after %d requests to the model", texts, finish, last, len(h.Model.Requests()))
			}
		})
	}
}

// TestCompletionRefuses checks that what a completion cannot do is refused by its name, in the words of OpenAI.
func TestCompletionRefuses(t *testing.T) {
	t.Parallel()
	c, _ := chat(t, apitest.Options{})
	said := func(m ...obj) obj { return obj{"messages": m} }
	last := obj{"role": "user", "content": "x"}

	for _, tt := range []struct {
		body   obj
		status int
		param  string
		code   string
	}{
		{obj{"model": "agent/nobody"}, http.StatusNotFound, "model", "model_not_found"},
		{obj{"model": "gpt-5"}, http.StatusNotFound, "model", "model_not_found"},
		{obj{"model": nil}, http.StatusBadRequest, "model", "missing_field"},
		{obj{"messages": []obj{}}, http.StatusBadRequest, "messages", "missing_field"},
		{obj{"messages": "x"}, http.StatusBadRequest, "messages", "invalid_value"},
		{obj{"tools": []obj{{"type": "function"}}}, http.StatusBadRequest, "tools", "invalid_value"},
		{obj{"n": 2}, http.StatusBadRequest, "n", "invalid_value"},
		{obj{"logprobs": true}, http.StatusBadRequest, "logprobs", "invalid_value"},
		{obj{"response_format": obj{"type": "json_schema"}}, http.StatusBadRequest, "response_format", "invalid_value"},
		{obj{"stop": []string{"x"}}, http.StatusBadRequest, "stop", "invalid_value"},
		{obj{"surprise": 1}, http.StatusBadRequest, "surprise", "invalid_value"},
		{obj{"stream": "yes"}, http.StatusBadRequest, "stream", "invalid_value"},
		{
			obj{"stream_options": obj{"include_usage": 1}}, http.StatusBadRequest, "stream_options.include_usage",
			"invalid_value",
		},
		{obj{"metadata": obj{"a": 1}}, http.StatusBadRequest, "metadata", "invalid_value"},
		{said(last, obj{"role": "assistant", "content": "y"}), http.StatusBadRequest, "messages[1]", "invalid_value"},
		{said(obj{"role": "system", "content": "y"}), http.StatusBadRequest, "messages[0]", "invalid_value"},
		{said(obj{"role": "tool", "content": "y"}, last), http.StatusBadRequest, "messages[0].role", "invalid_value"},
		{
			said(obj{"role": "assistant", "tool_calls": []obj{{"id": "a"}}}, last), http.StatusBadRequest,
			"messages[0].tool_calls", "invalid_value",
		},
		{
			said(obj{"role": "user", "content": []obj{{"type": "text", "text": "y"}, {"type": "image_url"}}}),
			http.StatusBadRequest, "messages[0].content[1]", "invalid_value",
		},
		{said(obj{"role": "user", "content": 1}), http.StatusBadRequest, "messages[0].content", "invalid_value"},
		{
			said(obj{"role": "user", "content": strings.Repeat("x", 200_001)}, last), http.StatusBadRequest, "messages",
			"invalid_value",
		},
	} {
		a := c.post(completions, ask(tt.body))
		if wantStatus(t, a, tt.status); a.Status != tt.status {
			t.Errorf("%v: %s", tt.body, a.Body)
			continue
		}
		expect(t, a.JSON(t), obj{"error.param": tt.param, "error.code": tt.code, "error.type": "invalid_request_error"})
	}

	a := c.post(completions, "[")
	wantStatus(t, a, http.StatusBadRequest)
	expect(t, a.JSON(t), obj{"error.type": "invalid_request_error", "error.param": nil})
	if a := c.Get("/api/v1/runs"); len(a.JSON(t).(obj)["items"].([]any)) != 0 {
		t.Errorf("runs were started: %s", a.Body)
	}
}

// TestCompletionNeedsAKey checks that a completion needs a key that may run, that a body is bounded, and that
// OpenAI's clients understand what is said of it.
func TestCompletionNeedsAKey(t *testing.T) {
	t.Parallel()
	secrets, server := door(t, map[string][]httpd.Scope{"runner": {httpd.ScopeRun}, "reader": {httpd.ScopeRead}})
	c, _ := chat(t, apitest.Options{Server: server})
	who := c.people(secrets)
	wantStatus(t, who["runner"].post(completions, ask()), http.StatusOK)

	for name, tt := range map[string]struct {
		client     *client
		body       any
		status     int
		kind, code string
	}{
		"no key": {&client{c.As("")}, ask(), http.StatusUnauthorized, "authentication_error", "invalid_api_key"},
		"a wrong key": {
			&client{c.As("actlog_wrong")}, ask(), http.StatusUnauthorized, "authentication_error", "invalid_api_key",
		},
		"may not run":  {who["reader"], ask(), http.StatusForbidden, "permission_error", "insufficient_scope"},
		"a large body": {who["runner"], large(9 << 20), http.StatusRequestEntityTooLarge, "invalid_request_error", ""},
	} {
		a := tt.client.post(completions, tt.body)
		if wantStatus(t, a, tt.status); a.Status != tt.status {
			t.Errorf("%s: %s", name, a.Body)
			continue
		}

		want := obj{"error.type": tt.kind, "error.code": tt.code}
		if tt.code == "" {
			want["error.code"] = nil
		}
		expect(t, a.JSON(t), want)
		if said := a.JSON(t).(obj)["error"].(obj)["message"]; said == "" {
			t.Errorf("%s: it says nothing", name)
		}
	}
}

// TestCompletionEnds checks how a completion ends whose run does not end well, and that the client is not to send it
// again.
func TestCompletionEnds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		turn   scriptmodel.Turn
		status int
		want   obj
	}{
		"a refusal": {
			scriptmodel.Turn{Refusal: "I will not."}, http.StatusOK, obj{
				"choices.0.finish_reason": "content_filter", "choices.0.message.content": "",
			},
		},
		"cut": {
			scriptmodel.Turn{Content: "Hal", FinishReason: "length"}, http.StatusOK, obj{"choices.0.finish_reason": "length"},
		},
		"a failure": {
			scriptmodel.Turn{Error: &scriptmodel.Failure{Status: 400, Message: "no"}}, http.StatusInternalServerError,
			obj{"error.type": "server_error", "error.code": "invalid_request"},
		},
		"silence": {scriptmodel.Turn{Content: "Well."}, http.StatusInternalServerError, obj{"error.code": "no_tool_call"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := chat(t, apitest.Options{}, tt.turn, tt.turn, tt.turn)
			a := c.post(completions, ask())
			wantStatus(t, a, tt.status)
			expect(t, a.JSON(t), tt.want)
			if final := a.Header.Get("X-Should-Retry"); (final == "false") != (tt.status != http.StatusOK) ||
				a.Header.Get("X-Actlog-Run") == "" {
				t.Errorf("X-Should-Retry: %q", final)
			}

			streamed := c.post(completions, ask(obj{"stream": true}))
			if _, finish, last := pieces(t, streamed.Body); (finish == "") != (tt.status != http.StatusOK) || finish == "" &&
				!strings.Contains(last, `"error"`) {
				t.Errorf("streamed: %s", streamed.Body)
			}
		})
	}
}

// TestCompletionWaits checks that a completion does not wait for a human for ever, and that its run does.
func TestCompletionWaits(t *testing.T) {
	t.Parallel()
	patience := func(c *apitest.Config) { c.Runs.ChatPatience = 200 * time.Millisecond }
	c, h := chat(t, apitest.Options{Server: patience},
		scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{enginetest.Call("pay", enginetest.Object{"text": "10"})}},
		scriptmodel.Turn{ToolCalls: enginetest.Terminate("Paid.")})

	a := c.post(completions, ask(), "Idempotency-Key", "k")
	wantStatus(t, a, http.StatusGatewayTimeout)
	id := a.Header.Get("X-Actlog-Run")
	if message := fmt.Sprint(a.JSON(t).(obj)["error"]); !strings.Contains(message, id) ||
		a.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("message = %s", message)
	}

	expect(t, c.run(id), obj{"state": "WAITING", "dueAt": nil, "waits.0.expiresAt": nil}) // it waits without an end
	wait := c.run(id).(obj)["waits"].([]any)[0].(obj)["waitId"].(string)
	wantStatus(t, c.post("/api/v1/runs/"+id+"/waits/"+wait, obj{"decision": "approve"}), http.StatusOK)
	h.Await(id, record.Completed)

	a = c.post(completions, ask(), "Idempotency-Key", "k")
	wantStatus(t, a, http.StatusOK)
	expect(t, a.JSON(t), obj{"choices.0.message.content": "Paid."})
}

// TestCompletionWithoutWorker checks that a completion that nobody can carry is refused, and its run stopped unless
// the client can ask for it again.
func TestCompletionWithoutWorker(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{Server: func(c *apitest.Config) { c.Runs.PlanPatience = 200 * time.Millisecond }})
	if err := c.Runs.StopWorker(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}

	for key, desired := range map[string]string{"": "CANCEL", "k": "RUN"} {
		a := c.post(completions, ask(), "Idempotency-Key", key)
		wantStatus(t, a, http.StatusServiceUnavailable)
		expect(t, a.JSON(t), obj{"error.code": "no_worker", "error.type": "server_error"})

		var got string
		if err := c.DB.Pool.QueryRow(t.Context(), "SELECT desired FROM actlog.run WHERE plan_id = $1",
			a.Header.Get("X-Actlog-Run")).Scan(&got); err != nil || got != desired {
			t.Errorf("with key %q, the run is to %s, not %s: %v", key, got, desired, err)
		}
	}
}

// TestChatModels checks that agents are listed as models.
func TestChatModels(t *testing.T) {
	t.Parallel()
	c, _ := chat(t, apitest.Options{})
	expect(t, c.Read("/v1/models"), obj{
		"object": "list", "data.0.id": "agent/reader", "data.0.object": "model", "data.0.owned_by": "actlog",
	})
	expect(t, c.Read("/v1/models/agent/reader"), obj{"id": "agent/reader"})
	expect(t, c.Read("/v1/models/agent%2Freader"), obj{"id": "agent/reader"})

	a := c.Get("/v1/models/gpt-5")
	wantStatus(t, a, http.StatusNotFound)
	expect(t, a.JSON(t), obj{"error.code": "model_not_found"})
}
