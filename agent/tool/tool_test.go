package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/agent/limit"
	"github.com/actlog/actlog/agent/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type place struct {
	City  string   `json:"city" jsonschema:"name of a city"`
	Days  int      `json:"days,omitempty"`
	Tags  []string `json:"tags,omitempty"`
	Where struct {
		Country string `json:"country"`
	} `json:"where,omitzero"`
}

func echo() tool.Tool {
	return tool.Func("weather", "Tells the weather.", func(_ context.Context, in place) (place, error) { return in, nil })
}

// Bad arguments go back to the model as a result that names the field (runtime.md, section 4).
func TestBadArgumentsNameTheField(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ arguments, want string }{
		{`{"days":1}`, "city"},
		{``, "city"},
		{`null`, "not a JSON object"},
		{`["Rome"]`, "not a JSON object"},
		{`{"city":"Rome"`, "not a JSON object"},
		{`{"city":5}`, "city: "},
		{`{"city":"Rome","days":"two"}`, "days: "},
		{`{"city":"Rome","days":2.5}`, "days: "},
		{`{"city":"Rome","days":3.0}`, "days: "}, // a schema accepts it, Go does not
		{`{"city":"Rome","tags":["a",5]}`, "tags[]: "},
		{`{"city":"Rome","where":{}}`, "where: "},
		{`{"city":"Rome","where":{"country":1}}`, "where.country: "},
		{`{"city":"Rome","town":"Ostia"}`, "town"},
		{`{"City":"Rome"}`, "City"},
		{`{"city":[` + strings.Repeat(`"x",`, 10_000) + `"x"]}`, "city: "},
	} {
		r, err := echo().Call(t.Context(), tool.Call{Arguments: json.RawMessage(tt.arguments)})
		if err != nil {
			t.Errorf("%.60s: %v", tt.arguments, err)
		}
		if !r.Failed || !strings.Contains(r.Text, tt.want) || len(r.Text) > 1000 {
			t.Errorf("%.60s: %+v, want %q", tt.arguments, r, tt.want)
		}
	}
}

func TestFunc(t *testing.T) {
	t.Parallel()
	spec := echo().Spec()

	var schema struct {
		Type       string
		Required   []string
		Properties map[string]struct{ Description string }
	}
	if err := json.Unmarshal(spec.Schema, &schema); err != nil {
		t.Fatal(err)
	}

	if schema.Type != "object" || !cmp.Equal(schema.Required, []string{"city"}) ||
		schema.Properties["city"].Description != "name of a city" {
		t.Errorf("schema %s", spec.Schema)
	}

	r, err := echo().Call(t.Context(), tool.Call{Arguments: json.RawMessage(`{"city":"Rome","days":9007199254740993}`)})
	if want := `{"city":"Rome","days":9007199254740993}`; err != nil || r.Failed || r.Text != want ||
		string(r.Data) != want {
		t.Errorf("Call = %+v, %v", r, err)
	}

	type none struct{}
	broken := errors.New("no such city")

	for _, tt := range []struct {
		name string
		tool tool.Tool
		want tool.Result
		err  error
	}{
		{"text", tool.Func("a", "", func(context.Context, none) (string, error) {
			return "sunny", nil
		}), tool.Result{Text: "sunny"}, nil},
		{"result", tool.Func("a", "", func(context.Context, none) (tool.Result, error) {
			return tool.Result{Text: "x", Summary: "y"}, nil
		}), tool.Result{Text: "x", Summary: "y"}, nil},
		{"error", tool.Func("a", "", func(context.Context, none) (string, error) {
			return "", broken
		}), tool.Failure("no such city"), nil},
		{"panic", tool.Func("a", "", func(context.Context, none) (string, error) {
			panic("index out of range")
		}), tool.Failure("The tool failed: index out of range"), nil},
		{"unknown", tool.Func("a", "", func(context.Context, none) (string, error) {
			return "", fmt.Errorf("sent: %w", tool.ErrUnknown)
		}), tool.Result{}, tool.ErrUnknown},
		{"id", tool.CallFunc("a", "", func(_ context.Context, c tool.Call, _ none) (string, error) {
			return c.ID, nil
		}), tool.Result{Text: "call-1"}, nil},
	} {
		got, err := tool.Do(t.Context(), tt.tool, tool.Policy{}, tool.Call{ID: "call-1"}, 0)
		if !errors.Is(err, tt.err) || !cmp.Equal(got, tt.want) {
			t.Errorf("%s: %+v, %v; want %+v, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

// hang waits for the end of its context.
var hang = tool.Func("hang", "", func(ctx context.Context, _ struct{}) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
})

func TestTimeout(t *testing.T) {
	t.Parallel()
	if r, err := tool.Do(t.Context(), hang, tool.Policy{Timeout: time.Millisecond}, tool.Call{}, 0); err != nil ||
		r.Text != "No result within 1ms." || !r.Failed {
		t.Errorf("a tool that reads: %+v, %v", r, err)
	}
	if _, err := tool.Do(t.Context(), hang, tool.Policy{Timeout: time.Millisecond, Writes: true}, tool.Call{},
		0); !errors.Is(err, tool.ErrUnknown) {
		t.Errorf("a tool that writes: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tool.Do(ctx, hang, tool.Policy{}, tool.Call{}, 0); !errors.Is(err, context.Canceled) ||
		errors.Is(err, tool.ErrUnknown) {
		t.Errorf("cancelled: %v", err)
	}
}

// The time in which a human thinks does not count, and an error of Ask ends the call.
func TestAsk(t *testing.T) {
	t.Parallel()
	asks := tool.CallFunc("asks", "", func(ctx context.Context, c tool.Call, _ struct{}) (string, error) {
		a, err := c.Ask(ctx, tool.Question{Key: "1", Message: "Go on?"})
		if err != nil {
			return "", fmt.Errorf("asked: %w", err)
		}

		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(20 * time.Second):
			return string(a.Decision), nil
		}
	})
	answer := func(context.Context, tool.Question) (tool.Answer, error) {
		<-time.After(time.Hour)
		return tool.Answer{Decision: tool.Accept}, nil
	}

	synctest.Test(t, func(t *testing.T) {
		if r, err := tool.Do(t.Context(), asks, tool.Policy{Timeout: 30 * time.Second}, tool.Call{Ask: answer},
			0); err != nil || r.Text != "accept" {
			t.Errorf("tool.Do = %+v, %v", r, err)
		}
		if r, err := tool.Do(t.Context(), asks, tool.Policy{Timeout: 10 * time.Second}, tool.Call{Ask: answer},
			0); err != nil || r.Text != "No result within 10s." {
			t.Errorf("after the answer, time goes on: %+v, %v", r, err)
		}
	})

	parked := errors.New("parked")
	_, err := tool.Do(t.Context(), asks, tool.Policy{},
		tool.Call{Ask: func(context.Context, tool.Question) (tool.Answer, error) {
			return tool.Answer{}, parked
		}}, 0)
	if !errors.Is(err, parked) {
		t.Errorf("%v, want the error of Ask", err)
	}
}

// prepares is a tool that takes a minute to prepare, or fails to.
type prepares struct {
	tool.Tool
	err error
}

func (p prepares) Prepare(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Minute):
		return p.err
	}
}

// The time to prepare does not count, and a tool that cannot be prepared is not called.
func TestPrepare(t *testing.T) {
	t.Parallel()
	called := false
	inner := tool.Func("a", "", func(ctx context.Context, _ struct{}) (string, error) {
		called = true
		return "done", ctx.Err()
	})

	synctest.Test(t, func(t *testing.T) {
		policy := tool.Policy{Timeout: time.Second, Writes: true}
		if r, err := tool.Do(t.Context(), prepares{inner, nil}, policy, tool.Call{}, 0); err != nil || r.Text != "done" {
			t.Errorf("tool.Do = %+v, %v", r, err)
		}

		called = false
		if r, err := tool.Do(t.Context(), prepares{inner, errors.New("no server")}, policy, tool.Call{}, 0); err != nil ||
			!r.Failed || r.Text != "no server" || called {
			t.Errorf("%+v, %v, called %v", r, err, called)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := tool.Do(ctx, prepares{inner, nil}, policy, tool.Call{}, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the end of the context", err)
		}
	})
}

func TestCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 1000)
	if got, want := tool.Cut(long, 101), "\n... (cut: the whole has 2000 bytes)"; len(got) > 101 ||
		!strings.HasSuffix(got, "ä"+want) {
		t.Errorf("tool.Cut(long, 101) = %q", got)
	}
	for _, text := range []string{"", "short", long, "\xff\xfe bad", "a\xc3"} {
		for limit := range 120 {
			got := tool.Cut(text, limit)
			if !utf8.ValidString(got) || len(text) > limit && limit > 40 && len(got) > limit {
				t.Errorf("text = %.10q at %d: %q", text, limit, got)
			}
		}
	}

	big := tool.Func("big", "", func(context.Context, struct{}) ([]string, error) { return []string{long}, nil })
	if r, err := tool.Do(t.Context(), big, tool.Policy{}, tool.Call{}, 200); err != nil || len(r.Text) > 200 ||
		r.Data != nil {
		t.Errorf("tool.Do = %+v, %v", r, err)
	}
}

func TestPolicyForms(t *testing.T) {
	t.Parallel()
	all := tool.Policy{
		OnUnknown: tool.Ask, Approval: true, Writes: true, Exclusive: true, Timeout: 30 * time.Second, WaitTimeout: time.Hour,
	}
	apart := tool.Policy{Approval: true, NotStarter: true}
	again := tool.Policy{Retry: &tool.Retries{
		Tries: 3, From: time.Minute, Factor: 1.5, Most: time.Hour, On: []tool.FailureKind{tool.OnTimeout, tool.OnTool},
	}}
	for _, p := range []tool.Policy{{}, all, apart, {Timeout: 1500 * time.Millisecond}, again} {
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		y, err := yaml.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}

		var fromJSON, fromYAML tool.Policy
		if err := errors.Join(json.Unmarshal(b, &fromJSON), yaml.Unmarshal(y, &fromYAML)); err != nil ||
			!cmp.Equal(fromJSON, p) || !cmp.Equal(fromYAML, p) {
			t.Errorf("json.Marshal(p) = %s, %s: %+v, %+v, %v; want %+v", b, y, fromJSON, fromYAML, err, p)
		}
	}

	for _, tt := range []struct{ text, field string }{
		{`{"onUnknown":"maybe"}`, `onUnknown: "maybe"`},
		{`{"approval":"yes"}`, "approval: "},
		{`{"approval":{}}`, "approval: "},
		{`{"approval":{"notStarter":"yes"}}`, "approval: "},
		{`{"approval":{"notStarter":true,"by":"ann"}}`, "approval: "},
		{`{"approval":[true]}`, "approval: "},
		{`{"notStarter":true}`, "notStarter: "},
		{`{"approvals":true}`, "approvals: "},
		{`{"timeout":"soon"}`, "timeout: "},
		{`{"timeout":30}`, "timeout: "},
		{`{"waitTimeout":"-1s"}`, "waitTimeout: "},
		{`{"tools":"files.*"}`, "tools: "},
		{`{"maxConcurrent":2}`, "maxConcurrent: "},
		{`{"maxPerMinute":2}`, "maxPerMinute: "},
		{`{"retry":3}`, "retry: want a mapping"},
		{`{"retry":{}}`, "retry.tries: "},
		{`{"retry":{"tries":0}}`, "retry.tries: "},
		{`{"retry":{"tries":101}}`, "retry.tries: "},
		{`{"retry":{"tries":"many"}}`, "retry.tries: "},
		{`{"retry":{"tries":2,"pause":"1s"}}`, "retry.pause: no such field of a retry"},
		{`{"retry":{"tries":2,"from":"soon"}}`, "retry.from: "},
		{`{"retry":{"tries":2,"factor":0.5}}`, "retry.factor: "},
		{`{"retry":{"tries":2,"most":"-1s"}}`, "retry.most: "},
		{`{"retry":{"tries":2,"from":"1m","most":"1s"}}`, "retry.most: it is less than the first pause"},
		{`{"retry":{"tries":2,"on":["crash"]}}`, `retry.on: "crash" is not tool or timeout`},
	} {
		var p tool.Policy
		if err := json.Unmarshal([]byte(tt.text), &p); err == nil || !strings.Contains(err.Error(), tt.field) {
			t.Errorf("JSON %s: %v", tt.text, err)
		}
		if err := yaml.Unmarshal([]byte(tt.text), &p); err == nil || !strings.Contains(err.Error(), tt.field) {
			t.Errorf("YAML %s: %v", tt.text, err)
		}
	}

	for _, text := range []string{
		`{"approval":true}`, `{"tools":"a b"}`, `null`, `{"tools":"a","onUnknown":""}`, `{"tools":"a","maxConcurrent":0}`,
		`{"tools":"a","maxPerMinute":100001}`,
	} {
		var r []tool.Rule
		if err := yaml.Unmarshal([]byte("["+text+"]"), &r); err == nil && text != "null" {
			t.Errorf("rule %s: no error", text)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	var rules tool.Rules
	if err := yaml.Unmarshal([]byte(`
- {tools: "git.commit", approval: false}
- {tools: "pay-*", onUnknown: ask, timeout: 30s, maxConcurrent: 2, maxPerMinute: 60}
- {tools: "*", exclusive: true}
`), &rules); err != nil {
		t.Fatal(err)
	}

	writes := tool.Policy{Approval: true, Writes: true, Timeout: time.Second}
	for name, want := range map[string]tool.Policy{
		"git.commit": {Writes: true, Timeout: time.Second},
		"pay-card":   {OnUnknown: tool.Ask, Approval: true, Writes: true, Timeout: 30 * time.Second},
		"git.status": {Approval: true, Writes: true, Timeout: time.Second, Exclusive: true},
	} {
		if got := rules.Policy(name, writes); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}

	// They are written as they are read.
	text, err := json.Marshal(rules)
	if want := `[{"tools":"git.commit","approval":false},{"tools":"pay-*","onUnknown":"ask","timeout":"30s","maxConcurrent":2,"maxPerMinute":60},{"tools":"*","exclusive":true}]`; err != nil || string(text) != want {
		t.Errorf("json.Marshal(rules) = %s, want %s, %v", text, want, err)
	}
	var back tool.Rules
	if err := json.Unmarshal(text, &back); err != nil || !cmp.Equal(back, rules) {
		t.Errorf("back = %+v %v", back, err)
	}
}

// S3: no rule that is not meant for a server makes a tool of it looser, however it calls the tool. A rule says that a
// tool of a server is read-only, or needs no approval; what the server says can only make it stricter.
func TestRulesOfServers(t *testing.T) {
	t.Parallel()
	asks := tool.Policy{Approval: true, Writes: true, Timeout: time.Second}
	untrusted := tool.Spec{Name: "web-find", Server: "web", Untrusted: true, Policy: asks}

	destructive := untrusted
	destructive.Destructive = true
	trusted := destructive
	trusted.Untrusted = false
	own := tool.Spec{Name: "web-find", Policy: asks}
	silent := trusted
	silent.Destructive = false

	for _, tt := range []struct {
		rule             string
		of               tool.Spec
		approval, writes bool
		onUnknown        tool.OnUnknown
	}{
		{`{tools: other, approval: false}`, untrusted, true, true, ""},
		{`{tools: "web-*", timeout: 1m}`, untrusted, true, true, ""},
		{`{tools: "web-*", approval: false}`, untrusted, false, true, ""},
		{`{tools: web-find, approval: false}`, untrusted, false, true, ""},
		{`{tools: "*", approval: false}`, untrusted, false, true, ""},
		{`{tools: "web-*", writes: false}`, untrusted, false, false, ""},
		{`{tools: "web-*", writes: false, approval: true}`, untrusted, true, false, ""},
		{`{tools: "web-*", writes: true}`, untrusted, true, true, ""},
		{`{tools: "web-*", onUnknown: retry}`, untrusted, true, true, tool.Retry},
		{`{tools: "web-*", writes: false}`, destructive, true, false, ""},
		{`{tools: "web-*", approval: false}`, destructive, false, true, ""},
		{`{tools: "web-*", writes: false, approval: false}`, destructive, false, false, ""},
		// patterns that are meant for other tools
		{`{tools: "*-find", approval: false}`, untrusted, true, true, ""},
		{`{tools: "*find*", approval: false, writes: false, onUnknown: retry}`, untrusted, true, true, ""},
		{`{tools: "we*", approval: false}`, untrusted, true, true, ""},
		{`{tools: "web*", writes: false}`, untrusted, true, true, ""},
		{`{tools: "**", approval: false}`, untrusted, true, true, ""},
		{`{tools: "*-find", onUnknown: ask}`, untrusted, true, true, tool.Ask},
		// others
		{`{tools: "*-find", approval: false}`, trusted, false, true, ""},
		{`{tools: "*-find", writes: false}`, trusted, true, false, ""},
		{`{tools: "*-find", writes: false}`, silent, false, false, ""},
		{`{tools: "*-find", writes: false}`, own, true, false, ""},
		{`{tools: "*-find", approval: false}`, own, false, true, ""},
	} {
		var rules tool.Rules
		if err := yaml.Unmarshal([]byte("["+tt.rule+"]"), &rules); err != nil {
			t.Fatal(err)
		}
		if got := rules.Of(tt.of); got.Approval != tt.approval || got.Writes != tt.writes || got.OnUnknown != tt.onUnknown {
			t.Errorf("%s for %+v: %+v", tt.rule, tt.of, got)
		}
	}

	// It is stricter to make a call once than several times, and to limit the calls.
	for pattern, want := range map[string]int{"*-find": 0, "web-*": 3, "*": 3} {
		rules := tool.Rules{{
			Tools: pattern, Retry: &tool.Retries{Tries: 3}, Limits: limit.Limits{Concurrent: 1},
		}}
		got := 0
		if r := rules.Of(untrusted).Retry; r != nil {
			got = r.Tries
		}
		if tools, l := rules.Limits("web-find"); got != want || tools != pattern || l.Concurrent != 1 {
			t.Errorf("%s: %d tries, limits %+v with %s", pattern, got, l, tools)
		}
	}

	if got := (tool.Rules{}).Of(untrusted); got != asks {
		t.Errorf("without rules: %+v", got)
	}
}

// S3: of servers a and a-b, the tool a-b-c is one of a-b.
func TestServerOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a-x": "a", "a-b-x": "a-b", "a-bx": "a", "a-b": "a", "b-x": "", "a": "", "a.b": "", "": "",
	} {
		if got := tool.ServerOf(name, []string{"a", "a-b", "c"}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"files.read_file", "files.read_file", true},
		{"files.*", "files.read_file", true},
		{"files.*", "files", false},
		{"files.*", "my.files.read", false},
		{"*", "anything", true},
		{"*.read", "files.read", true},
		{"*.read", "files.reader", false},
		{"a*b*a", "abba", true},
		{"a*a", "a", false},
		{"ab*ba", "aba", false},
		{"*-*-x", "s-t-x", true},
		{"", "", true},
	} {
		if got := tool.Match(tt.pattern, tt.name); got != tt.want {
			t.Errorf("Match(%q, %q) = %v", tt.pattern, tt.name, got)
		}
	}
}

func named(names ...string) (tools []tool.Tool) {
	for _, name := range names {
		tools = append(tools, tool.Func(name, "", func(context.Context, struct{}) (string, error) { return "", nil }))
	}
	return tools
}

func TestSet(t *testing.T) {
	t.Parallel()
	s, err := tool.NewSet(named("files.read_file", "files.write_file", "git.status", "s-t")...)
	if err != nil {
		t.Fatal(err)
	}

	some, err := s.Select("git.status", "files.*", "tests.*")
	if want := []string{"files.read_file", "files.write_file", "git.status"}; err != nil ||
		!cmp.Equal(some.Names(), want) {
		t.Errorf("some = %v, %v", some, err)
	}
	if _, ok := some.Get("s-t"); ok {
		t.Error("a tool that was not selected is there")
	}

	if _, err := s.Select("files.read", "no such", "nobody"); err == nil ||
		!strings.Contains(err.Error(), "no tool has the name files.read;") ||
		!strings.Contains(err.Error(), `"no such"`) || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("%v, want all names that nobody has", err)
	}

	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{"a.b", "a-b"}, "a.b and a-b are both a-b"},
		{[]string{"a", "a"}, "two tools have the name a"},
		{[]string{""}, "needs a name"},
		{[]string{"a b"}, `"a b" may only`},
		{[]string{"ä"}, "may only"},
		{[]string{strings.Repeat("x", 65)}, "longer than 64"},
	} {
		if _, err := tool.NewSet(named(tt.names...)...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.names, err, tt.want)
		}
	}
}

func TestTouches(t *testing.T) {
	t.Parallel()
	move := tool.Func("move", "", func(context.Context, place) (string, error) { return "", nil },
		tool.WithTouches(func(_ context.Context, in place) ([]string, error) { return []string{in.City}, nil }))
	toucher, ok := move.(tool.Toucher)
	if !ok {
		t.Fatal("not a Toucher")
	}

	if got, err := toucher.Touches(t.Context(), tool.Call{Arguments: json.RawMessage(`{"city":"Rome"}`)}); err != nil ||
		!cmp.Equal(got, []string{"Rome"}) {
		t.Errorf("toucher.Touches = %v, %v", got, err)
	}
	if _, err := toucher.Touches(t.Context(), tool.Call{}); err == nil || !strings.Contains(err.Error(), "city") {
		t.Errorf("%v, want the field", err)
	}
	if _, ok := echo().(tool.Toucher); ok {
		t.Error("a tool without WithTouches is a Toucher")
	}
}

// S9: a rule says who may not approve, and is written as it is read. What it does not say stays as the tool has it.
func TestRulesAboutTheStarter(t *testing.T) {
	t.Parallel()
	const text = `[{"tools":"a","approval":{"notStarter":true}},{"tools":"b","approval":{"notStarter":false}},{"tools":"c","approval":true},{"tools":"d","approval":false}]`
	var rules tool.Rules
	if err := json.Unmarshal([]byte(text), &rules); err != nil {
		t.Fatal(err)
	}

	plain, apart := tool.Policy{}, tool.Policy{Approval: true, NotStarter: true}
	for name, want := range map[string][2]tool.Policy{
		"a": {apart, apart}, "b": {{Approval: true}, {Approval: true}}, "c": {{Approval: true}, apart},
		"d": {{}, {NotStarter: true}}, "e": {plain, apart},
	} {
		if got := [2]tool.Policy{rules.Policy(name, plain), rules.Policy(name, apart)}; got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}

	if back, err := json.Marshal(rules); err != nil || string(back) != text {
		t.Errorf("back = %s, want %s, %v", back, text, err)
	}
	if got, err := json.Marshal(apart); err != nil || string(got) != `{"approval":{"notStarter":true}}` {
		t.Errorf("json.Marshal(apart) = %s %v", got, err)
	}
}
