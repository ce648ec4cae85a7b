package decision_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/record"
)

const form = `[
	{"label":"Name","name":"who","required":"true","type":"text","value":""},
	{"label":"Age","type":"number"},
	{"label":"Mail","type":"email"},
	{"label":"Region","type":"select","options":"EMEA, APAC"},
	{"label":"Size","type":"radio","options":"S,M"},
	{"label":"Colours","type":"checkbox","options":"red,green"},
	{"label":"Agree","type":"checkbox"},
	{"label":"Secret","type":"password"}
]`

func values(t *testing.T, raw string) map[string]json.RawMessage {
	t.Helper()
	var v map[string]json.RawMessage
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// B35, B36: the types of a form's fields are checked, and the field at fault is named.
func TestForm(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-planted"

	for _, tt := range []struct{ values, field, says string }{
		{`{"who":"Ann"}`, "", ""},
		{
			`{"who":"Ann","Age":"42","Mail":"a@b.example","Region":"APAC","Size":"M","Colours":["red","green"],"Agree":true,"Secret":"` + secret + `"}`, "", "",
		},
		{`{"who":"Ann","Age":-4.5e3,"Colours":"green, red","Secret":""}`, "", ""},
		{`{"who":"Ann","Age":null,"Mail":" ","Region":""}`, "", ""},
		{`{}`, "who", "required"},
		{`{"who":"  "}`, "who", "required"},
		{`{"Name":"Ann"}`, "Name", "no field"},
		{`{"who":"Ann","Age":"old"}`, "Age", "number"},
		{`{"who":"Ann","Age":"0x10"}`, "Age", "number"},
		{`{"who":"Ann","Age":"Inf"}`, "Age", "number"},
		{`{"who":"Ann","Age":1e400}`, "Age", "number"},
		{`{"who":"Ann","Mail":"Ann <a@b.example>"}`, "Mail", "email"},
		{`{"who":"Ann","Mail":"a.example"}`, "Mail", "email"},
		{`{"who":"Ann","Region":"MARS"}`, "Region", "EMEA, APAC"},
		{`{"who":"Ann","Size":"XL"}`, "Size", "S, M"},
		{`{"who":"Ann","Colours":["blue"]}`, "Colours", "red, green"},
		{`{"who":{"a":1}}`, "who", "must be a text"},
		{`{"who":[["a"]]}`, "who", "must be a text"},
		{`{"who":"Ann","Secret":{"a":"` + secret + `"}}`, "Secret", "must be a text"},
		{`{"who":"` + strings.Repeat("x", 1<<20+1) + `"}`, "who", "too long"},
	} {
		w := &record.Wait{RootPlanID: "p", PlanID: "p", WaitID: "w", FormInputs: json.RawMessage(form)}
		decided, err := decision.Decision{Decision: decision.Submit, Values: values(t, tt.values), By: "ann"}.About(w)
		if tt.field == "" {
			if err != nil || *decided.State != record.Submitted || *decided.DecidedBy != "ann" ||
				strings.Contains(string(decided.FormInputs), secret) {
				t.Errorf("%s: %+v, %v", tt.values, decided, err)
			}
			continue
		}

		var invalid *record.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != tt.field || !strings.Contains(invalid.Reason, tt.says) ||
			strings.Contains(err.Error(), secret) {
			t.Errorf("%.80s: %v, want %s %s", tt.values, err, tt.field, tt.says)
		}
	}

	w := &record.Wait{FormInputs: json.RawMessage(form)}
	decided, err := decision.Decision{
		Decision: decision.Submit, Values: values(t,
			`{"who":"Ann","Colours":["red","green"],"Agree":true,"Secret":"x","Age":7}`),
	}.About(w)
	if err != nil {
		t.Fatal(err)
	}

	var items []map[string]string
	if err := json.Unmarshal(decided.FormInputs, &items); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"Ann", "7", "", "", "", "red,green", "true", decision.Given} {
		if items[i]["value"] != want {
			t.Errorf("%s is %q, want %q", items[i]["label"], items[i]["value"], want)
		}
	}
}

func TestFormWithoutFields(t *testing.T) {
	t.Parallel()
	for _, inputs := range []string{"", "[]", "null", "[null]"} {
		w := &record.Wait{FormInputs: json.RawMessage(inputs)}
		decided, err := decision.Decision{Decision: decision.Submit, Values: values(t, `{"genericInput":"yes"}`)}.About(w)
		if err != nil || !strings.Contains(string(decided.FormInputs), `"value":"yes"`) {
			t.Errorf("%q: %+v, %v", inputs, decided, err)
		}
	}
}

// TestRedact checks that what a human says goes through redaction, and that the form is checked before it.
func TestRedact(t *testing.T) {
	t.Parallel()
	w := &record.Wait{FormInputs: json.RawMessage(`[{"label":"Mail","type":"email"}]`)}
	d := decision.Decision{
		Decision: decision.Submit, Values: values(t, `{"Mail":"ann@b.example"}`), Text: "I am ann@b.example.",
		Redact: func(s string) string { return strings.ReplaceAll(s, "ann@b.example", "[email]") },
	}

	decided, err := d.About(w)
	if err != nil || *decided.DecisionText != "I am [email]." ||
		string(decided.FormInputs) != `[{"label":"Mail","type":"email","value":"[email]"}]` {
		t.Errorf("decided = %+v %s, %v", decided, decided.FormInputs, err)
	}
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	unknown := json.RawMessage(`{"name":"pay","decisions":["done","retry","skip"]}`)

	for _, tt := range []struct {
		about    record.Wait
		decision decision.Decision
		state    record.State
		field    string
	}{
		{record.Wait{}, decision.Decision{Decision: "submit"}, record.Submitted, ""},
		{record.Wait{}, decision.Decision{Decision: "approve"}, "", "decision"},
		{record.Wait{Type: new(record.WaitActionValidation)}, decision.Decision{Decision: "approve"}, record.Approved, ""},
		{
			record.Wait{Type: new(record.WaitActionValidation)}, decision.Decision{Decision: "reject", Text: "not now"},
			record.Rejected, "",
		},
		{record.Wait{Type: new(record.WaitActionValidation)}, decision.Decision{Decision: "accept"}, "", "decision"},
		{
			record.Wait{Type: new(record.WaitActionValidation)},
			decision.Decision{Decision: "approve", Values: map[string]json.RawMessage{"a": nil}}, "", "values",
		},
		{record.Wait{Type: new(record.WaitPlanValidation)}, decision.Decision{Decision: "accept"}, record.Accepted, ""},
		{record.Wait{Type: new(record.WaitPlanValidation)}, decision.Decision{Decision: "reject"}, record.Rejected, ""},
		{
			record.Wait{Type: new(record.WaitPlanValidation)}, decision.Decision{Decision: "modify", Text: "shorter"},
			record.Modified, "",
		},
		{record.Wait{Type: new(record.WaitPlanValidation)}, decision.Decision{Decision: "modify", Text: " "}, "", "text"},
		{
			record.Wait{Type: new(record.WaitActionValidation), Subject: unknown}, decision.Decision{Decision: "done"},
			record.Accepted, "",
		},
		{
			record.Wait{Type: new(record.WaitActionValidation), Subject: unknown}, decision.Decision{Decision: "retry"},
			record.Approved, "",
		},
		{
			record.Wait{Type: new(record.WaitActionValidation), Subject: unknown}, decision.Decision{Decision: "skip"},
			record.Rejected, "",
		},
		{
			record.Wait{Type: new(record.WaitActionValidation), Subject: unknown}, decision.Decision{Decision: "approve"}, "",
			"decision",
		},
		{record.Wait{}, decision.Decision{Decision: "submit", By: strings.Repeat("x", 256)}, "", "by"},
		{record.Wait{}, decision.Decision{Decision: "submit", Text: strings.Repeat("x", 1<<20+1)}, "", "text"},
	} {
		got, err := tt.decision.About(&tt.about)
		var invalid *record.InvalidError
		switch {
		case tt.field == "" && (err != nil || *got.State != tt.state || *got.Decision != tt.decision.Decision ||
			got.EndTime == nil):
			t.Errorf("%+v: %+v, %v", tt, got, err)
		case tt.field != "" && (!errors.As(err, &invalid) || invalid.Field != tt.field):
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// FuzzForm checks that no form and no values make it panic, and that a password never gets on record.
func FuzzForm(f *testing.F) {
	f.Add(form, `{"who":"Ann","Secret":"x"}`)
	f.Add(`[{"label":"a","type":"checkbox","options":",,"}]`, `{"a":[1,null]}`)
	f.Fuzz(func(t *testing.T, inputs, given string) {
		var v map[string]json.RawMessage
		if json.Unmarshal([]byte(given), &v) != nil || !json.Valid([]byte(inputs)) {
			return
		}
		read, err := decision.ReadForm(json.RawMessage(inputs))
		if err != nil {
			return
		}

		decided, err := decision.Decision{
			Decision: decision.Submit, Values: read.ByLabel(v),
		}.About(&record.Wait{FormInputs: json.RawMessage(inputs)})
		if err != nil {
			return
		}

		var items []map[string]string
		if err := json.Unmarshal(decided.FormInputs, &items); err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			if strings.EqualFold(item["type"], "password") && item["value"] != "" && item["value"] != decision.Given {
				t.Errorf("a password is on record: %q", item["value"])
			}
		}
	})
}

// TestAcceptWithForm checks that what is accepted may come with a form, which need not be filled in.
func TestAcceptWithForm(t *testing.T) {
	t.Parallel()
	w := &record.Wait{
		Type: new(record.WaitPlanValidation),
		FormInputs: json.RawMessage(
			`[{"name":"auto_approve","label":"All","type":"select","options":"false,true","value":""}]`,
		),
	}

	for _, tt := range []struct {
		d    decision.Decision
		want string // the form, or the error
	}{
		{
			decision.Decision{
				Decision: decision.Accept, Values: map[string]json.RawMessage{"auto_approve": json.RawMessage("true")},
			}, `"value":"true"`,
		},
		{decision.Decision{Decision: decision.Accept}, `"value":""`},
		{
			decision.Decision{
				Decision: decision.Accept, Values: map[string]json.RawMessage{"auto_approve": json.RawMessage(`"perhaps"`)},
			}, "auto_approve",
		},
		{
			decision.Decision{
				Decision: decision.Reject, Values: map[string]json.RawMessage{"auto_approve": json.RawMessage("true")},
			}, "values",
		},
	} {
		var got string
		if decided, err := tt.d.About(w); err != nil {
			got = err.Error()
		} else {
			got = string(decided.FormInputs)
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.d.Decision, got, tt.want)
		}
	}
}

// TestReadPlan checks that a plan is read as it is proposed, and that what has no steps is none.
func TestReadPlan(t *testing.T) {
	t.Parallel()
	p, ok := decision.ReadPlan(
		json.RawMessage(
			`{"goal":"g","estimatedDuration":9,"steps":[{"stepNumber":1,"agentType":"GIT","action":"a","justification":"j","expectedOutput":"o","dependencies":[2]}]}`,
		),
	)

	want := decision.Plan{
		Goal: "g", EstimatedDuration: 9, Steps: []decision.PlanStep{
			{StepNumber: 1, AgentType: "GIT", Action: "a", Justification: "j", ExpectedOutput: "o", Dependencies: []int{2}},
		},
	}
	if !ok || !reflect.DeepEqual(p, want) {
		t.Errorf("it is %+v", p)
	}
	for _, none := range []string{"", "null", "{}", `{"steps":[]}`, `{"steps":7}`, "[]"} {
		if _, ok := decision.ReadPlan(json.RawMessage(none)); ok {
			t.Errorf("%q is a plan", none)
		}
	}
}

// TestApart checks that texts of several lines are taken out of an object, and that the rest stays as it is.
func TestApart(t *testing.T) {
	t.Parallel()
	rest, texts := decision.TakeTexts(json.RawMessage(`{"b":"1\n<2>","a":12345678901234567890,"c":"<x>"}`))
	if got := strings.TrimSpace(string(rest)); got != `{"a":12345678901234567890,"c":"<x>"}` || len(texts) != 1 ||
		texts[0] != [2]string{"b", "1\n<2>"} {
		t.Errorf("strings.TrimSpace(string(rest)) = %s, %q", got, texts)
	}

	for _, whole := range []string{`[1]`, `{"a":"b"}`} {
		if rest, texts := decision.TakeTexts(json.RawMessage(whole)); string(rest) != whole || texts != nil {
			t.Errorf("of %s there is %s", whole, rest)
		}
	}
}
