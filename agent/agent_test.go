package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/agent/mcp"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/plan"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// open opens a runtime, which the end of the test closes.
func open(t *testing.T, url string) *agent.Runtime {
	t.Helper()
	return openLogging(t, url, storetest.Logger(t))
}

func openLogging(t *testing.T, url string, log *slog.Logger) *agent.Runtime {
	t.Helper()
	a, err := agent.Open(t.Context(), url, agent.Options{Logger: log, Release: "v7"})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return a
}

func register(t *testing.T, a *agent.Runtime, p agent.Parts) {
	t.Helper()
	if err := a.Register(p); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, a *agent.Runtime, job agent.Job) (planID string) {
	t.Helper()
	planID, err := a.Start(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	return planID
}

// finished waits for a run to be in a state.
func finished(t *testing.T, a *agent.Runtime, planID string, want record.State) *agent.Run {
	t.Helper()
	run, err := a.Wait(t.Context(), planID)
	if err != nil {
		t.Fatal(err)
	}
	if run.State != want {
		t.Fatalf("the run is %s, not %s: %+v", run.State, want, run)
	}
	return run
}

// flow runs a workflow to its end.
func flow(ctx context.Context, a *agent.Runtime, f agent.Flow) (r workflow.Result, err error) {
	planID, err := a.Start(ctx, agent.Job{Work: f})
	if err != nil {
		return r, err
	}
	return r, a.Result(ctx, planID, &r)
}

// models returns a model that gives these answers as the only one of parts.
func models(t *testing.T, turns ...scriptmodel.Turn) map[string]model.Model {
	t.Helper()
	m, stop := scripted(turns...)
	t.Cleanup(stop)
	return map[string]model.Model{"default": m}
}

var echo = tool.Func("echo", "Says it again.", func(_ context.Context, in struct {
	Text string `json:"text"`
}) (string, error) {
	return in.Text, nil
})

// TestOpenErrors checks that what is wrong with a database or an option is named.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL

	for _, row := range []struct {
		url     string
		options agent.Options
		want    string
	}{
		{"", agent.Options{}, "the database URL is required"},
		{"postgres://%zz", agent.Options{}, "open database"},
		{"postgres://127.0.0.1:1/nothing?connect_timeout=5", agent.Options{}, "record unavailable"},
		{url, agent.Options{Slots: -1}, "slots: must not be negative"},
		{url, agent.Options{Drain: -1}, "drain: must not be negative"},
		{url, agent.Options{MaxConns: 1}, "maxConns: must be at least 4"},
	} {
		a, err := agent.Open(t.Context(), row.url, row.options)
		if err == nil || a != nil || !strings.HasPrefix(err.Error(), "open the runtime: ") ||
			!strings.Contains(err.Error(), row.want) {
			t.Errorf("%q %+v: %v, want %s", row.url, row.options, err, row.want)
		}
		if away := strings.Contains(row.want, "unavailable"); errors.Is(err, record.ErrUnavailable) != away {
			t.Errorf("%q: %v", row.url, err)
		}
	}
}

// TestOpenMigrates checks that Open makes what it needs in an empty database, and that several may do so
// at once.
func TestOpenMigrates(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t).URL
	opened := make(chan error, 3)
	for range cap(opened) {
		go func() {
			a, err := agent.Open(context.Background(), url, agent.Options{})
			if err == nil {
				err = a.Close(context.Background())
			}
			opened <- err
		}()
	}

	for range cap(opened) {
		if err := <-opened; err != nil {
			t.Error(err)
		}
	}
}

// TestAsWriter checks that a role which may only write is enough where the schema is up to date.
func TestAsWriter(t *testing.T) {
	t.Parallel()
	a := open(t, storetest.WriterURL(t, pgtest.Fresh(t)))
	register(t, a, agent.Parts{Models: models(t, says("It is written.")), Agents: map[string]agent.Agent{"a": {}}})
	go func() { _ = a.Work(t.Context()) }()
	if run := finished(t, a, start(t, a, agent.Job{Work: agent.Request{Agent: "a", Request: "Go."}}),
		record.Completed); run.Result != "It is written." {
		t.Errorf("run = %+v", run)
	}
}

// TestRegisterErrors checks that every mistake is named with its field, and that nothing is registered then.
func TestRegisterErrors(t *testing.T) {
	t.Parallel()
	own := models(t, says("x"))
	pay := tool.Func("pay", "Pays.", func(context.Context, struct{}) (string, error) {
		return "", nil
	}, tool.WithPolicy(tool.Policy{Writes: true}))
	named := func(name string, p tool.Policy) tool.Tool {
		return tool.Func(name, "Does.", func(context.Context, struct{}) (string, error) {
			return "", nil
		}, tool.WithPolicy(p))
	}

	a := open(t, pgtest.New(t).URL)
	register(t, a, agent.Parts{Models: own, Tools: []tool.Tool{echo, pay}, Agents: map[string]agent.Agent{"first": {}}})
	bad := -time.Second
	for _, row := range []struct {
		parts agent.Parts
		want  []string
	}{
		{agent.Parts{Models: own}, []string{"models.default: there is one already"}},
		{
			agent.Parts{Models: map[string]model.Model{"a b": own["default"], "none": nil}},
			[]string{"models.a b: a name has at most 64", "models.none: it is nil"},
		},
		{agent.Parts{Tools: []tool.Tool{echo}}, []string{"tools: two tools have the name echo"}},
		{agent.Parts{Tools: []tool.Tool{nil}}, []string{"tools[0]: it is nil"}},
		{agent.Parts{Tools: []tool.Tool{named("a b", tool.Policy{})}}, []string{`tools: tool name "a b"`}},
		{
			agent.Parts{Tools: []tool.Tool{named("terminate", tool.Policy{})}},
			[]string{"tools.terminate: agents have a tool of this name"},
		},
		{
			agent.Parts{Tools: []tool.Tool{named("x", tool.Policy{OnUnknown: "guess"})}},
			[]string{`tools.x.policy.onUnknown: "guess" is not`},
		},
		{agent.Parts{Tools: []tool.Tool{named("x", tool.Policy{Timeout: -1})}}, []string{"tools.x.policy.timeout: "}},
		{agent.Parts{Tools: []tool.Tool{broken{}}}, []string{"tools: tool broken: its input schema is not an object"}},
		{
			agent.Parts{MCPServers: map[string]tool.Server{"a.b": mcp.Server{Command: []string{"x"}}}},
			[]string{"mcpServers.a.b: the name of a server has at most 54 letters, digits, '_' and '-'"},
		},
		{
			agent.Parts{MCPServers: map[string]tool.Server{"s": mcp.Server{}}}, []string{
				"mcpServers.s.command: a server needs a command or a url",
			},
		},
		{
			agent.Parts{
				MCPServers: map[string]tool.Server{"s": mcp.Server{Command: []string{"x"}}},
				Tools:      []tool.Tool{named("s-x", tool.Policy{})},
			}, []string{"tools.s-x: it could be the name of a tool of the MCP server s"},
		},
		{
			agent.Parts{Policies: tool.Rules{{Tools: "echo"}, {}}}, []string{
				"policies[1].tools: an empty pattern matches no tool",
			},
		},
		{agent.Parts{Redact: []string{"email", "("}}, []string{"redact: "}},
		{agent.Parts{Agents: map[string]agent.Agent{"first": {}}}, []string{"agents.first: there is one already"}},
		{agent.Parts{
			Agents: map[string]agent.Agent{"a": {Model: "gpt"}, "b": {Tools: []string{"eco"}}, "c": {WaitTimeout: bad}},
		},
			[]string{
				`agents.a.model: no model is called "gpt"; there are: default`,
				`agents.b.tools[0]: no tool is called "eco"; did you mean echo?`, "agents.c.waitTimeout: want a time",
			}},
		{
			agent.Parts{Agents: map[string]agent.Agent{"a": {ResponseSchema: json.RawMessage(`{"type":"text"}`)}}},
			[]string{"agents.a.responseSchema: "},
		},
		{
			agent.Parts{Agents: map[string]agent.Agent{"a": {Tools: []string{"pay"}, ReadOnly: true}}},
			[]string{"agents.a.readOnly: must be false: the tool pay writes"},
		},
		{agent.Parts{
			Workflows: map[string]agent.Workflow{
				"w": {
					Agents: []string{"nobody"}, Workflows: []string{"w", "none"}, Tools: []string{"echo", "eco"},
					MCPServers: []string{"s"},
				},
			},
		}, []string{
			"workflows.w.run: it is nil", `workflows.w.agents[0]: no agent is called "nobody"`,
			`workflows.w.workflows[1]: no workflow is called "none"`, `workflows.w.tools[1]: no tool is called "eco"`,
			`workflows.w.mcpServers[0]: no MCP server is called "s"`}},
		{agent.Parts{Agents: map[string]agent.Agent{"": {}}}, []string{"agents.: a name has at most"}},
		{
			agent.Parts{Workflows: map[string]agent.Workflow{"a\x00": {}}},
			[]string{`workflows."a\x00": a name has at most 255 bytes`},
		},
	} {
		err := a.Register(row.parts)
		if err == nil || !strings.HasPrefix(err.Error(), "register: ") {
			t.Errorf("%+v: %v", row.parts, err)
			continue
		}
		for _, want := range row.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %s", row.parts, err, want)
			}
		}
	}

	if _, err := a.Start(t.Context(),
		agent.Job{Work: agent.Request{Agent: "a", Request: "Go."}}); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("after all these mistakes there is an agent: %v", err)
	}

	// One that is right goes on from what is there.
	register(t, a, agent.Parts{
		Agents: map[string]agent.Agent{
			"a": {Tools: []string{"pay", "agent.first", "agent.b", "form"}}, "b": {Tools: []string{"agent.*"}},
		},
	})
}

// broken is a tool whose schema is none.
type broken struct{}

func (broken) Spec() tool.Spec { return tool.Spec{Name: "broken", Schema: json.RawMessage(`{"type":`)} }

func (broken) Call(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, nil }

// TestRegisterLate checks that nothing can be registered once the work has begun.
func TestRegisterLate(t *testing.T) {
	t.Parallel()
	a := open(t, pgtest.New(t).URL)
	go func() { _ = a.Work(t.Context()) }()
	storetest.Until(t, "the work has begun", func() bool {
		err := a.Register(agent.Parts{})
		return err != nil && err.Error() == "register: the work has begun"
	})
}

// TestStartErrors checks that what is wrong with a request is named.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	a := open(t, pgtest.New(t).URL)
	register(t, a, agent.Parts{Models: models(t, says("x")), Agents: map[string]agent.Agent{"a": {}}})
	long := strings.Repeat("x", record.MaxIDBytes+1)

	for _, row := range []struct {
		job   agent.Job
		field string
	}{
		{agent.Job{}, "work"},
		{agent.Job{Work: agent.Input{Executor: "none"}}, "executor"},
		{agent.Job{Work: agent.Input{Executor: "agent", Input: func() {}}}, "input"},
		{agent.Job{Work: agent.Request{Request: "r"}}, "agent"},
		{agent.Job{Work: agent.Request{Agent: "a"}}, "request"},
		{agent.Job{Work: agent.Request{Agent: "a", Request: " \n"}}, "request"},
		{agent.Job{Work: agent.Request{Agent: "a", Request: "x\x00"}}, "request"},
		{agent.Job{Work: agent.Request{Agent: "a\xff", Request: "r"}}, "agent"},
		{agent.Job{Work: agent.Request{Agent: "a", Request: "r"}, UserID: long}, "userId"},
		{agent.Job{Work: agent.Request{Agent: "a", Request: "r"}, ConversationID: "\x00"}, "conversationId"},
		{agent.Job{Work: agent.Request{Agent: "a", Request: "r"}, Project: long}, "project"},
		{agent.Job{Work: agent.Request{Agent: "a", Request: "r"}, IdempotencyKey: long}, "idempotencyKey"},
		{agent.Job{Work: agent.Request{Agent: "a", Request: "r"}, Starter: long}, "starter"},
		{agent.Job{Work: agent.Request{Agent: "a", Request: "r"}, Tags: []string{"ok", long}}, "tags[1]"},
		{agent.Job{Work: agent.Request{Agent: "a", Request: "r"}, Tags: make([]string, record.MaxListItems+1)}, "tags"},
		{agent.Job{Work: agent.Request{Agent: "a", Request: "r"}, Limits: agent.Limits{Rounds: -1}}, "limits.rounds"},
	} {
		_, err := a.Start(t.Context(), row.job)
		if bad := new(record.InvalidError); !errors.As(err, &bad) || bad.Field != row.field ||
			!strings.HasPrefix(err.Error(), "start a run: ") {
			t.Errorf("%.60q: %v, want field %s", fmt.Sprint(row.job), err, row.field)
		}
	}

	if _, err := a.Start(t.Context(),
		agent.Job{Work: agent.Request{Agent: "nobody", Request: "r"}}); !errors.Is(err, record.ErrNotFound) ||
		!strings.Contains(err.Error(), `no agent is called "nobody"`) {
		t.Error(err)
	}

	q := agent.Job{Work: agent.Request{Agent: "a", Request: "r"}, IdempotencyKey: "once"}
	first := start(t, a, q)
	if again := start(t, a, q); again != first {
		t.Errorf("the same request is the run %s, and then %s", first, again)
	}

	q.Work = agent.Request{Agent: "a", Request: "another"}
	_, err := a.Start(t.Context(), q)
	if bad := new(record.InvalidError); !errors.As(err, &bad) || bad.Field != "idempotencyKey" {
		t.Errorf("another request with the same key: %v", err)
	}
}

// TestInput checks that a job may be work in the words of its executor, that Result reads what came of it as a text,
// and that a result of another kind, or of a run that failed, is an error.
func TestInput(t *testing.T) {
	t.Parallel()
	a := open(t, pgtest.New(t).URL)
	register(t, a, agent.Parts{Models: models(t, says("It is done.")), Agents: map[string]agent.Agent{"a": {}}})
	go func() { _ = a.Work(t.Context()) }()

	work := agent.Input{Executor: "agent", Name: "a", Input: map[string]string{"agent": "a", "request": "Go."}}
	id := start(t, a, agent.Job{Work: work})
	var text string
	if err := a.Result(t.Context(), id, &text); err != nil || text != "It is done." {
		t.Errorf("the result of run %s is %q, %v", id, text, err)
	}
	for _, into := range []any{new(workflow.Result), new(plan.Result), new(agent.GraphResult)} {
		if err := a.Result(t.Context(), id, into); !named(err, "planId") {
			t.Errorf("the result of run %s as %T: %v", id, into, err)
		}
	}

	id = start(t, a, agent.Job{Work: agent.Request{Agent: "a", Request: "Go."}, Limits: agent.Limits{Seconds: 1e-9}})
	if err := a.Result(t.Context(), id, &text); err == nil || !strings.Contains(err.Error(), "it is FAILED") {
		t.Errorf("the result of run %s, which has no time: %v", id, err)
	}
}

// TestUnknownRuns checks the errors about runs and waits that there are not.
func TestUnknownRuns(t *testing.T) {
	t.Parallel()
	a := open(t, pgtest.New(t).URL)

	for _, id := range []string{"", "plan-nowhere", "\x00", "\xff"} {
		_, read := a.Read(t.Context(), id)
		_, waited := a.Wait(t.Context(), id)
		for _, err := range []error{
			read, waited, a.Control(t.Context(), id, agent.Stop, "ada"),
			a.Decide(t.Context(), id, "w", agent.Decision{Decision: agent.Approve}),
		} {
			if !errors.Is(err, record.ErrNotFound) {
				t.Errorf("%q: %v", id, err)
			}
		}
	}
}

// TestClosed checks that Close ends the work and those who wait, and what calls return then.
func TestClosed(t *testing.T) {
	t.Parallel()
	a := open(t, pgtest.New(t).URL)
	register(t, a, agent.Parts{
		Models: models(t, calls("form", map[string]any{"title": "City?", "inputs": []any{map[string]any{"label": "City"}}}),
			says("x")), Agents: map[string]agent.Agent{"a": {Tools: []string{"form"}}, "b": {}},
	})
	worked, waited := make(chan error, 1), make(chan error, 1)
	go func() { worked <- a.Work(t.Context()) }()
	finished(t, a, start(t, a, agent.Job{Work: agent.Request{Agent: "a", Request: "Ask."}}), record.Waiting)

	// Who waits for a run that nobody takes waits until the end.
	b := open(t, pgtest.New(t).URL)
	register(t, b, agent.Parts{Models: models(t, says("x")), Agents: map[string]agent.Agent{"b": {}}})
	idle := start(t, b, agent.Job{Work: agent.Request{Agent: "b", Request: "Go."}})
	go func() { _, err := b.Wait(t.Context(), idle); waited <- err }()

	for _, r := range []*agent.Runtime{a, b, a} {
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := <-worked; err != nil {
		t.Errorf("the work ended with %v", err)
	}
	if err := <-waited; !errors.Is(err, record.ErrClosed) {
		t.Errorf("who waited got %v", err)
	}

	_, started := a.Start(t.Context(), agent.Job{Work: agent.Request{Agent: "a", Request: "x"}})
	_, read := a.Read(t.Context(), "p")
	_, wait := a.Wait(t.Context(), "p")
	for _, err := range []error{
		started, read, wait, a.Work(t.Context()), a.Register(agent.Parts{}), a.Control(t.Context(), "p", agent.Stop, ""),
		a.Decide(t.Context(), "p", "w", agent.Decision{}),
	} {
		if !errors.Is(err, record.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// TestCloseAtTheEnd checks that a program which is told to stop may close with the context that ended, once
// its work has come to its end.
func TestCloseAtTheEnd(t *testing.T) {
	t.Parallel()
	a := open(t, pgtest.New(t).URL)
	ctx, cancel := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	go func() { worked <- a.Work(ctx) }()

	cancel()
	if err := <-worked; err != nil {
		t.Error(err)
	}
	if err := a.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestCloseInTime checks that Close does not wait for a tool that does not end, beyond its context.
func TestCloseInTime(t *testing.T) {
	t.Parallel()
	a := open(t, pgtest.New(t).URL)
	begun, end := make(chan struct{}), make(chan struct{})
	deaf := tool.Func("deaf", "Does not listen.", func(context.Context, struct{}) (string, error) {
		close(begun)
		<-end
		return "", nil
	})
	register(t, a, agent.Parts{
		Models: models(t, calls("deaf", nil)), Tools: []tool.Tool{deaf},
		Agents: map[string]agent.Agent{"a": {Tools: []string{"deaf"}}},
	})

	worked := make(chan error, 1)
	go func() { worked <- a.Work(t.Context()) }()
	start(t, a, agent.Job{Work: agent.Request{Agent: "a", Request: "Go."}})
	<-begun

	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("no more time")
	cancel(cause)
	if err := a.Close(ctx); !errors.Is(err, cause) || !strings.Contains(err.Error(), "runs were not handed back") {
		t.Error(err)
	}
	close(end)
	if err := <-worked; err != nil {
		t.Error(err)
	}
}

// TestWaitEnds checks that who waits is let go when its context ends.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	a := open(t, pgtest.New(t).URL)
	register(t, a, agent.Parts{Models: models(t, says("x")), Agents: map[string]agent.Agent{"a": {}}})
	id := start(t, a, agent.Job{Work: agent.Request{Agent: "a", Request: "Go."}})

	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	if _, err := a.Wait(ctx, id); !errors.Is(err, cause) {
		t.Error(err)
	}
}

// TestPostgresAway checks the errors while Postgres is away, and that all goes on when it is back: workers,
// and who waits.
func TestPostgresAway(t *testing.T) {
	t.Parallel()
	outage := storetest.NewOutage(t)
	a, other := open(t, outage.DB.URL), open(t, outage.DB.URL)
	own := models(t, says("It is back."))
	register(t, a, agent.Parts{Models: own, Agents: map[string]agent.Agent{"a": {}}})
	register(t, other, agent.Parts{
		Models: own, Tools: []tool.Tool{echo}, Agents: map[string]agent.Agent{"b": {Tools: []string{"echo"}}},
	})

	go func() { _ = a.Work(t.Context()) }()
	waiting := start(t, other, agent.Job{Work: agent.Request{Agent: "b", Request: "Go."}})
	waited := make(chan error, 1)
	go func() {
		run, err := a.Wait(t.Context(), waiting)
		if err == nil && run.State != record.Completed {
			err = fmt.Errorf("the run is %s", run.State)
		}
		waited <- err
	}()

	outage.Begin(t)
	if _, err := a.Read(t.Context(), "plan"); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("Read: %v", err)
	}
	q := agent.Job{Work: agent.Request{Agent: "a", Request: "Go."}, IdempotencyKey: "once"}
	if _, err := a.Start(t.Context(), q); !errors.Is(err, record.ErrUnavailable) ||
		!strings.HasPrefix(err.Error(), "start a run: ") {
		t.Errorf("Start: %v", err)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("enough")) })
	if _, err := a.Wait(ctx, waiting); err == nil || !strings.HasSuffix(err.Error(), ": enough") {
		t.Errorf("Wait: %v", err)
	}

	outage.End(t)
	if run := finished(t, a, start(t, a, q), record.Completed); run.Result != "It is back." {
		t.Errorf("run = %+v", run)
	}
	go func() { _ = other.Work(t.Context()) }()
	if err := <-waited; err != nil {
		t.Errorf("who waited got %v", err)
	}
}

// TestWorkerWithoutTheTool checks that a worker takes no run whose agent names a tool that it does not have,
// and that the run says what it waits for.
func TestWorkerWithoutTheTool(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL
	own := models(t, calls("echo", map[string]string{"text": "x"}), says("done"))
	a, other := open(t, url), open(t, url)
	register(t, a, agent.Parts{
		Models: own, Tools: []tool.Tool{echo}, Agents: map[string]agent.Agent{
			"a": {Tools: []string{"echo", "agent.b"}}, "b": {},
		},
	})
	register(t, other, agent.Parts{Models: own, Agents: map[string]agent.Agent{"c": {}}})

	go func() { _ = other.Work(t.Context()) }()
	id := start(t, a, agent.Job{Work: agent.Request{Agent: "a", Request: "Go."}})
	if run := finished(t, other, start(t, other, agent.Job{Work: agent.Request{Agent: "c", Request: "Go."}}),
		record.Completed); run.Result == "" {
		t.Errorf("run = %+v", run) // the worker is at work
	}

	run, err := other.Read(t.Context(), id)
	if err != nil || run.State != record.Pending || fmt.Sprint(run.WaitingFor) != "[tool:agent.b tool:echo]" {
		t.Errorf("run = %+v %v", run, err)
	}
	go func() { _ = a.Work(t.Context()) }()
	if run := finished(t, other, id, record.Completed); run.Result != "done" || run.WaitingFor != nil {
		t.Errorf("run = %+v", run)
	}
}

// TestControl checks that runs are paused, resumed and stopped.
func TestControl(t *testing.T) {
	t.Parallel()
	a := open(t, pgtest.New(t).URL)
	begun := make(chan struct{}, 9)
	slow := tool.Func("slow", "Waits.", func(ctx context.Context, _ struct{}) (string, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	})
	register(t, a, agent.Parts{
		Models: models(t, calls("slow", nil), says("x")), Tools: []tool.Tool{slow},
		Agents: map[string]agent.Agent{"a": {Tools: []string{"slow"}}, "b": {}},
	})

	id := start(t, a, agent.Job{Work: agent.Request{Agent: "a", Request: "Wait."}})
	if err := a.Control(t.Context(), id, agent.Pause, "ada"); err != nil {
		t.Fatal(err)
	}
	go func() { _ = a.Work(t.Context()) }()
	finished(t, a, id, record.Paused)

	if err := a.Control(t.Context(), id, agent.Resume, "ada"); err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := a.Control(t.Context(), id, agent.Stop, "ada"); err != nil {
		t.Fatal(err)
	}
	if run := finished(t, a, id, record.Cancelled); run.EndTime.IsZero() || run.Name != "a" || run.Executor != "agent" {
		t.Errorf("run = %+v", run)
	}

	if err := a.Control(t.Context(), id, agent.Resume, ""); !errors.Is(err, agent.ErrEnded) {
		t.Errorf("a run that has ended is resumed: %v", err)
	}
	for action, by := range map[agent.Action]string{"restart": "", agent.Stop: "\x00"} {
		if err := a.Control(t.Context(), id, action, by); !errors.As(err, new(*record.InvalidError)) {
			t.Errorf("%s by %q: %v", action, by, err)
		}
	}
}

// S4, S9: a program says who starts a run and who decides. Idempotency keys are the starter's, who may not approve
// where a policy says so.
func TestStarter(t *testing.T) {
	t.Parallel()
	a := open(t, pgtest.New(t).URL)
	pay := tool.Func("pay", "Pays.", func(context.Context, struct{}) (string, error) {
		return "paid", nil
	}, tool.WithPolicy(tool.Policy{Approval: true, NotStarter: true}))
	register(t, a, agent.Parts{
		Models: models(t, calls("pay", nil), says("Paid.")), Tools: []tool.Tool{pay},
		Agents: map[string]agent.Agent{"a": {Tools: []string{"pay"}}},
	})
	go func() { _ = a.Work(t.Context()) }()

	q := agent.Job{Work: agent.Request{Agent: "a", Request: "Pay."}, Starter: "ann", IdempotencyKey: "once"}
	id := start(t, a, q)
	other := q
	other.Starter = "bob"
	if again, theirs := start(t, a, q), start(t, a, other); again != id || theirs == id {
		t.Errorf("ann's run is %s, and then %s; bob's is %s", id, again, theirs)
	}

	w := finished(t, a, id, record.Waiting).Waits[0]
	for _, by := range []string{"ann", ""} {
		if err := a.Decide(t.Context(), id, w.WaitID,
			agent.Decision{Decision: agent.Approve, By: by, Claim: "bob"}); !errors.Is(err, agent.ErrSelfApproval) {
			t.Errorf("%q approves: %v", by, err)
		}
	}
	if err := a.Decide(t.Context(), id, w.WaitID, agent.Decision{Decision: agent.Approve, By: "bob"}); err != nil {
		t.Fatal(err)
	}
	finished(t, a, id, record.Completed)
}

// TestForm checks that a form is shown and answered, and that a wrong answer is named.
func TestForm(t *testing.T) {
	t.Parallel()
	a := open(t, pgtest.New(t).URL)
	register(t, a, agent.Parts{
		Models: models(t, calls("form", map[string]any{"title": "Where to?", "description": "Say it.", "inputs": []any{
			map[string]any{
				"label": "City", "name": "city", "type": "select", "options": []string{"Oslo", "Bergen"}, "required": true,
			}, map[string]any{"label": "Days", "type": "number"},
		}}), says("It is noted.")),
		Agents: map[string]agent.Agent{"a": {Tools: []string{"form"}}},
		Redact: []string{"secret-[a-z]+"},
	})
	go func() { _ = a.Work(t.Context()) }()
	id := start(t, a, agent.Job{
		Work: agent.Request{Agent: "a", Request: "Ask me about secret-things."}, Tags: []string{"trip"},
	})

	run := finished(t, a, id, record.Waiting)
	w := run.Waits[0]
	if w.Title != "Where to?" || w.Type != record.WaitUserInput || len(w.Form) != 2 || w.Form[0]["name"] != "city" ||
		fmt.Sprint(w.Decisions) != "[submit]" || !w.ExpiresAt.IsZero() || w.PlanID != id {
		t.Errorf("the wait is %+v", w)
	}
	if strings.Contains(run.Title, "secret-things") {
		t.Errorf("the title is %s", run.Title)
	}

	for field, d := range map[string]agent.Decision{
		"decision": {Decision: agent.Approve},
		"city":     {Decision: agent.Submit, Values: map[string]any{"city": "Rome"}},
		"country":  {Decision: agent.Submit, Values: map[string]any{"city": "Oslo", "country": "NO"}},
		"Days":     {Decision: agent.Submit, Values: map[string]any{"city": "Oslo", "Days": func() {}}},
		"by":       {Decision: agent.Submit, Values: map[string]any{"city": "Oslo"}, By: "\x00"},
		"claim":    {Decision: agent.Submit, Values: map[string]any{"city": "Oslo"}, Claim: "\x00"},
	} {
		if err := a.Decide(t.Context(), id, w.WaitID, d); !named(err, field) {
			t.Errorf("%+v: %v, want field %s", d, err, field)
		}
	}
	if err := a.Decide(
		t.Context(), id, "another", agent.Decision{Decision: agent.Submit},
	); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("another wait: %v", err)
	}

	answer := agent.Decision{Decision: agent.Submit, Values: map[string]any{"city": "Oslo", "Days": 3}, By: "ada"}
	if err := a.Decide(t.Context(), id, w.WaitID, answer); err != nil {
		t.Fatal(err)
	}
	if err := a.Decide(t.Context(), id, w.WaitID, answer); !errors.Is(err, agent.ErrDecided) {
		t.Errorf("decided twice: %v", err)
	}
	if run = finished(t, a, id, record.Completed); run.Result != "It is noted." || len(run.Waits) != 0 ||
		run.Total.ToolCalls != 2 || run.Total.InputTokens == 0 {
		t.Errorf("run = %+v", run)
	}
}

func named(err error, field string) bool {
	bad := new(record.InvalidError)
	return errors.As(err, &bad) && bad.Field == field
}

// TestConfigurationFile checks that a program and its configuration file share models, tools, agents and workflows.
// D20: a class that the file names is a function of the program.
func TestConfigurationFile(t *testing.T) {
	t.Parallel()
	server, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{
		{
			Name: "file", Match: scriptmodel.Match{System: "Of the file."},
			Turns: []scriptmodel.Turn{calls("echo", map[string]string{"text": "hi"}), says("file is done")},
		},
		{Name: "reader", Match: scriptmodel.Match{User: "Read a.go."}, Turns: []scriptmodel.Turn{says("It is read.")}},
		{
			Name: "finder", Match: scriptmodel.Match{User: "Find it."}, Turns: []scriptmodel.Turn{
				calls("search.search_documentation", map[string]string{"query": "a kiwi"}), says("It is found."),
			},
		},
		{Name: "news", Match: scriptmodel.Match{User: "Tell."}, Turns: []scriptmodel.Turn{{Content: "It rains."}}},
		{
			Name: "program", Match: scriptmodel.Match{System: "Of the program: $5 ${X}."},
			Turns: []scriptmodel.Turn{calls("agent.file", map[string]string{"request": "Help."}), says("program is done")},
		},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })

	path := filepath.Join(t.TempDir(), "actlog.yaml")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "fruit.md"), []byte("A kiwi.\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	text := fmt.Sprintf("embedder: {provider: openai, model: words, baseURL: %[1]q}\ntoolsets: {search: {}}\nmodels:\n"+
		"  default: {provider: openai, model: of-the-file, baseURL: %[1]q}\nplans:\n"+
		"  nightly: {title: Nightly, steps: [{agent: reader, request: Read <<path>>.}]}\nworkflows:\n"+
		"  morning: {steps: [news]}\n  news: {modulePath: flows/news.py, className: News}\nagents:\n  reader: {}\n"+
		"  finder: {tools: [search.search_documentation]}\n  file: {systemPrompt: Of the file., tools: [echo]}\n",
		server.URL())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	current, err := config.Open(path, config.Options{Tools: []string{"echo"}, Workflows: []string{"flows/news.py.News"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(current.Close)

	db := pgtest.New(t)
	a := open(t, db.URL)
	if err := a.Register(agent.Parts{Config: current, Tools: []tool.Tool{echo}}); err == nil ||
		!strings.Contains(err.Error(), "workflows.news: no function is registered as flows/news.py.News") {
		t.Errorf("without the function: %v", err)
	}

	news := func(ctx context.Context, f workflow.Facade, input json.RawMessage, _ string) (any, error) {
		r, err := f.RunAgent(ctx, "reader", "Tell.")
		return string(input) + " " + r.Text(), err
	}
	register(t, a, agent.Parts{
		Config: current, Tools: []tool.Tool{echo}, Policies: tool.Rules{{Tools: "echo", Approval: new(true)}},
		Workflows: map[string]agent.Workflow{"flows/news.py.News": {Agents: []string{"reader"}, Run: news}},
		Agents: map[string]agent.Agent{
			"program": {SystemPrompt: "Of the program: $5 ${X}.", Tools: []string{"agent.file"}, Temperature: new(0.5)},
		},
	})

	for want, p := range map[string]agent.Parts{
		"config: there is one already":         {Config: new(config.Current)},
		"agents.file: there is one already":    {Agents: map[string]agent.Agent{"file": {}}},
		"models.default: there is one already": {Models: models(t, says("x"))},
	} {
		if err := a.Register(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a.Register(p) = %v, want %s", err, want)
		}
	}

	go func() { _ = a.Work(t.Context()) }()
	id := start(t, a, agent.Job{Work: agent.Request{Agent: "program", Request: "Go."}})
	run := finished(t, a, id, record.Waiting) // the program's policy holds for the file's agent
	w := run.Waits[0]
	if w.Tool != "echo" || string(w.Arguments) != `{"text":"hi"}` || w.PlanID == id {
		t.Errorf("the wait is %+v", w)
	}

	if err := a.Decide(t.Context(), id, w.WaitID, agent.Decision{Decision: agent.Approve}); err != nil {
		t.Fatal(err)
	}
	if run = finished(t, a, id, record.Completed); run.Result != "program is done" {
		t.Errorf("run = %+v", run)
	}
	sub, err := a.Read(t.Context(), w.PlanID)
	if err != nil || sub.ParentPlanID != id || sub.RootPlanID != id || sub.Result != "file is done" {
		t.Errorf("sub = %+v %v", sub, err)
	}

	// A template of the file. Its run is none of a task.
	if id, err = a.Start(t.Context(),
		agent.Job{Work: agent.Template{Name: "nightly", Values: map[string]string{"path": "a.go"}}}); err != nil {
		t.Fatal(err)
	}
	if run = finished(t, a, id, record.Completed); run.Result != "It is read." {
		t.Errorf("run = %+v", run)
	}

	// C21: what the embedder was used for is on record. Its vectors are where other workers find them.
	finished(t, a, start(t, a, agent.Job{Work: agent.Request{Agent: "finder", Request: "Find it."}}), record.Completed)
	var used string
	if err := db.Pool.QueryRow(t.Context(),
		`SELECT concat_ws(' ', metadata -> 'embedding', (SELECT count(*) FROM actlog.text_vector WHERE model = 'words'))
		FROM actlog.act_tool_info WHERE name = 'search.search_documentation'`).Scan(&used); err != nil || used != `{"model":"words","texts":2,"inputTokens":4,"hits":1} 2` {
		t.Errorf("used = %v, %v", used, err)
	}

	for _, name := range []string{"morning", "news"} {
		if r, err := flow(t.Context(), a, agent.Flow{Workflow: name, Input: 7}); err != nil ||
			r.Status != workflow.Completed || r.FinalOutput != "7 It rains." {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}

	if err := a.Result(t.Context(), id, new(plan.Result)); !named(err, "planId") {
		t.Error(err)
	}
	if _, err := a.Start(t.Context(), agent.Job{Work: agent.Template{Name: "nightly"}}); !named(err, "path") {
		t.Error(err)
	}
	var body string
	if err := db.Pool.QueryRow(t.Context(),
		"SELECT body::text FROM actlog.definition WHERE definition_id = 'agent.program'").Scan(&body); err != nil {
		t.Fatal(err)
	}

	// What the file has when it is loaded again counts for workers that are at work.
	text += "  later: {model: second, systemPrompt: Of the file., tools: [echo]}\n"
	text = strings.Replace(text, "plans:",
		fmt.Sprintf("  second: {provider: openai, model: second, baseURL: %q}\nplans:", server.URL()), 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := current.Reload(); err != nil {
		t.Fatal(err)
	}
	finished(t, a, start(t, a, agent.Job{Work: agent.Request{Agent: "later", Request: "Go."}}), record.Waiting)

	registry := prometheus.NewRegistry()
	registry.MustRegister(a.Metrics()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	served := map[string]bool{}
	for _, f := range families {
		served[f.GetName()] = true
	}
	for _, name := range []string{
		"actlog_config_reloads_total", "actlog_run_ended_total", "actlog_tool_call_duration_seconds",
	} {
		if !served[name] {
			t.Errorf("there is no metric %s", name)
		}
	}

	if !strings.Contains(body, `of-the-file`) || !strings.Contains(body, `0.5`) || !strings.Contains(body, "$5 ${X}.") {
		t.Errorf("pinned is %s", body)
	}
}

const (
	asServer = "ACTLOG_AGENT_TEST_SERVER" // makes the test binary an MCP server
	asWorker = "ACTLOG_AGENT_TEST_WORKER" // makes it a worker on this database
	effects  = "ACTLOG_AGENT_TEST_EFFECTS"
	baseURL  = "ACTLOG_AGENT_TEST_MODEL"
)

// serve is an MCP server whose tool returns its secret.
func serve() error {
	fmt.Fprintln(os.Stderr, "I have the key", os.Getenv(asServer))
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "tell"},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "the key is " + os.Getenv(asServer)}}},
				nil, nil
		})
	return s.Run(context.Background(), &sdk.StdioTransport{})
}

// TestMCPServer checks that an agent, and a workflow in Go, use the tools of an MCP server of the program, whose
// secrets go neither on record nor into the log. D4, D20.
func TestMCPServer(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	db, log := pgtest.New(t), new(storetest.Log)
	a := openLogging(t, db.URL, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))

	register(t, a, agent.Parts{
		Models:   models(t, calls("local-tell", nil), says("It was told.")),
		Policies: tool.Rules{{Tools: "local-*", Approval: new(false)}},
		MCPServers: map[string]tool.Server{
			"local": mcp.Server{Command: []string{program}, Env: map[string]string{asServer: "planted-secret"}, Trusted: true},
		},
		Agents: map[string]agent.Agent{"a": {MCPServers: []string{"local"}}, "b": {Tools: []string{"local-tell"}}},
		Workflows: map[string]agent.Workflow{"w": {Tools: []string{"local-tell"}, MCPServers: []string{"local"},
			Run: func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
				if _, err := f.CallTool(ctx, "local-other", nil); !errors.Is(err, workflow.ErrFailed) ||
					!strings.Contains(err.Error(), "There is no tool local-other") {
					t.Errorf("another tool: %v", err)
				}
				return f.CallTool(ctx, "local-tell", struct{}{})
			}}},
	})

	go func() { _ = a.Work(t.Context()) }()
	for _, name := range []string{"a", "b"} {
		id := start(t, a, agent.Job{Work: agent.Request{Agent: name, Request: "Ask it."}})
		if run := finished(t, a, id, record.Completed); run.Result != "It was told." || run.Figures.Failures != 0 {
			t.Errorf("run = %+v", run)
		}
	}
	if r, err := flow(t.Context(), a, agent.Flow{Workflow: "w", Input: 1}); err != nil ||
		r.FinalOutput != "the key is [secret]" {
		t.Errorf("flow = %+v %v", r, err)
	}

	rows, err := db.Pool.Query(t.Context(), "SELECT result FROM actlog.act_tool_info WHERE name = 'local-tell'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()

	n := 0
	for rows.Next() {
		var result string
		if err := rows.Scan(&result); err != nil || result != "the key is [secret]" {
			t.Errorf("on record is %q, %v", result, err)
		}
		n++
	}
	if n != 3 || rows.Err() != nil {
		t.Errorf("%d calls, %v", n, rows.Err())
	}

	if said := log.String(); strings.Contains(said, "planted") || !strings.Contains(said, "I have the key [secret]") {
		t.Errorf("the log:\n%s", said)
	}
}

// The run that is killed: two calls, and while the second waits the worker is lost.
func killed(url, file, base string) (*agent.Runtime, error) {
	a, err := agent.Open(context.Background(), url, agent.Options{})
	if err != nil {
		return nil, err
	}
	m, err := newModel(base)
	if err != nil {
		return nil, err
	}

	type step struct {
		Name string `json:"name"`
	}
	err = a.Register(agent.Parts{
		Models: map[string]model.Model{"default": m},
		Tools: []tool.Tool{tool.CallFunc("note", "Notes.", func(_ context.Context, c tool.Call, in step) (string, error) {
			f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return "", err
			}
			_, err = fmt.Fprintf(f, "%s %s\n", in.Name, c.ID)
			return "noted", errors.Join(err, f.Close())
		})},
		Agents: map[string]agent.Agent{"a": {Tools: []string{"note"}}},
	})
	return a, err
}

func workUntilKilled(url string) error {
	a, err := killed(url, os.Getenv(effects), os.Getenv(baseURL))
	if err != nil {
		return err
	}
	return a.Work(context.Background())
}

// TestKilledWorker kills a worker's process in the middle of a run. Another process goes on with it, and
// makes no call again that was made.
func TestKilledWorker(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}, 9), make(chan struct{})
	held := scriptmodel.Turn{Reply: func(ctx context.Context, _ *scriptmodel.Request) (scriptmodel.Turn, error) {
		asked <- struct{}{}
		select {
		case <-answer:
		case <-ctx.Done():
		}
		return calls("note", map[string]string{"name": "second"}), ctx.Err()
	}}

	server, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{{Name: "s", Turns: []scriptmodel.Turn{
		calls("note", map[string]string{"name": "first"}), held, says("All is noted."),
	}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	url, file := pgtest.New(t).URL, filepath.Join(t.TempDir(), "effects")

	doomed := exec.CommandContext(t.Context(), os.Args[0])
	doomed.Env = append(os.Environ(), asWorker+"="+url, effects+"="+file, baseURL+"="+server.URL())
	doomed.Stderr = os.Stderr
	if err := doomed.Start(); err != nil {
		t.Fatal(err)
	}

	a, err := killed(url, file, server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(context.Background()) })

	id := start(t, a, agent.Job{Work: agent.Request{Agent: "a", Request: "Note two things."}})
	<-asked // the first call is on record, and the model is asked for more
	if err := doomed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = doomed.Wait() // it was killed
	go func() { _ = a.Work(t.Context()) }()
	close(answer)

	run := finished(t, a, id, record.Completed)
	if run.Result != "All is noted." || run.Takeovers != 1 {
		t.Errorf("run = %+v", run)
	}

	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	var noted []string
	for s := bufio.NewScanner(f); s.Scan(); {
		name, _, _ := strings.Cut(s.Text(), " ")
		noted = append(noted, name)
	}
	if fmt.Sprint(noted) != "[first second]" {
		t.Errorf("the calls were %v", noted)
	}
}
