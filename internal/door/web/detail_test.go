package web_test

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// at returns the path of a row, looked at in some way.
func at(plan, row string, look ...string) string {
	q := url.Values{"at": {row}}
	for i := 0; i < len(look); i += 2 {
		q.Set(look[i], look[i+1])
	}
	return "/runs/" + url.PathEscape(plan) + "?" + q.Encode()
}

// link returns the address of the link with a text in an element.
func (p *page) link(in *html.Node, name string) string {
	p.t.Helper()
	for n := range in.Descendants() {
		if n.Type == html.ElementNode && n.Data == "a" && text(n) == name {
			href, _, _ := strings.Cut(attr(n, "href"), "#")
			return href
		}
	}
	p.t.Fatalf("there is no link %q in %s", name, text(in))
	return ""
}

// pre returns the texts that an element shows, as they are.
func pre(in *html.Node) (all []string) {
	for n := range in.Descendants() {
		if n.Type == html.ElementNode && n.Data == "pre" {
			var b strings.Builder
			for d := range n.Descendants() {
				if d.Type == html.TextNode {
					b.WriteString(d.Data)
				}
			}
			all = append(all, b.String())
		}
	}
	return all
}

func (p *page) detail() *html.Node {
	p.t.Helper()
	return p.one("aria-label", "Detail")
}

func (p *page) has(parts ...string) {
	p.t.Helper()
	for _, part := range parts {
		if got := text(p.detail()); !strings.Contains(got, part) {
			p.t.Errorf("the detail lacks %q: %s", part, got)
		}
	}
}

func (p *page) lacks(parts ...string) {
	p.t.Helper()
	for _, part := range parts {
		if got := text(p.detail()); strings.Contains(got, part) {
			p.t.Errorf("the detail has %q: %s", part, got)
		}
	}
}

// TestCycle: a cycle is a chat. Messages that the cycle before had, its answer included, are folded. Tool calls stand
// below the reply that asked for them.
func TestCycle(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	cycle := func(seq int64, input, output string) *record.ThinkAct {
		return &record.ThinkAct{
			RootPlanID: "p", StepID: "s", Seq: seq, ThinkInput: &input, ThinkOutput: &output, InputTokens: new(int64(1812)),
			State: new(record.Completed),
		}
	}
	first := `{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"How many?\nCount."}]}`

	storetest.Write(t, s.store,
		&record.Plan{RootPlanID: "p", CurrentPlanID: "p", Title: new("Count")},
		&record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "s"},
		cycle(
			0, "["+first+"]", `[{"role":"assistant","parts":[{"type":"reasoning","content":"Hm."},{"type":"text","content":"I look."},{"type":"tool_call","id":"c1","name":"look","arguments":{"n":1}},{"type":"tool_call","id":"c9","name":"never","arguments":"gone"}]}]`,
		),
		cycle(
			3, "["+first+`,{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","function":{"name":"look","arguments":"{\"n\":1}"}},{"id":"c9","function":{"name":"never","arguments":"gone"}}]},{"role":"tool","tool_call_id":"c1","content":"seven"},{"strange":12345678901234567890}]`, "There are seven.",
		),
		&record.ActTool{
			RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "x", ProviderCallID: new("c1"), Name: new("look"),
			Parameters: new(`{"n":1}`), Result: new("seven"), State: new(record.Completed), Attempt: new(int64(2)),
			StartTime: storetest.At(0), EndTime: storetest.At(3),
		},
		&record.Plan{
			RootPlanID: "p", CurrentPlanID: "sub", ParentPlanID: new("p"), ToolCallID: new("x"), Title: new("Look closer"),
		})

	p := s.get(at("p", "cycle:s/0"), http.StatusOK)
	p.has("input tokens 1,812", "system Be brief.", "user How many? Count.", "assistant reasoning Hm.", "I look.",
		"calls never gone", "calls look ✓ completed attempt 2 3s started Look closer ○ pending parameters {\"n\": 1}",
		"result seven")
	p.lacks("same as", "calls look {")
	if to := p.link(p.one("class", "calls"), "Look closer"); to != "/runs/p?at=plan%3Asub" {
		t.Errorf("the sub-plan is at %s", to)
	}

	if texts := pre(p.detail()); !slices.Contains(texts, "How many?\nCount.") {
		t.Errorf("texts = %q", texts)
	}
	if to := p.link(p.one("class", "calls"), "look"); to != "/runs/p?at=call%3As%2F0%2Fx" {
		t.Errorf("the call is at %s", to)
	}

	p = s.get(at("p", "cycle:s/3"), http.StatusOK)
	p.has("3 messages same as cycle 1 system: Be brief.", "tool result of look seven",
		`{"strange": 12345678901234567890}`, "assistant There are seven.")
	p.lacks("How many?", "I look.")

	p = s.get(p.link(p.detail(), "▸ 3 messages"), http.StatusOK)
	p.has("system same as cycle 1 Be brief.", "How many?", "assistant same as cycle 1 I look.",
		"tool result of look seven")
	p = s.get(p.link(p.detail(), "Fold earlier messages"), http.StatusOK)
	p.has("3 messages")
}

// TestManyCalls: of many tool calls, a cycle shows the first ones, and of their texts the beginnings.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	changes := []record.Change{&record.Plan{RootPlanID: "p", CurrentPlanID: "p"}}
	for i := range 102 {
		changes = append(changes, &record.ActTool{
			RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: fmt.Sprintf("%03d", i), Name: new(fmt.Sprint("tool", i)),
			Result: new(strings.Repeat("ä", 1_950+50*i)),
		})
	}
	storetest.Write(t, s.store, changes...)

	p := s.get(at("p", "cycle:s/0"), http.StatusOK)
	p.has("tool99", "2 calls more, see the tree.")
	p.lacks("tool100")

	calls := p.one("class", "calls")
	for i, shown := range pre(calls) {
		if want := strings.Repeat("ä", min(1_950+50*i, 2_000)); shown != want {
			t.Fatalf("call %d shows %d bytes, want %d", i, len(shown), len(want))
		}
	}

	if n := strings.Count(text(calls), "This is the beginning. All of it"); n != 98 {
		t.Errorf("%d are cut", n)
	}
	if to := p.link(calls, "All of it"); to != "/runs/p?at=call%3As%2F0%2F002" {
		t.Errorf("all of it is at %s", to)
	}
}

// TestRuntimeCycle: the runtime records what is new in a request, and the message of the model beside its text. Neither
// is shown twice.
func TestRuntimeCycle(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})

	storetest.Write(t, s.store, &record.Plan{RootPlanID: "p", CurrentPlanID: "p"},
		&record.ThinkAct{
			RootPlanID: "p", StepID: "s", Seq: 0, ThinkInput: new(`[{"role":"user","parts":[{"text":"Go."}]}]`),
			ThinkOutput: new("I look."), Message: json.RawMessage(
				`{"role":"assistant","parts":[{"text":"I look."},{"call":{"id":"c1","name":"look","arguments":"{}"}}]}`,
			),
		},
		&record.ThinkAct{
			RootPlanID: "p", StepID: "s", Seq: 1,
			ThinkInput:  new(`[{"role":"tool","parts":[{"result":{"callId":"c1","name":"look","text":"boom","failed":true}}]}]`),
			ThinkOutput: new("Done."),
		},
		&record.ActTool{
			RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "s-0-0", ProviderCallID: new("c1"), Name: new("look"),
			Parameters: new("{}"),
		})

	p := s.get(at("p", "cycle:s/0"), http.StatusOK)
	p.has("user Go.", "assistant I look.", "calls look")
	if n := strings.Count(text(p.detail()), "I look."); n != 1 {
		t.Errorf("the answer is there %d times: %s", n, text(p.detail()))
	}
	s.get(at("p", "cycle:s/1"), http.StatusOK).has("tool error of look boom", "assistant Done.")
}

// TestViews: a row is shown for reading, as it is, or as the API has it. The view that was chosen is the next one, too.
func TestViews(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	raw := "{\"n\":12345678901234567890,\r\n \"s\":\"<b>\u202e&amp;\",\t\"more\":[1,2,{\"long\":\"" +
		strings.Repeat("ä", 80) + "\"}], \"e\":{}}"
	storetest.Write(t, s.store, &record.Plan{RootPlanID: "p", CurrentPlanID: "p"},
		&record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: "s", AgentRequest: &raw, Result: new("\n two\x1b[31m\r\n"),
			Metadata: json.RawMessage(`{"k":1.0}`),
		})

	p := s.get(at("p", "step:s"), http.StatusOK)
	want := "{\n  \"n\": 12345678901234567890,\n  \"s\": \"<b>\u202e&amp;\",\n  \"more\": [\n    1,\n    2,\n    {\n" +
		"      \"long\": \"" + strings.Repeat("ä", 80) + "\"\n    }\n  ],\n  \"e\": {}\n}"
	if texts := pre(p.detail()); !slices.Equal(texts, []string{want, "\n two\x1b[31m\r\n", `{"k": 1.0}`}) {
		t.Errorf("for reading, they are %q", texts)
	}

	p = s.get(p.link(p.detail(), "Raw"), http.StatusOK)
	if texts := pre(p.detail()); !slices.Equal(texts, []string{raw, "\n two\x1b[31m\r\n", `{"k":1.0}`}) {
		t.Errorf("raw, they are %q", texts)
	}

	p = s.get(p.link(p.detail(), "JSON"), http.StatusOK)
	texts := pre(p.detail())
	var shown, told map[string]any
	if err := json.Unmarshal([]byte(texts[0]), &shown); err != nil || len(texts) != 1 {
		t.Fatalf("%q: %v", texts, err)
	}

	body, err := io.ReadAll(s.send("GET", "/api/v1/steps/s?root=p", "").Body)
	if err := firstOf(err, json.Unmarshal(body, &told)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"agentRequest", "stepId", "state", "attempts", "truncated", "completedThinkActStepsCount",
	} {
		if fmt.Sprint(shown[name]) != fmt.Sprint(told[name]) {
			t.Errorf("%s is %v, and %v of the API", name, shown[name], told[name])
		}
	}

	chosen := s.send("GET", at("p", "step:s", "view", "raw"), "").Cookies()[0]
	if chosen.Name != "actlog-view" || !chosen.HttpOnly || chosen.SameSite != http.SameSiteLaxMode {
		t.Errorf("chosen = %+v", chosen)
	}
	for value, heading := range map[string]string{"raw": "agentRequest", "json": "record", "<b>": "goal"} {
		got, err := io.ReadAll(s.send("GET", at("p", "step:s"), "", "Cookie", "actlog-view="+value).Body)
		if err != nil || !strings.Contains(string(got), `role="group" aria-label="`+heading+`"`) {
			t.Errorf("after %s, there is no %q", value, heading)
		}
	}

	s.get(at("p", "step:s", "view", "loud"), http.StatusBadRequest)
	s.get(at("p", "step:s", "earlier", "perhaps"), http.StatusBadRequest)
	s.get(at("p", "step:s", "colour", "red"), http.StatusBadRequest)
}

// TestEscapes: for reading, escapes are the characters that they stand for, also beside NaN, in a call and in the chat
// of its cycle. What shows nothing or turns the direction of text stays escaped. The record, Raw, Copy and the API have
// what was sent.
func TestEscapes(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})

	for _, tt := range []struct{ sent, want string }{
		{`{"city":"\u6771\u4eac","rate":NaN}`, `{"city": "東京", "rate": NaN}`},
		{`[Infinity,-Infinity,{"NaN":"NaN"}]`, `[Infinity, -Infinity, {"NaN": "NaN"}]`},
		{
			`{"\u540d":"\u0645\u0631 \u00e9\u00A0e\u0301 \u20ac\u3000\u0939\u093f"}`, "{\"名\": \"مر é\u00a0e\u0301 €\u3000हि\"}",
		},
		{
			`["\ud83d\udc69\u200d\ud83d\udcbb","\u2764\uFE0F","1\ufe0f\u20e3","\ud83c\uddf3\ud83c\uddf4","\ud83d\udc4d\ud83c\udffd"]`, "[\"👩\u200d💻\", \"❤\ufe0f\", \"1\ufe0f\u20e3\", \"🇳🇴\", \"👍🏽\"]",
		},
		{`["\u003cb\u003e\u0026\u0027"]`, `["<b>&'"]`},
		{
			`["a\u202eb","\u200f\u2066\u061c","\u0000\u001b\u007f\u0085"]`,
			`["a\u202eb", "\u200f\u2066\u061c", "\u0000\u001b\u007f\u0085"]`,
		},
		{
			`["\u2028\u200b\ufeff\u00ad","a\u200db","a\ufe0f","\u3164"]`,
			`["\u2028\u200b\ufeff\u00ad", "a\u200db", "a\ufe0f", "\u3164"]`,
		},
		{
			`["\u0022,\u005c","\\u6771","\\\u6771\\","\ud83d","\ud83dx\udc69","\n\t"]`,
			`["\u0022,\u005c", "\\u6771", "\\東\\", "\ud83d", "\ud83dx\udc69", "\n\t"]`,
		},
		{`"\u6771\u4eac"`, `"東京"`},
		{`[{"role":"user","text":"\u6771\u4e`, `[{"role":"user","text":"東\u4e`},
		{`say \u6771, "\u6771"`, `say \u6771, "\u6771"`},
		{`{"a":\u6771}`, `{"a":\u6771}`},
	} {
		storetest.Write(t, s.store, &record.Plan{RootPlanID: "p", CurrentPlanID: "p"},
			&record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "s"},
			&record.ThinkAct{
				RootPlanID: "p", StepID: "s", Rev: new(int64(1)),
				ThinkOutput: new(`[{"role":"assistant","tool_calls":[{"id":"x","name":"look","args":"` + "?" + `"}]}]`),
			},
			&record.ActTool{
				RootPlanID: "p", StepID: "s", ToolCallID: "t", Name: new("look"), Parameters: &tt.sent, Result: &tt.sent,
			})

		p := s.get(at("p", "call:s/0/t", "view", "readable"), http.StatusOK)
		if texts := pre(p.detail()); !slices.Equal(texts, []string{tt.want, tt.want}) {
			t.Errorf("for reading, %s is %q", tt.sent, texts)
		}
		if tt.want != tt.sent {
			copied := s.send("GET", attr(p.all("class", "copy")[0], "data-from"), "")
			if body, err := io.ReadAll(copied.Body); err != nil || string(body) != tt.sent {
				t.Errorf("copied, %s is %s, %v", tt.sent, body, err)
			}
		}

		if texts := pre(
			s.get(at("p", "call:s/0/t", "view", "raw"), http.StatusOK).detail(),
		); !slices.Equal(texts, []string{tt.sent, tt.sent}) {
			t.Errorf("raw, %s is %q", tt.sent, texts)
		}
		if texts := pre(
			s.get(at("p", "cycle:s/0", "view", "readable"), http.StatusOK).detail(),
		); !slices.Contains(texts, tt.want) {
			t.Errorf("in its cycle, %s is %q", tt.sent, texts)
		}
	}
}

// TestNearlyJSONInAChat: a prompt with NaN or one that was cut is a chat, too.
func TestNearlyJSONInAChat(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	for i, prompt := range []string{
		`[{"role":"user","content":"Which lamp?","x":NaN}]`, `[{"role":"user","content":"Which lamp?"},{"role":"assis`,
		`{"messages":[{"role":"user","parts":[{"type":"text","content":"Which lamp?\u67`,
	} {
		id := fmt.Sprint("p", i)
		storetest.Write(t, s.store, &record.Plan{RootPlanID: id, CurrentPlanID: id},
			&record.AgentExecution{RootPlanID: id, PlanID: id, StepID: "s"}, &record.ThinkAct{
				RootPlanID: id, StepID: "s", ThinkInput: &prompt,
			})
		if texts := pre(s.get(at(id, "cycle:s/0"), http.StatusOK).detail()); len(texts) == 0 || texts[0] != "Which lamp?" {
			t.Errorf("%s is %q", prompt, texts)
		}
	}
}

func firstOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestLongText: of a long text the detail shows the beginning, and says so. On request it shows all of it, unless it is
// too long for that. It can be downloaded as it is.
func TestLongText(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what a page shows")
	t.Parallel()
	s := open(t, httpd.Config{})
	// 1.9 MiB each; indented, the list has 5.7
	long, list := strings.Repeat("<b>ä</b>\n", 200_000), "["+strings.Repeat("1,", 1_000_000)+"1]"
	storetest.Write(t, s.store, &record.Plan{
		RootPlanID: "p", CurrentPlanID: "p", Title: new("long"), Summary: &long, UserRequest: &list,
	})

	p := s.get("/runs/p", http.StatusOK)
	notes := p.all("class", "note")
	if len(notes) != 2 || text(notes[1]) != "The first 64 KiB of 1.9 MiB. Show all Download" ||
		text(notes[0]) != text(notes[1]) {
		t.Fatalf("%d notes, %q", len(notes), text(notes[0]))
	}

	got := s.send("GET", p.link(notes[1], "Download"), "")
	body, err := io.ReadAll(got.Body)
	if err != nil || string(body) != long || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/plain") ||
		!strings.Contains(got.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%d bytes, %v, %v", len(body), got.Header, err)
	}

	if kind, of, err := mime.ParseMediaType(got.Header.Get("Content-Disposition")); err != nil || kind != "attachment" ||
		of["filename"] != "plan-p-summary.txt" {
		t.Errorf("it is %s %v, %v", kind, of, err)
	}

	whole := s.get(p.link(notes[1], "Show all"), http.StatusOK)
	if texts := pre(whole.detail()); !slices.Contains(texts, long) {
		t.Error("it is not there as a whole")
	}
	whole = s.get(p.link(notes[0], "Show all"), http.StatusOK)
	if note := text(whole.all("class", "note")[0]); note != "The first 4.0 MiB of 1.9 MiB. Download" {
		t.Errorf("note = %v", note)
	}

	s.get("/runs/p/text?at=plan:p&name=none", http.StatusBadRequest)
	s.get("/runs/p/text?name=summary", http.StatusBadRequest)
}

// TestCutText: of a text whose end was cut when it was recorded, the detail says so.
func TestCutText(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	storetest.Write(t, s.store, &record.Plan{
		RootPlanID: "p", CurrentPlanID: "p", Title: new("cut"), Summary: new(strings.Repeat("x", record.MaxTextBytes+1)),
		UserRequest: new("short"),
	})

	p := s.get("/runs/p", http.StatusOK)
	p.has("The first 64 KiB of 4.0 MiB. Show all Download", "It was longer: its end was cut when it was recorded.")
	if n := len(p.all("class", "note")); n != 2 {
		t.Errorf("%d notes", n)
	}
}

// TestStartedBy: a run that says what started it and that plan, and its call, link to each other. It is in the tree of
// neither.
func TestStartedBy(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run")
	rows := func() int { return len(s.get("/runs/run", http.StatusOK).all("role", "treeitem")) }
	before := rows()

	by := record.StartedBy{PlanID: "run", ToolCallID: "c/1"}
	storetest.Write(t, s.store, &record.Plan{
		RootPlanID: "beside", CurrentPlanID: "beside", Title: new("The inner agent"), StartedBy: by.JSON(),
		State: new(record.Completed),
	})

	p := s.get(at("beside", "plan:beside"), http.StatusOK)
	if to := p.link(p.detail(), "plan run"); to != "/runs/run" {
		t.Errorf("what started it is at %s", to)
	}
	for _, row := range []string{"plan:run", "call:run-r/0/c%2F1"} {
		p := s.get(at("run", row), http.StatusOK)
		if to := p.link(p.detail(), "The inner agent"); to != "/runs/beside" {
			t.Errorf("of %s, what it started is at %s", row, to)
		}
	}

	s.get(at("run", "step:run-r"), http.StatusOK).lacks("The inner agent")
	if after := rows(); after != before || before == 0 {
		t.Errorf("the tree of the run has %d rows, %d before", after, before)
	}
}

// TestFacts: what a row is, in short, with links to what it belongs to.
func TestFacts(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run")

	storetest.Write(t, s.store,
		&record.Plan{
			RootPlanID: "run", CurrentPlanID: "run", ConversationID: new("a/b"), UserRequest: new("Find them."),
			Summary: new("None."), Tags: []string{"x", "y"},
		},
		&record.AgentExecution{
			RootPlanID: "run", PlanID: "run", StepID: "run-r", AgentRequest: new("Look."), Result: new("**Seen.**"),
			ModelName: new("m1"),
		},
		&record.ActTool{
			RootPlanID: "run", StepID: "run-counter", Seq: 2, ToolCallID: "x", Attempt: new(int64(3)),
			State: new(record.Running),
		},
		&record.Wait{
			RootPlanID: "run", PlanID: "run", WaitID: "w", StepID: new("run-r"), Title: new("Delete?"),
			FormDescription: new("Two would go."), Type: new(record.WaitUserInput), State: new(record.Rejected),
			Decision: new("no"), DecidedBy: new("ann"), DecisionText: new("not today"), StartTime: storetest.At(0),
			EndTime: storetest.At(90),
		})

	p := s.get(at("run", "plan:run"), http.StatusOK)
	p.has("tags x, y", "goal Find them.", "result None.", "model calls 1", "tool calls 2", "input tokens 1,812")
	if to := p.link(p.detail(), "a/b"); to != "/conversations/a%2Fb" {
		t.Errorf("the session is at %s", to)
	}

	p = s.get(at("run", "plan:run-sub"), http.StatusOK)
	if to := p.link(p.detail(), "call search"); to != "/runs/run?at=call%3Arun-r%2F0%2Fc%252F1" {
		t.Errorf("the call is at %s", to)
	}
	s.get("/runs/run-sub?at=plan:run-sub", http.StatusOK).has("started by call search")
	p = s.get(at("run", "step:run-r"), http.StatusOK)
	p.has("goal Look.", "answer **Seen.**", "model m1", "tools search ✗1", "tool calls 1")

	p = s.get(at("run", "call:run-r/0/c%2F1"), http.StatusOK)
	if to := p.link(p.detail(), "search"); to != "/runs/run?at=plan%3Arun-sub" {
		t.Errorf("the sub-plan is at %s", to)
	}
	if to := p.link(p.detail(), "cycle 1"); to != "/runs/run?at=cycle%3Arun-r%2F0" {
		t.Errorf("the cycle is at %s", to)
	}
	s.get(at("run", "call:run-counter/2/x"), http.StatusOK).has("○ left behind call attempt 3",
		"attempt 2 failed, 10s, timeout, no answer within 10 s")

	p = s.get(at("run", "wait:w"), http.StatusOK)
	p.has("question Delete?", "explanation Two would go.", "asked by step researcher", "waited 1m30s", "answered by ann",
		"answer no", "remark not today")
}

// TestDropped: where cycles and tool calls were dropped for their age, the page says so, and has the figures.
func TestDropped(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run")
	storetest.Age(t, s.store, storetest.OldMonday, "run")
	keeper := storetest.Upkeep(t, s.store, upkeep.Config{DetailDays: 30})
	keeper.Close() // while a round of its own is dropping, Run leaves the detail to that
	if err := keeper.Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	const note = "The cycles and tool calls were dropped for their age. The figures stay."
	s.get(at("run", "step:run-r"), http.StatusOK).has(note, "input tokens 1,812", "model calls 1")
	s.get(at("run", "plan:run"), http.StatusOK).has(note)
	s.get(at("run", "step:run-triage"), http.StatusOK).lacks("dropped")
	if got := text(
		s.get(at("run", "cycle:run-r/0"), http.StatusOK).one("role", "status"),
	); got != "This run has no row cycle:run-r/0 . Cycles and tool calls of this run were dropped for their age." {
		t.Errorf("text = %v", got)
	}
}

// TestMarkdown: a text is shown as Markdown when that is asked for. It loads nothing, runs nothing, and says where it
// leads.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	mark := "# Title\n\n*it* `code` <b onclick=x>raw</b> [site](https://a.example/x?y \"t\") " +
		"![pic](https://b.example/p.png) <https://c.example> [js](javascript:alert(1)) [own](/logout) " +
		"[d](data:text/html,x)\n\n" +
		"<script>alert(1)</script>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- [x] done\n\n![](x) [](https://d.example)\n\n" +
		"```js\n<i>\n```\n<style>*{}</style>\n"

	storetest.Write(t, s.store, &record.Plan{
		RootPlanID: "p", CurrentPlanID: "p", Title: new("t"), Summary: &mark, UserRequest: new(`{"a":1}`),
		Metadata: json.RawMessage(`{"k":1}`),
	})
	p := s.get("/runs/p", http.StatusOK)
	p.has("# Title")

	p = s.get(p.link(p.detail(), "Markdown"), http.StatusOK) // of JSON there is none
	if got, want := text(p.one("class", "marked")),
		"Title it code raw site (a.example) pic (b.example) https://c.example (c.example) js (javascript:alert(1)) own "+
			"(/logout) d (data:text/html,x) "+
			"a b 1 2 done (x) (d.example) <i>"; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
	p = s.get(p.link(p.detail(), "Text"), http.StatusOK)
	p.has("# Title", "<script>alert(1)</script>")

	// it would take long
	storetest.Write(t, s.store, &record.Plan{
		RootPlanID: "p", CurrentPlanID: "p", Summary: new(strings.Repeat("[a](", 10_000)),
	})
	p = s.get(at("p", "plan:p", "markdown", "summary"), http.StatusOK)
	p.has("[a]([a](")
	p.lacks("Markdown")
}

// TestOneHeading: W15: a run has one main heading, whichever row is open, and links to all rows below the open one in
// each view.
func TestOneHeading(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run")
	headings := func(p *page) (n int) {
		for e := range p.root.Descendants() {
			if e.Type == html.ElementNode && e.Data == "h1" {
				n++
			}
		}
		return n
	}

	for at, below := range map[string][]string{
		"plan:run":             {"step:run-triage", "step:run-r"},
		"step:run-r":           {"cycle:run-r/0"},
		"cycle:run-r/0":        {"call:run-r/0/c%2F1"},
		"call:run-r/0/c%2F1":   {"plan:run-sub"},
		"plan:run-sub":         {"step:run-counter"},
		"call:run-counter/2/x": nil,
	} {
		for _, view := range []string{"readable", "raw", "json"} {
			path := "/runs/run?view=" + view + "&at=" + url.QueryEscape(at)
			p := s.get(path, http.StatusOK)
			if n := headings(p); n != 1 {
				t.Errorf("%s has %d main headings", path, n)
			}

			if got := p.all("autofocus", ""); attr(p.one("id", at), "autofocus") != "" ||
				!slices.ContainsFunc(p.one("id", at).Attr, func(a html.Attribute) bool {
					return a.Key == "autofocus"
				}) {
				t.Errorf("%s: the focus is not on its row (%d)", path, len(got))
			}

			linked := map[string]bool{}
			for n := range p.one("aria-label", "Detail").Descendants() {
				if to, err := url.Parse(attr(n, "href")); err == nil && n.Data == "a" {
					linked[to.Query().Get("at")] = true
				}
			}
			for _, row := range below {
				if !linked[row] {
					t.Errorf("%s does not lead to %s", path, row)
				}
			}
		}
	}

	for _, path := range []string{
		"/runs/run", "/runs/run?show=slow", "/runs/run?q=sql", "/", "/waits", "/charts", "/search", "/compare",
	} {
		if n := headings(s.get(path, http.StatusOK)); n != 1 {
			t.Errorf("%s has %d main headings", path, n)
		}
	}
}

// TestNamelessResult: W13: a result of which nobody says what it is of is just a result.
func TestNamelessResult(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	storetest.Write(t, s.store,
		&record.Plan{RootPlanID: "r", CurrentPlanID: "r"},
		&record.AgentExecution{RootPlanID: "r", PlanID: "r", StepID: "s"},
		&record.ThinkAct{RootPlanID: "r", StepID: "s", Seq: 0,
			ThinkInput: new(`[{"role":"user","content":"go"},{"role":"tool","content":"nine"},{"role":"tool","tool_call_id":"c7","content":"ten"},
			{"role":"user","content":[{"type":"tool_result","is_error":true,"content":"broken"}]},{"role":"assistant","content":null,"tool_calls":[{"function":{"arguments":"{}"}}]}]`)})

	var got []string
	for n := range s.get("/runs/r?at=cycle:s/0", http.StatusOK).one("class", "chat").Descendants() {
		if n.Type == html.ElementNode && n.Data == "h3" && attr(n.Parent, "class") == "text" {
			got = append(got, text(n))
		}
	}
	if want := []string{"result", "result of c7", "error", "call"}; !slices.Equal(got, want) {
		t.Errorf("the labels are %q, want %q", got, want)
	}
}
