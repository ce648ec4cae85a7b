package otlp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/trace/otlp"
)

// pipeline describes a run of steps: plan, request and answer, and the same of each step.
func pipelineOf(t testing.TB, spans []otlp.Span) string {
	t.Helper()
	r := sorted(project(t, spans))
	if len(r.plans) == 0 {
		return ""
	}

	p := r.plans[0]
	all := []string{deref(p.Name) + " " + string(*p.State) + ": " + deref(p.UserRequest) + " -> " + deref(p.Summary)}
	for _, s := range r.steps {
		all = append(all, deref(s.AgentName)+" "+string(*s.State)+": "+deref(s.AgentRequest)+" -> "+deref(s.Result))
	}
	if len(r.cycles)+len(r.tools) > 0 {
		t.Errorf("%d cycles, %d tool calls", len(r.cycles), len(r.tools))
	}
	return strings.Join(all, "\n")
}

// TestPipelines: a trace whose root is of an instrumentation for agents and models is a run, even if it
// holds no agent, model call or tool call.
func TestPipelines(t *testing.T) {
	t.Parallel()
	const python = `{\"messages\": [\"ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='Where, \\\\'now\\\\'?')], _name=None, _meta={})\"]}`
	for name, c := range map[string]struct {
		spans []string
		want  string
	}{
		"chains": {[]string{
			`{"id": "1", "name": "Pipeline.run", "start": 1, "end": 90, "attributes": {"openinference.span.kind": "CHAIN", "input.value": "{\"query\": \"Where?\"}", "output.value": "{\"answer\": \"Oslo\"}"}}`,
			`{"id": "2", "parent": "1", "name": "find", "start": 2, "end": 20, "attributes": {"openinference.span.kind": "RETRIEVER", "input.value": "Where?", "output.value": "three pages"}}`,
			`{"id": "3", "parent": "1", "name": "Writer.run", "start": 30, "end": 60, "status": 2, "attributes": {"openinference.span.kind": "CHAIN", "input.value": "[{\"role\": \"system\", \"content\": \"Be short\"}, {\"role\": \"user\", \"content\": \"Write\"}]", "output.value": "Oslo"}}`},
			"Pipeline COMPLETED: Where? -> Oslo\nfind COMPLETED: Where? -> three pages\nWriter.run FAILED: Write -> Oslo"},
		"objects of Python": {[]string{
			`{"id": "1", "name": "Pipeline.run", "start": 1, "end": 90, "attributes": {"openinference.span.kind": "CHAIN"}}`,
			`{"id": "2", "parent": "1", "name": "Agent.run", "start": 2, "end": 20, "attributes": {"openinference.span.kind": "CHAIN", "input.value": "` + python + `"}}`},
			"Pipeline COMPLETED: Where, 'now'? -> \nAgent.run COMPLETED: Where, 'now'? -> "},
		"the root alone": {[]string{
			`{"id": "1", "name": "answer", "start": 1, "end": 90, "attributes": {"traceloop.span.kind": "workflow", "traceloop.entity.name": "answer", "traceloop.entity.input": "{\"args\": [], \"kwargs\": {\"question\": \"Where?\"}}", "traceloop.entity.output": "\"Oslo\""}}`},
			"answer COMPLETED: Where? -> Oslo\nanswer COMPLETED: Where? -> Oslo"},
		"a workflow of tasks": {[]string{
			`{"id": "1", "name": "answer.workflow", "start": 1, "end": 90, "scope": {"name": "opentelemetry.instrumentation.haystack"}, "attributes": {"traceloop.span.kind": "workflow", "traceloop.workflow.name": "answer"}}`,
			`{"id": "2", "parent": "1", "name": "clean.task", "start": 2, "end": 20, "attributes": {"traceloop.span.kind": "task"}}`},
			"answer COMPLETED:  -> \nclean.task COMPLETED:  -> "},
		"embeddings of a known instrumentation": {[]string{
			`{"id": "1", "name": "embeddings e", "start": 1, "end": 90, "scope": {"name": "opentelemetry.instrumentation.openai_v2"}, "attributes": {"gen_ai.operation.name": "embeddings"}}`},
			"embeddings e COMPLETED:  -> \nembeddings e COMPLETED:  -> "},
		"below a web server": {[]string{
			`{"id": "1", "name": "POST /ask", "start": 1, "end": 90, "attributes": {"http.request.method": "POST"}}`,
			`{"id": "2", "parent": "1", "name": "Pipeline.run", "start": 2, "end": 80, "attributes": {"openinference.span.kind": "CHAIN"}}`,
			`{"id": "3", "parent": "2", "name": "find", "start": 3, "end": 20, "attributes": {"openinference.span.kind": "RETRIEVER", "input.value": "Where?"}}`},
			"POST /ask COMPLETED: Where? -> \nfind COMPLETED: Where? -> "},
		"the root has not arrived": {[]string{
			`{"id": "2", "parent": "1", "name": "Writer.run", "start": 2, "end": 80, "attributes": {"openinference.span.kind": "CHAIN", "input.value": "Write"}}`},
			"Writer.run RUNNING: Write -> \nWriter.run COMPLETED: Write -> "},
		"a web server": {
			[]string{
				`{"id": "1", "name": "GET /", "start": 1, "end": 2, "scope": {"name": "opentelemetry.instrumentation.fastapi"}, "attributes": {"http.request.method": "GET"}}`,
			}, "",
		},
		"embeddings of a web server": {[]string{
			`{"id": "1", "name": "GET /", "start": 1, "end": 9, "attributes": {"http.request.method": "GET"}}`,
			`{"id": "2", "parent": "1", "name": "embeddings e", "start": 2, "end": 3, "scope": {"name": "opentelemetry.instrumentation.openai_v2"}, "attributes": {"gen_ai.operation.name": "embeddings"}}`}, ""},
		"a database": {
			[]string{
				`{"id": "1", "name": "SELECT", "start": 1, "end": 2, "scope": {"name": "opentelemetry.instrumentation.psycopg"}, "attributes": {"db.system": "postgresql"}}`,
			}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := made(t, c.spans...)
			if got := pipelineOf(t, spans); got != c.want {
				t.Errorf("pipelineOf(spans):\n%s\nwant\n%s", got, c.want)
			}
			if c.want != "" {
				anyOrder(t, spans)
			}
		})
	}
}

// TestAPipelineThatCallsAModel is an ordinary run: its steps are what called.
func TestAPipelineThatCallsAModel(t *testing.T) {
	t.Parallel()
	spans := made(t,
		`{"id": "1", "name": "Pipeline.run", "start": 1, "end": 90, "attributes": {"openinference.span.kind": "CHAIN"}}`,
		`{"id": "2", "parent": "1", "name": "Writer.run", "start": 2, "end": 20, "attributes": {"openinference.span.kind": "CHAIN"}}`,
		`{"id": "3", "parent": "2", "name": "chat m", "start": 3, "end": 9, "attributes": {"openinference.span.kind": "LLM"}}`)

	if got, want := run(project(t, spans)), "COMPLETED 90: Pipeline COMPLETED 1+0"; got != want {
		t.Errorf("run(project(spans)):\n%s, want\n%s", got, want)
	}
	anyOrder(t, spans)
}

// TestHaystack: what OpenInference's instrumentation of Haystack sent for a pipeline of two agents.
func TestHaystack(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile(filepath.Join("..", "receive", "testdata", "cases", "pipeline.pb"))
	if err != nil {
		t.Fatal(err)
	}
	batch, err := otlp.DecodeTraces(otlp.TypeProtobuf, body)
	if err != nil {
		t.Fatal(err)
	}

	const answer = "Paris is sunny; no hotel was free; it was founded in the 3rd century BC."
	want := "Pipeline COMPLETED: Tell me about a trip to Paris -> " + answer +
		"\nAgent.run COMPLETED: Tell me about a trip to Paris -> " + answer +
		"\nAgent.run COMPLETED: When was Paris founded? -> Founded in the 3rd century BC."
	if got := pipelineOf(t, batch.Spans); got != want {
		t.Errorf("pipelineOf(batch.Spans):\n%s\nwant\n%s", got, want)
	}
	anyOrder(t, batch.Spans)
}
