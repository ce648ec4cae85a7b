package otlp_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

// made returns the spans of a script without the rest of it.
func made(t testing.TB, spans ...string) []otlp.Span {
	t.Helper()
	return parseScript(t, t.Name(), []byte(`{"spans": [`+strings.Join(spans, ",\n")+`]}`))
}

// quoted returns a text as JSON.
func quoted(t testing.TB, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// TestFailedCalls: O3: an error on any of the spans of a tool call, or in its log, is the call's, in
// any order of arrival.
func TestFailedCalls(t *testing.T) {
	t.Parallel()
	const agent = `{"id": "1", "name": "invoke_agent a", "start": 1, "end": 90, "attributes": {"gen_ai.operation.name": "invoke_agent"}}`
	const session = `{"id": "1", "name": "claude_code.interaction", "start": 1, "end": 90, "attributes": {"user_prompt": "Go"}}`
	const claudeTool = `{"id": "2", "parent": "1", "name": "claude_code.tool", "start": 10, "end": 20, "attributes": {"tool_name": "pay", "tool_use_id": "u1"}}`

	for name, c := range map[string]struct {
		kind, message string
		spans         []string
	}{
		"the inner span": {"ValueError", "no money", []string{agent,
			`{"id": "2", "parent": "1", "name": "x", "start": 10, "end": 20, "status": 1, "attributes": {"openinference.span.kind": "TOOL", "tool.name": "pay", "output.value": "sorry"}}`,
			`{"id": "3", "parent": "2", "name": "execute_tool pay", "start": 11, "end": 19, "status": 2, "message": "no money", "attributes": {"error.type": "ValueError"}}`}},
		"a span between": {"error", "no money", []string{agent,
			`{"id": "2", "parent": "1", "name": "execute_tool pay", "start": 10, "end": 20}`,
			`{"id": "3", "parent": "2", "name": "tools/call pay", "start": 11, "end": 19, "status": 2, "message": "no money", "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}}`,
			`{"id": "4", "parent": "3", "name": "tools/call pay", "start": 12, "end": 18, "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}}`}},
		"an exception in the log": {"ValueError", "no money", []string{agent,
			`{"id": "2", "parent": "1", "name": "execute_tool pay", "start": 10, "end": 20}`,
			`{"id": "2", "stub": true, "events": [{"name": "gen_ai.client.operation.exception", "time": 15, "attributes": {"exception.type": "ValueError", "exception.message": "no money"}}]}`}},
		"a phase of the call": {"tool_error", "no money", []string{session, claudeTool,
			`{"id": "3", "parent": "2", "name": "claude_code.tool.execution", "start": 11, "end": 19, "status": 2, "message": "no money", "attributes": {"success": "false", "error.type": "tool_error"}}`}},
		"a log record of the session": {"McpToolCallError", "no money", []string{session, claudeTool,
			`{"id": "1", "stub": true, "events": [{"name": "tool_result", "time": 20, "attributes": {"tool_use_id": "u1", "success": "false", "error": "no money", "error_type": "McpToolCallError"}}]}`}},
		"a log record of the call": {"McpToolCallError", "no money", []string{session, claudeTool,
			`{"id": "2", "stub": true, "events": [{"name": "claude_code.tool_result", "time": 20, "attributes": {"tool_use_id": "u1", "success": "false", "error": "no money", "error_type": "McpToolCallError"}}]}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := made(t, c.spans...)
			tools := sorted(project(t, spans)).tools
			if len(tools) != 1 || *tools[0].Name != "pay" || *tools[0].State != record.Failed ||
				deref(tools[0].ErrorKind) != c.kind || deref(tools[0].ErrorMessage) != c.message {
				t.Errorf("tools = %+v", tools)
			}
			anyOrder(t, spans)
		})
	}
}

// TestFailedParts: O3: what a tool call does below it may fail without it.
func TestFailedParts(t *testing.T) {
	t.Parallel()
	tools := sorted(project(t, made(t,
		`{"id": "1", "name": "invoke_agent a", "start": 1, "end": 90}`,
		`{"id": "2", "parent": "1", "name": "execute_tool pay", "start": 10, "end": 20}`,
		`{"id": "3", "parent": "2", "name": "POST /pay", "start": 11, "end": 15, "status": 2}`,
		`{"id": "4", "parent": "2", "name": "execute_tool retry", "start": 16, "end": 19, "status": 2}`,
	))).tools

	if len(tools) != 2 || *tools[0].State != record.Completed || *tools[1].State != record.Failed {
		t.Errorf("tools = %+v", tools)
	}
}

// TestToolsWhileTheModelStreams: O6: a tool call belongs to the model call that runs when it starts, if
// that may have asked for it.
func TestToolsWhileTheModelStreams(t *testing.T) {
	t.Parallel()
	model := func(id, start, end int, attributes string) string {
		return fmt.Sprintf(
			`{"id": "%d", "parent": "1", "name": "chat m", "start": %d, "end": %d, "attributes": {"gen_ai.operation.name": "chat"%s}}`, id, start, end, attributes,
		)
	}

	asks := func(tool string) string {
		return `, "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "tool_call", "name": "` + tool +
			`", "arguments": {}}]}]`
	}

	const finish = `, "gen_ai.response.finish_reasons": ["%s"]`
	forTools, forGood := fmt.Sprintf(finish, "tool_use"), fmt.Sprintf(finish, "end_turn")
	for name, c := range map[string]struct {
		models []string
		seq    int64
	}{
		"it runs": {
			[]string{model(2, 10, 20, forTools), model(3, 30, 60, forTools), model(4, 70, 80, forGood)}, 1,
		},
		"it runs, nothing is known of it":  {[]string{model(2, 10, 20, ""), model(3, 30, 60, ""), model(4, 70, 80, "")}, 1},
		"it has not ended":                 {[]string{model(2, 10, 20, forTools), model(3, 30, 0, "")}, 1},
		"another runs that ends for good":  {[]string{model(2, 10, 45, forTools), model(3, 30, 60, forGood)}, 0},
		"another runs, asking for another": {[]string{model(2, 10, 45, asks("pay")), model(3, 30, 60, asks("look"))}, 0},
		"others ran since": {
			[]string{model(2, 35, 38, forGood), model(3, 30, 60, forTools), model(4, 40, 41, forGood)}, 2,
		},
		"none runs, the last ends for good": {[]string{model(2, 10, 20, forTools), model(3, 30, 40, forGood)}, 0},
		"none runs":                         {[]string{model(2, 10, 20, forTools), model(3, 30, 40, forTools)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := made(t, append(c.models, `{"id": "1", "name": "invoke_agent a", "start": 1, "end": 90}`,
				`{"id": "9", "parent": "1", "name": "execute_tool pay", "start": 50, "end": 65}`)...)
			for _, tool := range sorted(project(t, spans)).tools {
				if *tool.Name == "pay" && tool.SpanID != nil && tool.Seq != c.seq {
					t.Errorf("cycle %d, want %d", tool.Seq, c.seq)
				}
			}
			anyOrder(t, spans)
		})
	}
}

// TestNamesOfTools: O6: the name that the model used and that of the span are one name, whatever their
// case and separators.
func TestNamesOfTools(t *testing.T) {
	t.Parallel()
	for asked, called := range map[string]string{
		"delegate_work_to_coworker": "Delegate work to coworker", "get_weather": "getWeather", "Get-Weather": "get.weather",
		"wetter": "Wetter", "größe_ü": "Größe Ü",
	} {
		t.Run(asked, func(t *testing.T) {
			t.Parallel()
			spans := made(t, `{"id": "1", "name": "invoke_agent a", "start": 1, "end": 90}`,
				`{"id": "2", "parent": "1", "name": "chat m", "start": 10, "end": 20, "attributes": {"gen_ai.operation.name": "chat", "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "other", "arguments": {"x": 1}}, {"type": "tool_call", "id": "c2", "name": "`+asked+`", "arguments": {"x": 1}}]}]}}`,
				`{"id": "3", "parent": "1", "name": "x", "start": 30, "end": 40, "attributes": {"openinference.span.kind": "TOOL", "tool.name": "`+called+`", "input.value": "{\"x\": 1}"}}`,
				`{"id": "4", "parent": "3", "name": "execute_tool `+asked+`", "start": 31, "end": 39}`)

			r := sorted(project(t, spans))
			if len(r.plans) != 1 || len(r.tools) != 2 || deref(r.tools[1].ProviderCallID) != "c2" ||
				deref(r.tools[1].Name) != called || r.tools[1].Inferred != nil {
				t.Errorf("lines(project(spans)) = %s", lines(t, project(t, spans)))
			}
		})
	}
}

// TestEnvelopes: O7: a title, a request and a summary are texts for people, whatever is around them.
func TestEnvelopes(t *testing.T) {
	t.Parallel()
	const model = `{"id": "2", "parent": "1", "name": "chat m", "start": 10, "end": 20, "attributes": {"gen_ai.operation.name": "chat", ` +
		`"gen_ai.input.messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Plan a trip"}, {"role": "user", "content": "Think first."}], ` +
		`"gen_ai.output.messages": [{"role": "assistant", "content": "Go by train."}]}}`

	for _, kind := range []string{"AGENT", "CHAIN"} {
		for input, want := range map[string]string{
			`Where to?`:   "Where to?",
			`"Where to?"`: "Where to?",
			`{"task": "Where to?", "cancellation_token": "<Token object at 0x7f>"}`:      "Where to?",
			`{"args": ["Where to?"], "kwargs": {}}`:                                      "Where to?",
			`{"args": [], "kwargs": {"question": "Where to?"}}`:                          "Where to?",
			`{"args": [], "kwargs": {"messages": [{"role":"user","text":"Where to?"}]}}`: "Where to?",
			`{"args": [{"task": "Where to?"}], "kwargs": {}}`:                            "Where to?",
			`{"input_args": {"query": "Where to?"}}`:                                     "Where to?",
			`{"inputs": {"input": "Where to?"}}`:                                         "Where to?",
			`{"userInput": "Where to?", "maxSteps": 3}`:                                  "Where to?",
			`[{"task": "Where to?"}]`:                                                    "Where to?",
			`{"messages": [["user", "Where to?"]]}`:                                      "Where to?",
			`{"messages": [["human", "Hi"], ["ai", "Hello."], ["human", "Where to?"]]}`:  "Where to?",
			``:                          "Plan a trip",
			`[]`:                        "Plan a trip",
			`{}`:                        "Plan a trip",
			`null`:                      "Plan a trip",
			`{"args": [], "kwargs":{}}`: "Plan a trip",
			`{"city": "Oslo"}`:          "Plan a trip",
			`{"messages": ["id='1' source='user' created_at=datetime.datetime(2026, 1, 1) content='Where to?'"]}`: "Plan a trip",
			`{"messages": ["ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[])"], "tools": null}`:            "Plan a trip",
			`{'task': 'Where to?'}`:                        "Plan a trip",
			`{"start_event": "AgentWorkflowStartEvent()"}`: "Plan a trip",
			`{"user_msg": "main()"}`:                       "main()",
		} {
			t.Run(kind+" "+input, func(t *testing.T) {
				t.Parallel()
				r := sorted(project(t, made(t, model,
					`{"id": "1", "name": "trip.run", "start": 1, "end": 90, "attributes": {"openinference.span.kind": "`+kind+
						`", "input.value": `+quoted(t, input)+`}}`)))
				p, s := r.plans[0], r.steps[0]
				if got := []string{
					deref(p.Title), deref(p.UserRequest), deref(s.AgentRequest), deref(p.Name), deref(s.AgentName),
				}; fmt.Sprint(got) != fmt.Sprint([]string{want, want, want, "trip", "trip"}) {
					t.Errorf("%q, want %q", got, want)
				}
			})
		}

		for output, want := range map[string]string{
			`By ship.`:                           "By ship.",
			`{"result": "By ship."}`:             "By ship.",
			`{"output": {"answer": "By ship."}}`: "By ship.",
			`{"messages": [{"role": "user", "content": "Where to?"}, {"role": "assistant", "content": "By ship."}]}`: "By ship.",
			`{"raw": "By ship.", "tasks_output": [], "token_usage": {"total_tokens": 1}}`:                            "Go by train.",
			`AgentRunResult(output='By ship.', usage=RunUsage())`:                                                    "Go by train.",
			`[]`: "Go by train.",
			``:   "Go by train.",
		} {
			t.Run(kind+" answers "+output, func(t *testing.T) {
				t.Parallel()
				r := sorted(project(t, made(t, model,
					`{"id": "1", "name": "trip", "start": 1, "end": 90, "attributes": {"openinference.span.kind": "`+kind+
						`", "output.value": `+quoted(t, output)+`}}`)))
				if got := deref(r.plans[0].Summary) + "|" + deref(r.steps[0].Result); got != want+"|"+want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		}
	}
}

// TestArguments: O7: parameters and results have no envelope, and keep what only looks like one.
func TestArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		`{"args": [], "kwargs": {"city": "Oslo"}}`:                                  `{"city": "Oslo"}`,
		`{"args": [], "sanitize_inputs_outputs": true, "kwargs": {"city": "Oslo"}}`: `{"city": "Oslo"}`,
		`{"args": ["Oslo"], "kwargs": {}}`:                                          `Oslo`,
		`{"args": ["Oslo", 3], "kwargs": {}}`:                                       `["Oslo", 3]`,
		`{"args": ["Oslo"], "kwargs": {"days": 3}}`:                                 `{"args": ["Oslo"], "kwargs": {"days": 3}}`,
		`{"input_args": {"city": "Oslo"}}`:                                          `{"city": "Oslo"}`,
		`{"kwargs": {"city": "Oslo"}}`:                                              `{"city": "Oslo"}`,
		`{"task": "Where to?"}`:                                                     `{"task": "Where to?"}`,
		`{"command": "ls", "args": ["-l"]}`:                                         `{"command": "ls", "args": ["-l"]}`,
		`{"args": "-l"}`:                                                            `{"args": "-l"}`,
		`{}`:                                                                        `{}`,
		`[]`:                                                                        ``,
	} {
		for result, wantResult := range map[string]string{
			`{"result": "rain"}`: "rain", `{"result": {"sky": "grey"}}`: `{"sky": "grey"}`,
			`{"result": 1, "unit": "C"}`: `{"result": 1, "unit": "C"}`, "rain": "rain",
		} {
			tool := sorted(project(t, made(t,
				`{"id": "1", "name": "a", "start": 1, "end": 9, "attributes": {"openinference.span.kind": "AGENT"}}`,
				`{"id": "2", "parent": "1", "name": "weather.run", "start": 2, "end": 3, "attributes": {"openinference.span.kind": "TOOL", "input.value": `+quoted(t, args)+`, "output.value": `+quoted(t, result)+`}}`))).tools[0]
			if got := deref(tool.Parameters); got != want || deref(tool.Result) != wantResult || *tool.Name != "weather" {
				t.Errorf("%s: %s(%s) is %s, want (%s) and %s", args, *tool.Name, got, deref(tool.Result), want, wantResult)
			}
		}
	}
}

// TestNamesOfAgents: O8: an agent has the name that its span says, in order of preference.
func TestNamesOfAgents(t *testing.T) {
	t.Parallel()
	for want, span := range map[string]string{
		"planner":        `"name": "call_agent", "attributes": {"openinference.span.kind": "AGENT", "metadata": "{\"langgraph_node\": \"planner\", \"lc_agent_name\": \"graph\"}"}`,
		"graph":          `"name": "call_agent", "attributes": {"openinference.span.kind": "AGENT", "metadata": "{\"langgraph_node\": \"agent\", \"lc_agent_name\": \"graph\"}"}`,
		"call_agent":     `"name": "call_agent", "attributes": {"openinference.span.kind": "AGENT", "metadata": "{\"langgraph_node\": \"tools\", \"lc_agent_name\": \"caller\"}"}`,
		"research_agent": `"name": "research_agent", "attributes": {"openinference.span.kind": "AGENT", "metadata": "{\"langgraph_node\": \"tools\", \"lc_agent_name\": \"caller\"}"}`,
		"history agent":  `"name": "call_agent.agent", "attributes": {"traceloop.span.kind": "agent", "traceloop.entity.name": "call_agent", "traceloop.association.properties.langgraph_node": "history agent"}`,
		"told":           `"name": "call_agent", "attributes": {"openinference.span.kind": "AGENT", "agent.name": "told", "metadata": "{\"langgraph_node\": \"planner\"}"}`,
		"gardener":       `"name": "gardener.run", "attributes": {"openinference.span.kind": "AGENT"}`,
		"ReAct":          `"name": "ReAct.forward", "attributes": {"openinference.span.kind": "CHAIN"}`,
		"Predict(Q).2":   `"name": "Predict(Q).2.__call__", "attributes": {"openinference.span.kind": "CHAIN"}`,
		"v1.2":           `"name": "invoke_agent v1.2"`,
		"FunctionAgent":  `"name": "FunctionAgent.run", "attributes": {"openinference.span.kind": "CHAIN"}`,
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			r := sorted(project(t, made(t, `{"id": "1", "start": 1, "end": 90, `+span+`}`,
				`{"id": "2", "parent": "1", "name": "chat m", "start": 10, "end": 20, "attributes": {"gen_ai.operation.name": "chat"}}`)))
			if len(r.steps) != 1 || *r.steps[0].AgentName != want || *r.plans[0].Name != want {
				t.Errorf("r.steps = %+v", r.steps)
			}
		})
	}
}

// TestOutcomes: O3, O7: an object that says whether a call failed is no result, but has one.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	const ok, kind = `"status": 1`, `"status": 2, "message": "TOOL_ERROR"`
	for name, c := range map[string]struct {
		status, output  string
		result, message string
		state           record.State
	}{
		"LlamaIndex": {
			ok, `{"blocks": [{"text": "rain"}], "tool_name": "x", "raw_output": "rain", "is_error": false}`, "rain", "",
			record.Completed,
		},
		"LlamaIndex failed": {
			ok, `{"blocks": [{"text": "Error: no money"}], "raw_output": "no money", "is_error": true}`, "no money", "no money",
			record.Failed,
		},
		"MCP": {
			ok, `{"content": [{"type": "text", "text": "rain"}, {"type": "text", "text": "wind"}], "isError": false}`,
			"rain\nwind", "", record.Completed,
		},
		"MCP failed": {
			ok, `{"content": [{"type": "text", "text": "no money"}], "isError": true}`, "no money", "no money", record.Failed,
		},
		"an object": {
			ok, `{"raw_output": {"sky": "grey"}, "is_error": false}`, `{"sky": "grey"}`, "", record.Completed,
		},
		"an image": {
			ok, `{"content": [{"type": "text", "text": "rain"}, {"type": "image", "data": "iVBO"}], "isError": false}`,
			`[{"type": "text", "text": "rain"}, {"type": "image", "data": "iVBO"}]`, "", record.Completed,
		},
		"something else": {
			ok, `{"output": "rain", "exit_code": 1, "is_error": true}`, `{"output": "rain", "exit_code": 1, "is_error": true}`,
			`{"output": "rain", "exit_code": 1, "is_error": true}`, record.Failed,
		},
		"nothing besides": {ok, `{"is_error": false}`, `{"is_error": false}`, "", record.Completed},
		"its own word": {
			ok, `{"content": "rain", "is_error": "rarely"}`, `{"content": "rain", "is_error": "rarely"}`, "", record.Completed,
		},
		"an error in it": {ok, `{"error": "0.1 mm"}`, `{"error": "0.1 mm"}`, "", record.Completed},
		"only the kind":  {kind, `{"error": "no money"}`, `{"error": "no money"}`, "no money", record.Failed},
		"only the kind, deep": {
			kind, `{"error": {"code": 7, "message": "no money"}}`, `{"error": {"code": 7, "message": "no money"}}`, "no money",
			record.Failed,
		},
		"only the kind, a text": {kind, `sorry`, "sorry", "TOOL_ERROR", record.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attributes := `"openinference.span.kind": "TOOL", "output.value": ` + quoted(t, c.output)
			if c.status == kind {
				attributes += `, "error.type": "TOOL_ERROR"`
			}

			tool := sorted(project(t, made(t, `{"id": "1", "name": "invoke_agent a", "start": 1, "end": 90}`,
				`{"id": "2", "parent": "1", "name": "pay", "start": 2, "end": 3, `+c.status+`, "attributes": {`+attributes+
					`}}`))).tools[0]
			if deref(tool.Result) != c.result || deref(tool.ErrorMessage) != c.message || *tool.State != c.state {
				t.Errorf("tool.State = %s %q %q, want %s %q %q", *tool.State, deref(tool.Result), deref(tool.ErrorMessage),
					c.state, c.result,
					c.message)
			}
		})
	}
}

// TestRunsOfAgents: O5, O8: the span that runs an agent is no agent of its own, around the agent's span
// or beside it. Without one, it is the agent.
func TestRunsOfAgents(t *testing.T) {
	t.Parallel()
	run := func(id, parent string, start, end int) string {
		return fmt.Sprintf(
			`{"id": "%s", "parent": "%s", "name": "AgentRunner.run", "start": %d, "end": %d, "attributes": {"mlflow.spanType": "\"AGENT\"", "mlflow.openai.agent_run_root": "true", "mlflow.spanInputs": "\"Where to?\"", "mlflow.spanOutputs": "\"Oslo\""}}`, id, parent, start, end,
		)
	}
	agent := func(id, parent, name string, start, end int) string {
		return fmt.Sprintf(
			`{"id": "%s", "parent": "%s", "name": "%s", "start": %d, "end": %d, "attributes": {"mlflow.spanType": "\"AGENT\"", "mlflow.spanInputs": "null", "mlflow.spanOutputs": "{\"output_type\": \"str\"}"}}`, id, parent, name, start, end,
		)
	}
	model := func(id, parent string, start, end int) string {
		return fmt.Sprintf(
			`{"id": "%s", "parent": "%s", "name": "Response", "start": %d, "end": %d, "attributes": {"mlflow.spanType": "\"CHAT_MODEL\"", "mlflow.message.format": "\"openai-agent\"", "mlflow.spanInputs": "[{\"role\": \"user\", \"content\": \"Where to?\"}]", "mlflow.spanOutputs": "[{\"role\": \"assistant\", \"content\": [{\"type\": \"output_text\", \"text\": \"Oslo\"}]}]"}}`, id, parent, start, end,
		)
	}

	tool := `{"id": "5", "parent": "2", "name": "ask", "start": 30, "end": 60, "attributes": {"mlflow.spanType": "\"TOOL\"", "mlflow.spanInputs": "{\"input\": \"Where to?\"}", "mlflow.spanOutputs": "\"Oslo\""}}`
	for name, c := range map[string]struct {
		spans []string
		want  string // the names of plans and steps
	}{
		"around": {
			[]string{run("1", "", 1, 90), agent("2", "1", "planner", 2, 89), model("3", "2", 3, 20)}, "planner: planner",
		},
		"alone": {[]string{run("1", "", 1, 90), model("3", "1", 3, 20)}, "AgentRunner: AgentRunner"},
		"a tool's": {
			[]string{
				agent("2", "", "planner", 2, 89), model("3", "2", 3, 20), tool, run("6", "5", 31, 59),
				agent("7", "5", "guide", 32, 58), model("8", "7", 33, 40),
			}, "planner: planner, guide: guide",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := made(t, c.spans...)
			r := sorted(project(t, spans))
			if len(r.plans) != len(r.steps) {
				t.Fatalf("lines(project(spans)) = %s", lines(t, project(t, spans)))
			}

			var got []string
			for i, p := range r.plans {
				s := r.steps[i]
				got = append(got, deref(p.Name)+": "+deref(s.AgentName))
				if deref(p.UserRequest) != "Where to?" || deref(s.AgentRequest) != "Where to?" || deref(p.Summary) != "Oslo" ||
					deref(s.Result) != "Oslo" {
					t.Errorf("p.UserRequest = %q, %q: %q, %q", deref(p.UserRequest), deref(s.AgentRequest), deref(p.Summary),
						deref(s.Result))
				}
			}

			if strings.Join(got, ", ") != c.want {
				t.Errorf("append = %q, want %q", got, c.want)
			}
			for _, cycle := range r.cycles { // a framework's format is no provider
				if cycle.Provider != nil {
					t.Errorf("provider %s", *cycle.Provider)
				}
			}
			anyOrder(t, spans)
		})
	}
}

// TestDelegates: O8: what works for a tool call that names it is named so, was asked what the call asks,
// and its answer is the result of the call.
func TestDelegates(t *testing.T) {
	t.Parallel()
	const session = `{"id": "1", "name": "claude_code.interaction", "start": 1, "end": 90, "attributes": {"user_prompt": "Go"}}`
	call := func(attributes string) string {
		return `{"id": "2", "parent": "1", "name": "claude_code.tool", "start": 10, "end": 60, "attributes": {"tool_name": "Agent", "tool_use_id": "u1"` + attributes + `}},
			{"id": "3", "parent": "2", "name": "claude_code.tool.blocked_on_user", "start": 11, "end": 12},
			{"id": "4", "parent": "2", "name": "claude_code.tool.execution", "start": 13, "end": 60},
			{"id": "5", "parent": "4", "name": "claude_code.llm_request", "start": 20, "end": 30, "attributes": {"stop_reason": "tool_use", "response.model_output": "I look."}},
			{"id": "6", "parent": "4", "name": "claude_code.llm_request", "start": 40, "end": 50, "attributes": {"stop_reason": "end_turn", "response.model_output": "Oslo"}}`
	}

	log := func(attributes string) string {
		return `{"id": "1", "stub": true, "events": [{"name": "tool_result", "time": 60, "attributes": {"tool_use_id": "u1", "success": "true"` + attributes + `}}]}`
	}
	const input = `, "tool_input": "{\"description\": \"Ask the guide\", \"prompt\": \"Where to?\", \"subagent_type\": \"guide\"}"`

	for name, c := range map[string]struct {
		spans                 []string
		agent, asked, results string
	}{
		"the span names it":     {[]string{session, call(`, "subagent_type": "guide"`)}, "guide", "", "Oslo"},
		"the log names it":      {[]string{session, call(""), log(input)}, "guide", "Where to?", "Oslo"},
		"the arguments name it": {[]string{session, call(input)}, "guide", "Where to?", "Oslo"},
		"the call has a result": {
			[]string{session, call(input), log(`, "tool_result": "Bergen"`)}, "guide", "Where to?", "Bergen",
		},
		"nothing names it": {[]string{session, call("")}, "Agent", "", ""},
		"it ended by asking a tool": {
			[]string{session, strings.Replace(call(input), "end_turn", "tool_use", 1)}, "guide", "Where to?", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := made(t, c.spans...)
			r := sorted(project(t, spans))
			s, tool := r.steps[1], r.tools[0]
			if len(r.plans) != 2 || deref(r.plans[1].Name) != c.agent || deref(s.AgentName) != c.agent ||
				deref(s.AgentRequest) != c.asked || deref(tool.Result) != c.results {
				t.Errorf("lines(project(spans)) = %s", lines(t, project(t, spans)))
			}
			anyOrder(t, spans)
		})
	}
}

// TestAnswersInLogs: O6: a log record that names no model call is about the one that ran then, below what it names. It
// may be late, and others may run.
func TestAnswersInLogs(t *testing.T) {
	t.Parallel()
	spans := []string{
		`{"id": "1", "name": "claude_code.interaction", "start": 1, "end": 90, "attributes": {"user_prompt": "Go"}}`,
		`{"id": "2", "parent": "1", "name": "claude_code.llm_request", "start": 2, "end": 9}`,
		`{"id": "3", "parent": "1", "name": "claude_code.tool", "start": 10, "end": 80, "attributes": {"tool_name": "Agent", "tool_use_id": "u1", "subagent_type": "left"}}`,
		`{"id": "4", "parent": "3", "name": "claude_code.tool.execution", "start": 11, "end": 79}`,
		`{"id": "5", "parent": "4", "name": "claude_code.llm_request", "start": 20, "end": 30}`,
		`{"id": "6", "parent": "4", "name": "claude_code.llm_request", "start": 40, "end": 50}`,
		`{"id": "7", "parent": "1", "name": "claude_code.tool", "start": 10, "end": 80, "attributes": {"tool_name": "Agent", "tool_use_id": "u2", "subagent_type": "right"}}`,
		`{"id": "8", "parent": "7", "name": "claude_code.tool.execution", "start": 11, "end": 79}`,
		`{"id": "9", "parent": "8", "name": "claude_code.llm_request", "start": 25, "end": 60}`,
	}
	for name, c := range map[string]struct {
		names, at int // the span that it names, and when it was written
		of        int
	}{
		"during the call": {4, 29, 5},
		"a little later":  {4, 31, 5},
		"later, while another one of the owner runs": {4, 41, 6},
		"later, while one of another runs":           {4, 55, 6},
		"the tool call is named":                     {3, 55, 6},
		"the other one":                              {8, 29, 9},
		"the session is named":                       {1, 8, 2},
		"the session is named, and another runs":     {1, 29, 5},
		"the session is named, and none runs":        {1, 65, 9},
		"before any call":                            {8, 20, 0},
		"much later":                                 {8, 161, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := made(t, append(slices.Clone(spans),
				fmt.Sprintf(
					`{"id": "%d", "stub": true, "events": [{"name": "assistant_response", "time": %d, "attributes": {"response": "Yes"}}]}`, c.names, c.at,
				))...)

			want := []string(nil)
			if c.of != 0 {
				want = []string{fmt.Sprintf("%016d", c.of)}
			}
			var got []string
			for _, cycle := range sorted(project(t, spans)).cycles {
				if deref(cycle.ThinkOutput) == "Yes" {
					got = append(got, deref(cycle.SpanID))
				}
			}

			if !slices.Equal(got, want) {
				t.Errorf("it is the answer of %v, want %v", got, want)
			}
			anyOrder(t, spans)
		})
	}
}

// TestNamesInEvents: O8: LlamaIndex tells the name of an agent in events of the agent's workflow.
func TestNamesInEvents(t *testing.T) {
	t.Parallel()
	part := func(key, value string) string {
		return `{"id": "2", "parent": "1", "name": "BaseWorkflowAgent.init_run", "start": 2, "end": 3, "attributes": {"openinference.span.kind": "CHAIN", "` + key + `": ` + quoted(t, value) + `}}`
	}

	const model = `{"id": "4", "parent": "1", "name": "chat m", "start": 10, "end": 20, "attributes": {"gen_ai.operation.name": "chat"}}`
	for name, c := range map[string]struct {
		top, part, want string
	}{
		"output": {
			"FunctionAgent.run", part("output.value", `AgentInput(input=[], current_agent_name='planner')`), "planner",
		},
		"input": {
			"ReActAgent.run", part("input.value",
				`{"ctx": "<Context>", "ev": "AgentInput(input=[], current_agent_name='planner')"}`), "planner",
		},
		"a user's": {
			"FunctionAgent.run", part("output.value",
				`AgentInput(input=["current_agent_name='x'"], current_agent_name='planner')`), "planner",
		},
		"cut off": {
			"FunctionAgent.run", part("output.value", `AgentInput(input=[], current_agent_name='pla...`), "FunctionAgent",
		},
		"not there":    {"FunctionAgent.run", part("output.value", `StopEvent()`), "FunctionAgent"},
		"its own name": {"guide", part("output.value", `AgentInput(input=[], current_agent_name='planner')`), "guide"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := "CHAIN"
			if c.top == "guide" {
				kind = "AGENT"
			}

			spans := made(t, `{"id": "1", "name": "`+c.top+
				`", "start": 1, "end": 90, "attributes": {"openinference.span.kind": "`+kind+`"}}`, c.part, model)
			r := sorted(project(t, spans))
			if len(r.steps) != 1 || deref(r.steps[0].AgentName) != c.want || deref(r.plans[0].Name) != c.want {
				t.Errorf("r.steps[0].AgentName = %q %q, want %q", deref(r.steps[0].AgentName), deref(r.plans[0].Name), c.want)
			}
			anyOrder(t, spans)
		})
	}
}

// TestCallsOfTheInnerSpan: O6: LiteLLM's own span leaves out the tool calls of an answer, that of the
// request to the provider has them.
func TestCallsOfTheInnerSpan(t *testing.T) {
	t.Parallel()
	r := sorted(project(t, made(t, `{"id": "1", "name": "invoke_agent a", "start": 1, "end": 90}`,
		`{"id": "2", "parent": "1", "name": "litellm_request", "start": 2, "end": 20, "attributes": {"litellm.call_id": "x", "gen_ai.operation.name": "chat", "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "I look."}], "finish_reason": "tool_calls"}]}}`,
		`{"id": "3", "parent": "2", "name": "raw_gen_ai_request", "start": 2, "end": 20, "attributes": {"llm.openai.choices": "[{'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': 'I look.', 'tool_calls': [{'id': 'c1', 'type': 'function', 'function': {'name': 'look', 'arguments': '{}'}}]}}]"}}`)))
	if out := deref(r.cycles[0].ThinkOutput); len(r.cycles) != 1 || !strings.Contains(out, `"look"`) ||
		!strings.Contains(out, "I look.") || len(r.tools) != 1 || deref(r.tools[0].ProviderCallID) != "c1" {
		t.Errorf("deref(r.cycles[0].ThinkOutput) = %s", out)
	}
}
