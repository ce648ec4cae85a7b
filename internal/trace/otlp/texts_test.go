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

// received returns the rows of spans that were sent, as script has them. So they go through the limits.
func received(t testing.TB, spans ...string) rows {
	t.Helper()
	return sorted(project(t, overTheWire(t, made(t, spans...))))
}

// overTheWire returns spans as they are decoded from a body that holds them.
func overTheWire(t testing.TB, spans []otlp.Span) (out []otlp.Span) {
	t.Helper()
	for i := range spans {
		s := &spans[i]
		attributes := func(a otlp.Attributes) []any {
			all := []any{}
			for _, a := range a {
				all = append(all, map[string]any{"key": a.Key, "value": map[string]any{"stringValue": a.Value.Text}})
			}
			return all
		}

		events := []any{}
		for _, e := range s.Events {
			events = append(events, map[string]any{
				"name": e.Name, "timeUnixNano": fmt.Sprint(e.Time), "attributes": attributes(e.Attributes),
			})
		}

		var body any = map[string]any{"resourceSpans": []any{map[string]any{"scopeSpans": []any{map[string]any{
			"scope": map[string]any{"name": s.Scope.Name},
			"spans": []any{map[string]any{
				"traceId": s.TraceID, "spanId": s.SpanID, "parentSpanId": s.ParentID, "name": s.Name,
				"startTimeUnixNano": fmt.Sprint(s.Start), "endTimeUnixNano": fmt.Sprint(s.End),
				"status":     map[string]any{"code": s.Status},
				"attributes": attributes(s.Attributes), "events": events,
			}},
		}}}}}
		decode := otlp.DecodeTraces
		if s.Stub {
			e := s.Events[0]
			logs := map[string]any{"logRecords": []any{map[string]any{
				"traceId": s.TraceID, "spanId": s.SpanID, "eventName": e.Name, "timeUnixNano": fmt.Sprint(e.Time),
				"attributes": attributes(e.Attributes),
			}}}
			body = map[string]any{"resourceLogs": []any{map[string]any{"scopeLogs": []any{logs}}}}
			decode = otlp.DecodeLogs
		}

		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		batch, err := decode(otlp.TypeJSON, raw)
		if err != nil || len(batch.Spans) != 1 {
			t.Fatalf("%d spans, %v", len(batch.Spans), err)
		}
		out = append(out, batch.Spans...)
	}
	return out
}

// ask returns a run with a model call that has these attributes.
func ask(t testing.TB, kv ...string) []string {
	t.Helper()
	attributes := []string{}
	for i := 0; i < len(kv); i += 2 {
		attributes = append(attributes, quoted(t, kv[i])+":"+quoted(t, kv[i+1]))
	}
	return []string{
		`{"id": "1", "name": "invoke_agent a", "start": 1, "end": 90, "attributes": {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}}`,
		`{"id": "2", "parent": "1", "name": "chat m", "start": 10, "end": 20, "attributes": {` +
			strings.Join(attributes, ",") + `}}`,
	}
}

// TestNumbersThatAreNone: NaN and Infinity in a text give the rows that a number gives, in every convention. The texts
// stay as they were sent.
func TestNumbersThatAreNone(t *testing.T) {
	t.Parallel()
	changes := project(t, decode(t, "nan.json"))
	r := sorted(changes)

	if got := outline(changes); got != "helper COMPLETED: [rate COMPLETED?] []" ||
		deref(r.plans[0].Title) != "Rate this lamp." || deref(r.tools[0].Result) != "noted" ||
		deref(r.tools[0].Parameters) != `{"score":NaN}` ||
		deref(r.cycles[0].ThinkInput) !=
			`[{"role":"user","parts":[{"type":"text","content":"Rate this lamp.","score":NaN}]}]` {
		t.Errorf("outline(changes) = %s\n%s", got, lines(t, changes))
	}

	// What is sent in place of 7 changes nothing but that.
	for _, path := range scripts(t) {
		spans := readScript(t, path)
		marked, n := slices.Clone(spans), 0
		for i := range marked {
			marked[i].Attributes = slices.Clone(marked[i].Attributes)
			marked[i].Events = slices.Clone(marked[i].Events)
			for _, a := range append([]otlp.Attributes{marked[i].Attributes}, eventAttributes(marked[i].Events)...) {
				for j := range a {
					if v := strings.TrimSpace(a[j].Value.Text); a[j].Value.Type == otlp.String && json.Valid([]byte(v)) &&
						strings.HasPrefix(v, "{") && len(v) > 2 {
						a[j].Value.Text = `{"aNumber": 777,` + v[1:]
						n++
					}
				}
			}
		}

		want := lines(t, otlp.Project(marked))
		for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
			for i := range marked {
				for _, a := range append([]otlp.Attributes{marked[i].Attributes}, eventAttributes(marked[i].Events)...) {
					for j := range a {
						a[j].Value.Text = strings.Replace(a[j].Value.Text, `{"aNumber": 777,`, `{"aNumber": `+word+`,`, 1)
					}
				}
			}

			// In metadata, which is JSON, it is a text.
			got := strings.NewReplacer(`"aNumber":"`+word+
				`"`, `"aNumber":777`, word, "777").Replace(lines(t, otlp.Project(marked)))
			if got != want {
				t.Errorf("%s, %s in %d texts:\n%s\n%s", path, word, n, got, want)
			}

			for i := range marked {
				for _, a := range append([]otlp.Attributes{marked[i].Attributes}, eventAttributes(marked[i].Events)...) {
					for j := range a {
						a[j].Value.Text = strings.Replace(a[j].Value.Text, `{"aNumber": `+word+`,`, `{"aNumber": 777,`, 1)
					}
				}
			}
		}
	}
}

func eventAttributes(events []otlp.Event) (all []otlp.Attributes) {
	for i := range events {
		events[i].Attributes = slices.Clone(events[i].Attributes)
		all = append(all, events[i].Attributes)
	}
	return all
}

// TestWordsLikeNumbers: NaN in a string, as a whole text, or in what is no JSON, is a text.
func TestWordsLikeNumbers(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"NaN", "-Infinity", `[NaNa]`, `{NaN: 1}`, `[1, -NaN]`, `{"a": nan}`} {
		r := received(t, ask(t, "gen_ai.operation.name", "chat", "gen_ai.input.messages", in, "gen_ai.output.messages",
			in)...)
		if deref(r.cycles[0].ThinkInput) != in || deref(r.cycles[0].ThinkOutput) != in || deref(r.plans[0].Title) != in {
			t.Errorf("%s: title %q, %s", in, deref(r.plans[0].Title), lines(t, []record.Change{r.cycles[0]}))
		}
	}

	r := received(t, ask(t, "gen_ai.operation.name", "chat", "gen_ai.input.messages",
		`[{"role":"user","content":"Is NaN, [NaN] or -Infinity it?","x":NaN}]`)...)
	if got := deref(r.plans[0].Title); got != "Is NaN, [NaN] or -Infinity it?" {
		t.Errorf("deref(r.plans[0].Title) = %v", got)
	}
}

// TestCutMessages: of messages that an SDK cut, what can be read is read, in every form. The texts stay as they came.
func TestCutMessages(t *testing.T) {
	t.Parallel()
	changes := project(t, decode(t, "cut.json"))
	r := sorted(changes)

	if title, summary := deref(r.plans[0].Title),
		deref(r.plans[0].Summary); !strings.HasPrefix(title, "Please compare the three offers") ||
		!strings.HasPrefix(summary, "Offer B is the cheapest") ||
		!strings.Contains(string(r.cycles[0].Metadata),
			`"truncatedAttributes":["gen_ai.input.messages","gen_ai.output.messages"]`) {
		t.Errorf("title = %q, %q\n%s", title, summary, lines(t, changes))
	}

	if got := deref(r.cycles[0].ThinkInput); got !=
		`[{"role": "user", "parts": [{"type": "text", "content": "Please compare the three offers a` {
		t.Errorf("the record has %s", got)
	}

	const genAI, openInference = "gen_ai.input.messages", "input.value"
	for name, c := range map[string]struct{ key, sent, title string }{
		"an escape":        {genAI, `[{"role":"user","content":"Compare the offers\`, "Compare the offers"},
		"half of a code":   {genAI, `[{"role":"user","content":"Compare the offers\u67`, "Compare the offers"},
		"half of an emoji": {genAI, `[{"role":"user","content":"Compare the offers\ud83d\ud`, "Compare the offers"},
		"half of a character": {
			genAI, "[{\"role\":\"user\",\"content\":\"Compare the offers\uFFFD", "Compare the offers",
		},
		"an ellipsis": {genAI, `[{"role":"user","content":"Compare the offers...`, "Compare the offers..."},
		"a mark behind a message": {
			genAI, `[{"role":"user","content":"Compare the offers"}, ... [truncated]`, "Compare the offers",
		},
		"the second message": {
			genAI, `[{"role":"user","content":"Compare the offers"},{"role":"assis`, "Compare the offers",
		},
		"a later message": {
			genAI, `[{"role":"system","content":"Be brief."},{"role":"user","content":"Compare the offers"},{"role":"assistant","parts":[{"type":"tool_call","id":"c1","na`, "Compare the offers",
		},
		"parts": {
			genAI, `[{"role":"user","parts":[{"type":"text","content":"Compare the offers"},{"type":"blob","data":"iVBO`,
			"Compare the offers",
		},
		"Anthropic": {
			genAI, `[{"role":"user","content":[{"type":"text","text":"Compare the off`, "Compare the off",
		},
		"Gemini": {
			genAI, `{"contents":[{"role":"user","parts":[{"text":"Compare the off`, "Compare the off",
		},
		"Bedrock": {genAI, `[{"role":"user","content":[{"text":"Compare the off`, "Compare the off"},
		"a pair":  {genAI, `[["system","Be brief."],["user","Compare the off`, "Compare the off"},
		"a request": {
			genAI, `{"model":"m","messages":[{"role":"user","content":"Compare the off`, "Compare the off",
		},
		"content before the role": {genAI, `[{"content":"Compare the off`, "Compare the off"},
		"a list of lists": {
			openInference, `{"messages":[[{"lc":1,"type":"constructor","id":["langchain","schema","messages","HumanMessage"],"kwargs":{"content":"Compare the off`, "Compare the off",
		},
		"LangChain, dumped": {openInference, `{"messages":[{"content":"Compare the off`, "Compare the off"},
		"an object around": {
			openInference, `{"input":{"messages":[{"role":"user","content":"Compare the off`, "Compare the off",
		},
		"Vercel": {
			"ai.prompt.messages", `[{"role":"user","content":[{"type":"text","text":"Compare the off`, "Compare the off",
		},
		"Vercel, the prompt": {
			"ai.prompt", `{"system":"Be brief.","messages":[{"role":"user","content":"Compare the off`, "Compare the off",
		},
		"Langfuse": {
			"langfuse.observation.input", `{"messages":[{"role":"user","content":"Compare the off`, "Compare the off",
		},
		"MLflow": {
			"mlflow.spanInputs", `{"model":"m","messages":[{"role":"user","content":"Compare the off`, "Compare the off",
		},
		"ADK": {
			"gcp.vertex.agent.llm_request", `{"model":"m","contents":[{"parts":[{"text":"Compare the off`, "Compare the off",
		},
		"Genkit": {
			"genkit:input", `{"messages":[{"role":"user","content":[{"text":"Compare the off`, "Compare the off",
		},
		"Laminar": {"lmnr.span.input", `[{"role":"user","content":"Compare the off`, "Compare the off"},
		"Sentry":  {"gen_ai.request.messages", `[{"role":"user","content":"Compare the off`, "Compare the off"},
		"OpenLLMetry, parts": {
			"gen_ai.prompt.0.content", `[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO"}},{"type":"text","text":"Compare the off`, "Compare the off",
		},
		"the older gen_ai": {"gen_ai.prompt", `[{"role":"user","content":"Compare the off`, "Compare the off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := received(t, ask(t, "gen_ai.operation.name", "chat", c.key, c.sent)...)
			if got := deref(r.plans[0].Title); got != c.title {
				t.Errorf("title %q, want %q", got, c.title)
			}
			if got := string(r.cycles[0].Metadata); !strings.Contains(got, `"truncatedAttributes":["`+c.key+`"]`) {
				t.Errorf("metadata %s", got)
			}
		})
	}
}

// TestCutAnswers: an answer that was cut is read as well, with the calls in it.
func TestCutAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ key, sent, answer, calls string }{
		"OpenTelemetry": {
			"gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"text","content":"Offer B is the ch`,
			"Offer B is the ch", "",
		},
		"two choices": {
			"gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"text","content":"Offer A"}],"finish_reason":"stop"},{"role":"assistant","parts":[{"type":"text","content":"Offer B is the ch`, "Offer B is the ch", "",
		},
		"a call before": {
			"gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"look","arguments":{"q":1}},{"type":"text","content":"I am loo`, "", `look {"q":1}`,
		},
		"within arguments": {
			"gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"look","arguments":{"q":"la`, "", `look {"q":"la`,
		},
		"within a name": {
			"gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"tool_call","name":"look","id":"c1","arguments":{}},{"type":"tool_call","name":"sea`, "", `look {}`,
		},
		"OpenInference": {
			"output.value", `{"choices":[{"index":0,"message":{"content":"Offer B is the ch`, "Offer B is the ch", "",
		},
		"MLflow": {
			"mlflow.spanOutputs", `{"id":"r1","choices":[{"index":0,"message":{"role":"assistant","content":"Offer B is the ch`,
			"Offer B is the ch", "",
		},
		"Gemini": {
			"gcp.vertex.agent.llm_response", `{"content":{"parts":[{"text":"Offer B is the ch`, "Offer B is the ch", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := received(t, ask(t, "gen_ai.operation.name", "chat", c.key, c.sent)...)
			var calls []string
			for _, call := range r.tools {
				calls = append(calls, deref(call.Name)+" "+deref(call.Parameters))
			}

			if got := deref(r.plans[0].Summary); got != c.answer || strings.Join(calls, "; ") != c.calls {
				t.Errorf("summary %q, calls %q", got, calls)
			}
			if got := string(r.cycles[0].Metadata); !strings.Contains(got, `"truncatedAttributes":["`+c.key+`"]`) {
				t.Errorf("metadata %s", got)
			}
		})
	}
}

// TestCutElsewhere: messages in events, in log records and below a system instruction are read, too.
func TestCutElsewhere(t *testing.T) {
	t.Parallel()
	const cut = `[{"role":"user","content":"Compare the off`
	agent := ask(t, "gen_ai.operation.name", "chat")
	event := `"name": "gen_ai.client.inference.operation.details", "time": 15, "attributes": {"gen_ai.input.messages": ` +
		quoted(t, cut) + `}`

	for name, spans := range map[string][]string{
		"an event":     {agent[0], strings.Replace(agent[1], `"attributes"`, `"events": [{`+event+`}], "attributes"`, 1)},
		"a log record": {agent[0], agent[1], `{"id": "2", "stub": true, "events": [{` + event + `}]}`},
		"a client": {
			agent[0], agent[1], `{"id": "3", "parent": "2", "name": "chat m", "start": 11, "end": 19, "attributes": {"gen_ai.operation.name": "chat", "gen_ai.input.messages": ` + quoted(t, cut) + `}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := overTheWire(t, made(t, spans...))
			r := sorted(project(t, sent))
			if got := deref(r.plans[0].Title); got != "Compare the off" || deref(r.cycles[0].ThinkInput) != cut ||
				!strings.Contains(string(r.cycles[0].Metadata), `["gen_ai.input.messages"]`) {
				t.Errorf("title %q\n%s", got, lines(t, []record.Change{r.cycles[0]}))
			}
			anyOrder(t, sent)
		})
	}

	r := received(t, ask(t, "gen_ai.operation.name", "chat", "gen_ai.system_instructions", "Be brief.",
		"gen_ai.input.messages", cut)...)
	if got := deref(r.cycles[0].ThinkInput); got != `[{"role":"system","content":"Be brief."},`+cut[1:] {
		t.Errorf("deref(r.cycles[0].ThinkInput) = %v", got)
	}
}

// TestNotCut: a text that only begins like a list stays a text, and so does what is no message.
func TestNotCut(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		`[1] Smith says so`, `[see below`, `[{"role":"user"}] is how it begins`, `{"a": 1, "b`, `["Buy milk", "Call mo`,
		`[1, 2, 3`, `{x: [`, `[ ] a [`, `{"question": "Which la`, `[{"q": "a`,
		`[{"role":"nobody","c":"a`,
	} {
		r := received(t, ask(t, "gen_ai.operation.name", "chat", "gen_ai.input.messages", in)...)
		if got := deref(r.plans[0].Title); got != in || r.cycles[0].Metadata != nil {
			t.Errorf("%s: title %q, metadata %s", in, got, r.cycles[0].Metadata)
		}
	}

	// The texts of a tool call are what they are.
	const result = `[{"type":"text","text":"It is the bl`
	r := received(
		t, ask(t)[0], `{"id": "2", "parent": "1", "name": "execute_tool look", "start": 10, "end": 20, "attributes": {"gen_ai.tool.call.arguments": "{\"q\":\"la", "gen_ai.tool.call.result": `+quoted(t, result)+`}}`,
	)
	if got := r.tools[0]; deref(got.Parameters) != `{"q":"la` || deref(got.Result) != result {
		t.Errorf("got.Parameters = %q, %q", deref(got.Parameters), deref(got.Result))
	}
}

// TestOwnLimit: what we cut ourselves stays JSON, and the question survives an image before it.
func TestOwnLimit(t *testing.T) {
	t.Parallel()
	image := strings.Repeat("iVBORw0KGgo", otlp.MaxStringBytes/11+10_000)
	in := `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + image +
		`"}},{"type":"text","text":"Which lamp is it?"}]},{"role":"user","content":"And when?"}]`
	r := received(t, ask(t, "gen_ai.operation.name", "chat", "gen_ai.input.messages", in, "gen_ai.system_instructions",
		"Be brief.")...)

	got := deref(r.cycles[0].ThinkInput)
	if title := deref(r.plans[0].Title); title != "Which lamp is it?" || !json.Valid([]byte(got)) ||
		!strings.HasSuffix(got, `"And when?"}]`) ||
		!strings.Contains(string(r.cycles[0].Metadata), `["gen_ai.input.messages"]`) {
		t.Errorf("title %q, %d bytes: %.200s ... %s", title, len(got), got, got[max(0, len(got)-200):])
	}
}

// TestHostileTexts: no text takes time that grows faster than its length: each of these would take hours.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	const n = 1 << 20
	for _, in := range []string{
		`[{"role":"user","content":` + strings.Repeat(`[`, n), `[{"role":"user","content":"` + strings.Repeat(`\\`, n),
		strings.Repeat(`{"messages":[`, n/13), `[{"role":"user"},` + strings.Repeat(`{"a":`, n/5),
		`[` + strings.Repeat(`{"role":"user","content":"a"},`, n/30),
		`[{"role":"assistant","content":"` + strings.Repeat(`[{\"function\":`, n/15), strings.Repeat(`[["user","a`, n/11),
		`{"content":{"parts":[` + strings.Repeat(`{"text":"NaN"},NaN,`, n/20), strings.Repeat(`{'role': [`, n/10),
		`[{"role":"user","content":"` + strings.Repeat(`\ud83d`, n/6),
	} {
		r := received(t, ask(t, "gen_ai.operation.name", "chat", "gen_ai.input.messages", in, "gen_ai.output.messages",
			in)...)
		if got := deref(r.cycles[0].ThinkInput); got != in {
			t.Errorf("%.50s became %.100s", in, got)
		}
	}
}

// TestLaminar: attributes of Laminar's SDK.
func TestLaminar(t *testing.T) {
	t.Parallel()
	changes := project(t, decode(t, "laminar.json"))
	r := sorted(changes)
	p := r.plans[0]
	if got := outline(changes); len(r.cycles) != 3 || len(r.tools) != 1 || deref(p.ConversationID) != "ls-1" ||
		deref(p.UserID) != "u-1" ||
		deref(p.UserRequest) != "Which lamp?" || deref(p.Summary) != "The blue one." {
		t.Errorf("outline(changes) = %s\n%s", got, lines(t, changes))
	}

	if call := r.tools[0]; deref(call.Name) != "search_stock" || deref(call.Parameters) != `{"q":"lamp"}` ||
		deref(call.Result) != `{"n":3}` {
		t.Errorf("lines = %s", lines(t, []record.Change{call}))
	}

	own := slices.IndexFunc(r.cycles, func(c *record.ThinkAct) bool { return deref(c.ModelName) == "gpt-5.1" })
	if c := r.cycles[own]; deref(c.ThinkOutput) != "The blue one." || *c.CostUSD != 0.05 ||
		deref(c.ThinkInput) != `[{"role":"user","content":"Which lamp?"}]` {
		t.Errorf("lines = %s", lines(t, []record.Change{c}))
	}

	// Others than LLM and TOOL make no row, a text as JSON is that text, and messages of gen_ai are nearer to the
	// provider.
	at := func(id, parent, kind, more string) string {
		return `{"id": "` + id + `", "parent": "` + parent + `", "name": "s` + id + `", "start": ` + id +
			`0, "end": 99, "attributes": {"lmnr.span.type": "` + kind + `"` + more + `}}`
	}

	r = received(t, at("1", "", "PIPELINE", `, "lmnr.association.properties.tags": "[\"a\",\"b\"]"`),
		at("2", "1", "EVALUATOR", `, "gen_ai.request.model": "m"`),
		at(
			"3", "1", "llm", `, "lmnr.span.input": "\"Is \\\"it\\\" so?\"", "lmnr.span.output": "\"It is.\"", "gen_ai.request.model": "m"`,
		),
		at(
			"4", "1", "LLM", `, "lmnr.span.input": "{\"n\":1}", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Why?", "gen_ai.request.model": "m"`,
		),
		at("5", "1", "TOOL", `, "lmnr.span.input": "\"lamp\"", "lmnr.span.output": "\"blue\""`), at("6", "1", "CACHED", ""))

	if len(r.tools) != 1 || deref(r.tools[0].Parameters) != "lamp" || deref(r.tools[0].Result) != "blue" ||
		deref(r.cycles[0].ThinkInput) != `Is "it" so?` || deref(r.cycles[0].ThinkOutput) != "It is." ||
		!strings.Contains(deref(r.cycles[1].ThinkInput), "Why?") || !slices.Equal(r.plans[0].Tags, []string{"a", "b"}) {
		for _, c := range r.cycles {
			t.Errorf("lines = %s", lines(t, []record.Change{c}))
		}
		t.Errorf("r.tools = %+v %v", r.tools, r.plans[0].Tags)
	}
}

// TestSentry: attributes of Sentry's SDKs.
func TestSentry(t *testing.T) {
	t.Parallel()
	at := func(id, parent, op, more string) string {
		return `{"id": "` + id + `", "parent": "` + parent + `", "name": "s` + id + `", "start": ` + id + `0, "end": ` + id +
			`9, "attributes": {"sentry.op": "` + op + `", "sentry.origin": "auto.ai"` + more + `}}`
	}

	spans := made(t,
		`{"id": "1", "name": "POST /ask", "start": 1, "end": 99, "attributes": {"sentry.op": "http.server"}}`,
		`{"id": "2", "parent": "1", "name": "invoke_agent helper", "start": 2, "end": 90, "attributes": {"sentry.op": "gen_ai.invoke_agent", "gen_ai.agent.name": "helper", "gen_ai.request.messages": "[{\"role\":\"user\",\"content\":\"Which lamp?\"}]", "gen_ai.response.text": "The blue one."}}`,
		at(
			"3", "2", "gen_ai.chat", `, "gen_ai.request.model": "gpt-5", "gen_ai.request.messages": "[{\"role\":\"user\",\"content\":\"Which lamp?\"}]", "gen_ai.response.text": "I look.", "gen_ai.response.tool_calls": "[{\"name\":\"search\",\"type\":\"function_call\",\"call_id\":\"c1\",\"arguments\":\"{\\\"q\\\":1}\"}]", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.input_tokens.cached": 4, "gen_ai.usage.input_tokens.cache_write": 3, "gen_ai.usage.output_tokens": 20, "gen_ai.usage.output_tokens.reasoning": 15, "gen_ai.usage.total_tokens": 30`,
		),
		at("4", "2", "gen_ai.execute_tool",
			`, "gen_ai.tool.name": "search", "gen_ai.tool.input": "{\"q\":1}", "gen_ai.tool.output": "\"blue\""`),
		at("5", "2", "gen_ai.responses",
			`, "gen_ai.request.messages": "Which lamp?", "gen_ai.response.text": "[\"The blue one.\",\"Or the red one.\"]"`),
		at("6", "2", "gen_ai.embeddings", `, "gen_ai.request.model": "e"`),
		at("7", "2", "gen_ai.handoff", ""),
	)

	changes := project(t, spans)
	r := sorted(changes)
	if got := outline(changes); got != "helper COMPLETED: [search COMPLETED] []" ||
		deref(r.plans[0].UserRequest) != "Which lamp?" || deref(r.plans[0].Summary) != "The blue one." {
		t.Errorf("outline(changes) = %s\n%s", got, lines(t, changes))
	}

	if call := r.tools[0]; deref(call.Parameters) != `{"q":1}` || deref(call.Result) != "blue" || call.Inferred != nil {
		t.Errorf("lines = %s", lines(t, []record.Change{call}))
	}
	if c := r.cycles[0]; *c.OutputTokens != 20 || *c.ReasoningTokens != 15 || *c.CacheReadInputTokens != 4 ||
		*c.CacheCreationInputTokens != 3 || *c.InputTokens != 10 || !strings.Contains(deref(c.ThinkOutput), "I look.") {
		t.Errorf("lines = %s", lines(t, []record.Change{c}))
	}
	if got := deref(r.cycles[1].ThinkOutput); got != "The blue one.\nOr the red one." {
		t.Errorf("deref(r.cycles[1].ThinkOutput) = %v", got)
	}
	anyOrder(t, spans)

	for name, c := range map[string]struct{ text, calls, answer, tools string }{
		"a text":      {"The blue one.", "", "The blue one.", ""},
		"a JSON text": {`"The blue one."`, "", "The blue one.", ""},
		"a message":   {`{"role":"assistant","content":"The blue one."}`, "", "The blue one.", ""},
		"messages":    {`[{"role":"assistant","content":"The blue one."}]`, "[]", "The blue one.", ""},
		"calls in a message": {
			`[{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"look","arguments":"{}"}}]}]`,
			`[{"id":"c1","name":"look","arguments":"{}"}]`, "", "look",
		},
		"only calls": {
			"", `[{"name":"look","arguments":{}},{"toolName":"find","toolCallId":"c2","args":{}}]`, "", "look, find",
		},
		"an object": {`{"lamp":"blue"}`, "", `{"lamp":"blue"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := received(t, ask(t, "sentry.op", "gen_ai.chat", "gen_ai.response.text", c.text, "gen_ai.response.tool_calls",
				c.calls)...)
			var tools []string
			for _, call := range r.tools {
				tools = append(tools, deref(call.Name))
			}
			if got := deref(r.cycles[0].ThinkOutput); got != c.answer && c.tools == "" || strings.Join(tools, ", ") != c.tools {
				t.Errorf("%s, calls %q", got, tools)
			}
		})
	}
}

// TestKoog: an agent without a name is called by its id, and an answer that is a list of calls is these calls.
func TestKoog(t *testing.T) {
	t.Parallel()
	changes := project(t, decode(t, "koog.json"))
	if got := outline(changes); got != "aa11 COMPLETED: [HelloTool COMPLETED, ByeTool COMPLETED] []" {
		t.Errorf("outline(changes) = %s\n%s", got, lines(t, changes))
	}
	for _, call := range sorted(changes).tools {
		if call.Inferred != nil || deref(call.Parameters) != `{"name":"lamp"}` {
			t.Errorf("lines = %s", lines(t, []record.Change{call}))
		}
	}

	// Without the span of a tool, the call is known from the answer.
	spans := slices.DeleteFunc(decode(t, "koog.json"), func(s otlp.Span) bool { return s.Name == "tool.ByeTool" })
	if got := outline(project(t, spans)); got != "aa11 COMPLETED: [HelloTool COMPLETED, ByeTool UNKNOWN?] []" {
		t.Errorf("outline(project(spans)) = %v", got)
	}

	agent := func(name, more string) string {
		return `{"id": "1", "name": "` + name +
			`", "start": 1, "end": 90, "attributes": {"gen_ai.operation.name": "invoke_agent"` + more + `}}`
	}
	const id = `, "gen_ai.agent.id": "aa11"`
	for spans, want := range map[string]string{
		agent("run.6f8d", id): "aa11", agent("run.6f8d", ""): "run.6f8d", agent("invoke_agent", id): "aa11",
		agent("invoke_agent planner",
			id): "planner",
		agent("invoke_agent run-1", id+
			`, "gen_ai.conversation.id": "run-1"`): "aa11",
		agent("run.6f8d", id+`, "gen_ai.agent.name": "planner"`): "planner",
		`{"id": "1", "name": "run.6f8d", "start": 1, "end": 9, "attributes": {"gen_ai.operation.name": "chat"` + id +
			`}}`: "aa11",
	} {
		if got := deref(received(t, spans).steps[0].AgentName); got != want {
			t.Errorf("%s is called %s", spans, got)
		}
	}
}

// TestCallsInText: only a list of tool calls is that.
func TestCallsInText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`[{"function":{"name":"look","arguments":"{}"}}]`:                                                              "look",
		` [{"id":"c1","function":{"name":"look","arguments":{"a":NaN}}},{"function":{"name":"find","arguments":""}}] `: "look find",
		`[{"function":{"name":"look"}}]`:                                                                               "",
		`[{"function":"look","arguments":"{}"}]`:                                                                       "",
		`[{"function":{"name":"look","arguments":"{}"}},{"a":1}]`:                                                      "",
		`[{"function":{"name":"look","arguments":"{}"}}] is what I call`:                                               "",
		`[{"type":"function","name":"look","parameters":{}}]`:                                                          "",
		`["look","find"]`: "", `[]`: "", `[1]`: "",
	} {
		for _, kv := range [][]string{
			{"gen_ai.completion.0.role", "assistant", "gen_ai.completion.0.content", in},
			{"gen_ai.output.messages", `[{"role":"assistant","content":` + quoted(t, in) + `}]`},
		} {
			r := received(t, ask(t, append(kv, "gen_ai.operation.name", "chat")...)...)
			var calls []string
			for _, call := range r.tools {
				calls = append(calls, deref(call.Name))
			}

			if got := strings.Join(calls, " "); got != want {
				t.Errorf("%s: %s", in, got)
			}
			if want == "" && deref(r.cycles[0].ThinkOutput) != in {
				t.Errorf("%s became %s", in, deref(r.cycles[0].ThinkOutput))
			}
		}
	}
}

// TestMessagesInPython: a message in Python's notation gives its text.
func TestMessagesInPython(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{'role': 'assistant', 'text': "It's so."}`: "It's so.",
		`{'role': 'assistant', 'text': 'Say "it\'s".\n\tNow \\ \x41\u6771\U0001f600', 'x': None, 'y': True, 'z': (1, -2.5, nan)}`: "Say \"it's\".\n\tNow \\ A東😀",
		`[{'role': 'user', 'content': 'Which?'}, {'role': 'assistant', 'content': 'That.'}]`:                                      "That.",
		`{'role': 'assistant', 'content': [{'type': 'text', 'text': 'Part.'}], 'meta': {'a': False}}`:                             "Part.",
	} {
		r := received(
			t, `{"id": "1", "name": "run", "start": 1, "end": 9, "attributes": {"openinference.span.kind": "AGENT", "output.value": `+quoted(t, in)+`}}`,
		)
		if got := deref(r.steps[0].Result); got != want || deref(r.plans[0].Summary) != want {
			t.Errorf("%s gives %q, %q", in, got, deref(r.plans[0].Summary))
		}
	}

	for _, in := range []string{
		`{'lamp': 'blue'}`, `{'role': <object at 0x7f>, 'text': 'a'}`, `{'role': 'assistant', 'text': 'a`,
	} {
		r := received(
			t, `{"id": "1", "name": "run", "start": 1, "end": 9, "attributes": {"openinference.span.kind": "AGENT", "output.value": `+quoted(t, in)+`}}`,
		)
		if got := deref(r.plans[0].Summary); got != in && got != "" {
			t.Errorf("%s gives %q", in, got)
		}
	}
}
