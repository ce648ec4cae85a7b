package otlp_test

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/trace/otlp"
)

// TestProjectIsTheService (F3): a run that names no project is in the one of its service.
func TestProjectIsTheService(t *testing.T) {
	t.Parallel()
	resource := func(pairs ...string) otlp.Attributes {
		var a otlp.Attributes
		for i := 0; i < len(pairs); i += 2 {
			a = append(a, otlp.Attribute{Key: pairs[i], Value: otlp.Value{Text: pairs[i+1]}})
		}
		return a
	}

	const agent = `{"id": "2", "parent": "1", "name": "invoke_agent a", "start": 2, "end": 90}`
	const around = `{"id": "1", "name": "POST /chat", "start": 1, "end": 95}`
	const model = `{"id": "3", "parent": "2", "name": "chat m", "start": 3, "end": 9, "attributes": {"gen_ai.operation.name": "chat"}}`
	for name, tt := range map[string]struct {
		around, agent, model, logs otlp.Attributes
		project, release           string
	}{
		"a service":             {agent: resource("service.name", "shop"), project: "shop"},
		"with spaces":           {agent: resource("service.name", " shop "), project: "shop"},
		"no name":               {agent: resource("service.name", "unknown_service")},
		"no name, of a program": {agent: resource("service.name", "unknown_service:python")},
		"no name, of a path":    {agent: resource("service.name", "unknown_service:/usr/bin/node")},
		"no service":            {agent: resource("host.name", "h")},
		"a name that begins so": {agent: resource("service.name", "unknown_services"), project: "unknown_services"},
		"a project":             {agent: resource("actlog.project", "store", "service.name", "shop"), project: "store"},
		"Phoenix's": {
			agent: resource("openinference.project.name", "store", "service.name", "shop"), project: "store",
		},
		"both": {agent: resource("actlog.project", "own", "openinference.project.name", "store"), project: "own"},
		"the agent's, not that of a proxy": {
			around: resource("service.name", "proxy", "service.version", "9"),
			agent:  resource("service.name", "shop", "service.version", "1"), project: "shop", release: "1",
		},
		"only a proxy's": {
			around: resource("service.name", "proxy"), agent: resource("service.name", "unknown_service:python"),
		},
		"a project around": {
			around: resource("actlog.project", "store", "service.name", "proxy"), agent: resource("service.name", "shop"),
			project: "store",
		},
		"a project below": {
			agent: resource("service.name", "shop"), model: resource("actlog.project", "store"), project: "store",
		},
		"another one below": {
			agent: resource("service.name", "shop"), model: resource("service.name", "gateway"), project: "shop",
		},
		"that of a log": {agent: resource("host.name", "h"), logs: resource("service.name", "shop"), project: "shop"},
		"a project of a log": {
			agent: resource("service.name", "shop"), logs: resource("actlog.project", "store"), project: "store",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := made(t, around, agent, model, `{"id": "2", "stub": true, "events": [{"name": "x", "time": 5}]}`)
			for i, r := range []otlp.Attributes{tt.around, tt.agent, tt.model, tt.logs} {
				spans[i].Resource = r
			}

			root := sorted(project(t, spans)).plans[0]
			if deref(root.Project) != tt.project || deref(root.Release) != tt.release {
				t.Errorf("project %q, release %q, want %q, %q", deref(root.Project), deref(root.Release), tt.project, tt.release)
			}
			anyOrder(t, spans)
		})
	}
}

// TestForWhom (F3): the conversation and the user of a run, in each way in which programs tell frameworks.
func TestForWhom(t *testing.T) {
	t.Parallel()
	const lang = `"openinference.span.kind": "LLM", `
	for name, tt := range map[string]struct{ attributes, conversation, user string }{
		"LangGraph": {
			lang + `"metadata": "{\"thread_id\": \"t1\", \"user_id\": \"u1\", \"langgraph_step\": 1}"`, "t1", "u1",
		},
		"LangGraph, numbers":       {lang + `"metadata": "{\"thread_id\": 7, \"user_id\": 42}"`, "7", "42"},
		"LangGraph, session first": {lang + `"metadata": "{\"thread_id\": \"t1\", \"session_id\": \"s1\"}"`, "s1", ""},
		"LangGraph, conversation": {
			lang + `"metadata": "{\"thread_id\": \"t1\", \"conversation_id\": \"c1\"}"`, "c1", "",
		},
		"LangGraph, other spelling": {lang + `"metadata": "{\"threadId\": \"t1\", \"userID\": \"u1\"}"`, "t1", "u1"},
		"LangGraph, told outright": {
			lang + `"session.id": "s1", "user.id": "u2", "metadata": "{\"thread_id\": \"t1\", \"user_id\": \"u1\"}"`, "s1", "u2",
		},
		"LangGraph, nothing": {
			lang + `"metadata": "{\"thread_id\": null, \"user_id\": {\"a\": 1}, \"session_id\": \"\", \"chat_id\": true}"`, "",
			"",
		},
		"an object":     {lang + `"metadata": {"thread_id": "t1", "user_id": "u1"}`, "t1", "u1"},
		"no JSON":       {lang + `"metadata": "thread_id=t1"`, "", ""},
		"flat":          {lang + `"metadata.thread_id": "t1", "metadata.user_id": "u1"`, "t1", "u1"},
		"OpenInference": {lang + `"session.id": "s1", "user.id": "u1"`, "s1", "u1"},
		"Langfuse": {
			`"langfuse.observation.type": "generation", "langfuse.session.id": "s1", "langfuse.user.id": "u1"`, "s1", "u1",
		},
		"Langfuse, metadata": {
			`"langfuse.observation.type": "generation", "langfuse.trace.metadata.thread_id": "t1", "langfuse.trace.metadata.user_id": "u1"`, "t1", "u1",
		},
		"Langfuse, metadata as JSON": {
			`"langfuse.observation.type": "generation", "langfuse.trace.metadata": "{\"thread_id\": \"t1\", \"userId\": \"u1\"}"`, "t1", "u1",
		},
		"Langfuse, of an observation": {
			`"langfuse.observation.type": "generation", "langfuse.observation.metadata.chat_id": "t1", "langfuse.observation.metadata.user_id": "u1"`, "t1", "u1",
		},
		"Traceloop": {
			`"gen_ai.operation.name": "chat", "traceloop.association.properties.thread_id": "t1", "traceloop.association.properties.user_id": "u1"`, "t1", "u1",
		},
		"Traceloop, chat": {
			`"gen_ai.operation.name": "chat", "traceloop.association.properties.chatId": "t1", "traceloop.association.properties.userId": "u1"`, "t1", "u1",
		},
		"LangSmith": {
			`"langsmith.span.kind": "llm", "langsmith.metadata.thread_id": "t1", "langsmith.metadata.user_id": "u1"`, "t1", "u1",
		},
		"Vercel": {
			`"ai.operationId": "ai.generateText.doGenerate", "ai.telemetry.metadata.threadId": "t1", "ai.telemetry.metadata.userId": "u1"`, "t1", "u1",
		},
		"ADK": {
			`"gen_ai.operation.name": "chat", "gcp.vertex.agent.session_id": "s1", "user.id": "u1"`, "s1", "u1",
		},
		"Agents SDK, group": {
			`"gen_ai.operation.name": "chat", "group_id": "g1", "metadata": {"user_id": "u1"}`, "g1", "u1",
		},
		"Agents SDK, metadata": {
			`"gen_ai.operation.name": "chat", "metadata": "{\"group_id\": \"g1\", \"thread_id\": \"t1\"}"`, "t1", "",
		},
		"gen_ai": {
			`"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "c1", "enduser.id": "u1"`, "c1", "u1",
		},
		"own attributes":        {`"gen_ai.operation.name": "chat", "thread_id": "t1", "user_id": "u1"`, "t1", "u1"},
		"own attributes, other": {`"gen_ai.operation.name": "chat", "sessionId": "s1", "userId": 42`, "s1", "42"},
		"MLflow": {
			`"mlflow.spanType": "\"LLM\"", "mlflow.trace.session": "\"s1\"", "mlflow.trace.user": "u1"`, "s1", "u1",
		},
		"a thread of the machine": {
			`"gen_ai.operation.name": "chat", "thread.id": 140213, "thread.name": "MainThread"`, "", "",
		},
		"a thread of a conversation": {`"gen_ai.operation.name": "chat", "thread.id": "t1"`, "t1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := sorted(project(t, made(t, `{"id": "1", "name": "invoke_agent a", "start": 1, "end": 90}`,
				`{"id": "2", "parent": "1", "name": "x", "start": 2, "end": 9, "attributes": {`+tt.attributes+`}}`))).plans[0]
			if deref(root.ConversationID) != tt.conversation || deref(root.UserID) != tt.user {
				t.Errorf("conversation %q, user %q, want %q, %q", deref(root.ConversationID), deref(root.UserID), tt.conversation,
					tt.user)
			}
		})
	}

	for name, spans := range map[string][]string{
		"a log record": {`{"id": "1", "name": "invoke_agent a", "start": 1, "end": 90}`,
			`{"id": "2", "parent": "1", "name": "chat m", "start": 2, "end": 9}`,
			`{"id": "2", "stub": true, "events": [{"name": "gen_ai.user.message", "time": 5, "attributes": {"session.id": "s1", "user.id": "u1"}}]}`},
		"an agent before what is around it": {`{"id": "1", "name": "POST /", "start": 1, "end": 90, "attributes": {"session.id": "web", "user_id": "visitor"}}`,
			`{"id": "2", "parent": "1", "name": "invoke_agent a", "start": 2, "end": 9, "attributes": {"session.id": "s1", "user.id": "u1"}}`},
		"what is around an agent": {`{"id": "1", "name": "POST /", "start": 1, "end": 90, "attributes": {"session.id": "s1", "user.id": "u1", "group_id": "g1"}}`,
			`{"id": "2", "parent": "1", "name": "invoke_agent a", "start": 2, "end": 9}`},
	} {
		if len(spans) == 2 {
			spans = append(
				spans, `{"id": "3", "parent": "2", "name": "chat m", "start": 3, "end": 8, "attributes": {"gen_ai.operation.name": "chat"}}`,
			)
		}

		made := made(t, spans...)
		for i := range made {
			if strings.HasPrefix(made[i].Name, "chat") {
				made[i].Attributes = otlp.Attributes{{Key: "gen_ai.operation.name", Value: otlp.Value{Text: "chat"}}}
			}
		}

		root := sorted(project(t, made)).plans[0]
		if deref(root.ConversationID) != "s1" || deref(root.UserID) != "u1" {
			t.Errorf("%s: conversation %q, user %q", name, deref(root.ConversationID), deref(root.UserID))
		}
		anyOrder(t, made)
	}
}
