package engine_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// heard is a tool that takes any arguments, and keeps what it is given.
type heard struct {
	policy tool.Policy

	mu    sync.Mutex
	calls []string
	by    []record.StartedBy
}

func (*heard) name() string { return "deploy" }

func (h *heard) Spec() tool.Spec {
	return tool.Spec{
		Name: h.name(), Description: "Deploys.", Schema: json.RawMessage(`{"type":"object"}`), Policy: h.policy,
	}
}

func (h *heard) Touches(ctx context.Context, c tool.Call) ([]string, error) {
	h.note(ctx, "touches "+string(c.Arguments), c)
	return []string{"<a&b>.txt"}, nil
}

func (h *heard) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	h.note(ctx, "calls "+string(c.Arguments), c)
	return tool.Result{Text: "deployed"}, nil
}

func (h *heard) note(ctx context.Context, what string, c tool.Call) {
	h.mu.Lock()
	defer h.mu.Unlock()

	by, _ := record.StartedByFrom(ctx)
	if c.PlanID != by.PlanID || c.ID != by.ToolCallID {
		what = fmt.Sprintf("%s as %+v in a context of %+v", what, c, by)
	}
	h.calls, h.by = append(h.calls, what), append(h.by, by)
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls
}

// deploys returns a house whose agent makes calls with these arguments, one after the other.
func deploys(t *testing.T, tools []tool.Tool, name string, arguments ...string) *enginetest.House {
	t.Helper()
	var turns [][]scriptmodel.ToolCall
	for _, each := range arguments {
		turns = append(turns, []scriptmodel.ToolCall{{Name: name, Arguments: written(each)}})
	}
	return build(t, []scriptmodel.Scene{{Name: "s", Turns: calls(append(turns, terminate("done"))...)}},
		map[string]define.Definition{"a": {Tools: []string{"*"}}}, tools)
}

// written is JSON as it is, to the byte.
type written string

func (w written) MarshalJSON() ([]byte, error) { return []byte(w), nil }

// S6: a call with arguments that can be read in two ways, or that the record would change, is never made: nobody is
// asked, the tool hears nothing, and the model reads which key it is.
func TestBadArgumentsAreNotSent(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	bad := map[string]string{
		`{"target":"prod","target":"test"}`:                `Bad arguments: the key "target" is there twice`,
		`{"target":"prod","\u0074arget":"test"}`:           `Bad arguments: the key "target" is there twice`,
		`{"in":[{"target":"prod","x":1,"target":"test"}]}`: `Bad arguments: the key "in.0.target" is there twice`,
		`{"a\u0000":1,"a\ufffd":2}`:                        "Bad arguments: the key \"a\ufffd\" is there twice",
		`{"target":"\ud800"}`:                              `Bad arguments: the arguments are not a JSON object`,
		`{"target":1e999}`:                                 `Bad arguments: the number at "/target" is out of range`,
		`{"target":` + deep + `}`:                          `Bad arguments: they nest deeper than 99 levels`,
		`["prod"]`:                                         `Bad arguments: the arguments are not a JSON object`,
	}
	arguments := make([]string, 0, len(bad))
	for each := range bad {
		arguments = append(arguments, each)
	}

	for _, approval := range []bool{true, false} {
		called := &heard{policy: tool.Policy{Approval: approval}}
		h := deploys(t, []tool.Tool{called}, called.name(), arguments...)
		h.Work(h.Engine)
		p := h.Ended(h.Start("a", "Go."))
		if *p.Record.State != record.Completed || len(called.all()) != 0 || len(h.Waits()) != 0 {
			t.Fatalf("p.Record.State = %s %q %q", *p.Record.State, text(p.Record.ErrorMessage), called.all())
		}

		for i, c := range h.Step(p).Cycles[:len(arguments)] {
			row := c.ToolCalls[0].Record
			if *row.State != record.Failed || text(row.ErrorKind) != "tool" ||
				!strings.HasPrefix(text(row.Result), bad[arguments[i]]) || row.StartTime != nil {
				t.Errorf("%.80s: %s %s %q, want %q", arguments[i], *row.State, text(row.ErrorKind), text(row.Result),
					bad[arguments[i]])
			}
		}
	}
}

// S6: what is on record, what a human approves and what the tool gets are the same text. S1: the tool learns which call
// it is.
func TestShownIsSent(t *testing.T) {
	t.Parallel()
	const want = `{"b":"<ä> & 😀","a":9007199254740993,"c":[1.50,-0,1E+2],"Target":1,"target":2,"nul":"�\\u0000\\"}`
	called := &heard{policy: tool.Policy{Approval: true}}
	h := deploys(t, []tool.Tool{called}, called.name(),
		"{ \"b\" : \"\\u003c\\u00e4> \\u0026 \\ud83d\\ude00\",\n"+
			"\"a\":9007199254740993, \"c\":[1.50,-0,1E+2], \"Target\":1, \"\\u0074arget\":2, \"nul\":\"\\u0000\\\\u0000\\\\\" }")

	h.Work(h.Engine)
	id := h.Start("a", "Go.")
	h.Await(id, record.Waiting)

	wait := waitOf(t, h)
	row := h.Step(h.Plan(id)).Cycles[0].ToolCalls[0].Record
	subject := fmt.Sprintf(`{"name":"deploy","toolCallId":"%s","parameters":%s,"files":["<a&b>.txt"]}`, row.ToolCallID,
		want)
	if string(wait.Subject) != subject || text(wait.SubjectSHA256) != sha(subject) || text(row.Parameters) != want {
		t.Errorf("the subject is %s, want %s; on record are %s", wait.Subject, subject, text(row.Parameters))
	}

	if err := h.Decide(wait, record.Approved, "approve", ""); err != nil {
		t.Fatal(err)
	}
	h.Await(id, record.Completed)

	all := called.all()
	if n := len(all); n < 2 || all[n-1] != "calls "+want ||
		called.by[n-1] != (record.StartedBy{PlanID: id, ToolCallID: row.ToolCallID}) {
		t.Errorf("the tool heard %q of %+v", all, called.by)
	}
	for _, each := range all[:len(all)-1] {
		if each != "touches "+want {
			t.Errorf("the tool heard %q", each)
		}
	}
}

// waitOf returns the only wait, with its subject.
func waitOf(t *testing.T, h *enginetest.House) record.Wait {
	t.Helper()
	wait := h.Waits()[0]
	var subject, hash string
	if err := h.DB.Pool.QueryRow(t.Context(),
		"SELECT subject::text, subject_sha256 FROM actlog.wait_state").Scan(&subject, &hash); err != nil {
		t.Fatal(err)
	}
	wait.Subject, wait.SubjectSHA256 = json.RawMessage(subject), &hash
	return wait
}

func sha(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// S6: a wait that an earlier version wrote, with more escapes, still is about the same call. A wait about anything else
// is not.
func TestWaitOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		parameters string
		forged     bool // the hash is not that of what is shown
		want       record.State
	}{
		"escaped":       {`{"target":"\u003cprod\u003e \u00e4"}`, false, record.Completed},
		"as it is now":  {`{"target":"<prod> ä"}`, false, record.Completed},
		"another":       {`{"target":"<test> ä"}`, false, record.Paused},
		"another, hash": {`{"target":"<test> ä"}`, true, record.Paused},
		"more":          {`{"target":"<prod> ä","x":1}`, false, record.Paused},
		"twice":         {`{"target":"<test>","target":"<prod> ä"}`, false, record.Paused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			called := &heard{policy: tool.Policy{Approval: true}}
			h := deploys(t, []tool.Tool{called}, called.name(), `{"target":"<prod> \u00e4"}`)
			h.Work(h.Engine)
			id := h.Start("a", "Go.")
			h.Await(id, record.Waiting)

			wait := waitOf(t, h)
			earlier := strings.Replace(string(wait.Subject), `{"target":"<prod> ä"}`, tt.parameters, 1)
			hash := sha(earlier)
			if tt.forged {
				hash = text(wait.SubjectSHA256)
			}
			if _, err := h.DB.Pool.Exec(t.Context(), "UPDATE actlog.wait_state SET subject = $1::json, subject_sha256 = $2",
				earlier, hash); err != nil {
				t.Fatal(err)
			}

			if err := h.Decide(wait, record.Approved, "approve", ""); err != nil {
				t.Fatal(err)
			}
			h.Await(id, tt.want)
			if made := strings.Contains(strings.Join(called.all(), "\n"), "calls "); made != (tt.want == record.Completed) {
				t.Errorf("the tool heard %q", called.all())
			}
		})
	}
}

// asIs makes one call that no model asked for.
type asIs struct{ arguments string }

func (asIs) Kind() string { return "asis" }

func (asIs) Prepare(_ engine.Parts, r engine.Request) (engine.Prepared, error) {
	return engine.Prepared{Input: r.Input, UserRequest: "Do it."}, nil
}

func (x asIs) Advance(ctx context.Context, run *engine.Run) (engine.Result, error) {
	s, err := run.Step(ctx, 0, engine.StepInfo{})
	if err != nil {
		return engine.Result{}, err
	}

	tools, err := run.Tools(ctx, nil, nil)
	if err != nil {
		return engine.Result{}, err
	}
	set, err := tool.NewSet(tools...)
	if err != nil {
		return engine.Result{}, err
	}

	results, err := s.Act(ctx, 0, []model.ToolCall{{Name: "deploy", Arguments: x.arguments}}, engine.Thinking{Tools: set})
	if err != nil {
		return engine.Result{}, err
	}
	s.End("done", nil)
	return engine.Result{Summary: results[0].Text}, nil
}

// S6: the same holds for calls that an executor makes itself.
func TestArgumentsOfExecutors(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		`{"target":"prod","target":"test"}`: `Bad arguments: the key "target" is there twice`,
		`{ "t" : "\u003c" }`:                "deployed",
		``:                                  "deployed",
	} {
		called := &heard{}
		h := enginetest.Build(t, enginetest.Plans{
			Scenes:    []scriptmodel.Scene{{Name: "unused", Turns: calls(terminate("unused"))}},
			Executors: []engine.Executor{asIs{arguments}}, Tools: []tool.Tool{called},
		})

		h.Work(h.Engine)
		started, err := h.Engine.Start(t.Context(), engine.Request{Executor: "asis", Input: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		p := h.Ended(started.PlanID)

		if text(p.Record.Summary) != want || len(called.all()) > 0 != (want == "deployed") {
			t.Errorf("%s: %q, the tool heard %q", arguments, text(p.Record.Summary), called.all())
		}
		if row := h.Step(p).Cycles[0].ToolCalls[0].Record; want == "deployed" &&
			called.all()[0] != "calls "+text(row.Parameters) {
			t.Errorf("on record are %s, the tool heard %q", text(row.Parameters), called.all())
		}
	}
}

// S6: an escape hides no secret, and a redaction that makes two keys one is no call.
func TestRedactedArguments(t *testing.T) {
	t.Parallel()
	called := &heard{}
	h := deploys(t, []tool.Tool{called}, called.name(), `{"a":"\u0070lanted"}`, `{"planted":1,"[secret]":2}`)
	h.Parts.Secret = "planted"

	h.Work(h.Engine)
	p := h.Ended(h.Start("a", "Go."))

	if got := called.all(); len(got) != 1 || got[0] != `calls {"a":"[secret]"}` {
		t.Errorf("the tool heard %q", got)
	}
	if row := h.Step(p).Cycles[1].ToolCalls[0].Record; *row.State != record.Failed ||
		text(row.Result) != `Bad arguments: the key "[secret]" is there twice` {
		t.Errorf("row.State = %s %q", *row.State, text(row.Result))
	}
}

// S6: a number that a human writes into a form is the number that the tool gets.
func TestNumbersOfForms(t *testing.T) {
	t.Parallel()
	asks := tool.CallFunc("asks", "Asks.", func(ctx context.Context, c tool.Call, _ struct{}) (string, error) {
		a, err := c.Ask(ctx, tool.Question{
			Key: "1", Message: "How many?", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
		})
		if err != nil {
			return "", err
		}
		b, err := json.Marshal(a.Values)
		return string(b), err
	})

	for _, number := range []string{"9007199254740993", "2", "1.5"} {
		h := build(t, []scriptmodel.Scene{
			{Name: "s", Turns: calls([]scriptmodel.ToolCall{call("asks", object{})}, terminate("done"))},
		}, map[string]define.Definition{"a": {Tools: []string{"asks"}}}, []tool.Tool{asks})

		h.Work(h.Engine)
		id := h.Start("a", "Go.")
		h.Await(id, record.Waiting)
		if err := h.Decide(h.Waits()[0], record.Submitted, "submit", number); err != nil {
			t.Fatal(err)
		}

		p := h.Await(id, record.Completed)
		if got, want := text(h.Step(p).Cycles[0].ToolCalls[0].Record.Result), fmt.Sprintf(`{"n":%s}`, number); got != want {
			t.Errorf("the tool got %s, want %s", got, want)
		}
	}
}
