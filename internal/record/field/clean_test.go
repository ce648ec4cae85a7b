package field_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/loosejson"
	"github.com/actlog/actlog/record"
)

// cleanPlan cleans a plan. It is valid if what set changes in it is valid.
func cleanPlan(set func(*record.Plan)) (*record.Plan, []string, error) {
	p := &record.Plan{RootPlanID: "p", CurrentPlanID: "p"}
	set(p)
	c, cut, err := field.Clean(p)
	if err != nil {
		return nil, nil, err
	}
	return c.(*record.Plan), cut, nil
}

func mustCleanPlan(t testing.TB, set func(*record.Plan)) (*record.Plan, []string) {
	t.Helper()
	p, cut, err := cleanPlan(set)
	if err != nil {
		t.Fatal(err)
	}
	return p, cut
}

// TestCutAtCharacterBoundary checks that a text is cut at its limit, and never inside a
// character.
func TestCutAtCharacterBoundary(t *testing.T) {
	t.Parallel()
	for _, char := range []string{"x", "é", "日", "🔑"} {
		for shift := range 4 {
			name := strings.Repeat("-", shift) + strings.Repeat(char, record.MaxIDBytes)
			p, cut := mustCleanPlan(t, func(p *record.Plan) { p.Name = &name })
			got := *p.Name
			fits := len(name) <= record.MaxIDBytes

			if !strings.HasPrefix(name, got) || len(got) > record.MaxIDBytes || !fits &&
				len(got) <= record.MaxIDBytes-len(char) || strings.ContainsRune(got, '\uFFFD') {
				t.Errorf("kept %d bytes of %q", len(got), char)
			}
			if slices.Contains(cut, "name") == fits {
				t.Errorf("%q: cut %q", char, cut)
			}
		}
	}

	if got := field.Shorten("日", 2); got != "" {
		t.Errorf("shortened to %q", got)
	}
}

// TestCutTextStaysJSON: of JSON over the limit the longest strings are cut, so that the texts beside an image survive.
// It is known as cut, and cut at the same place again.
func TestCutTextStaysJSON(t *testing.T) {
	t.Parallel()
	image := strings.Repeat("iVBORw0KGgo", record.MaxTextBytes/11+5_000)
	for _, sent := range []string{
		`[{"role":"user","content":[{"image":"` + image + `"},{"text":"Which lamp is it?"}]}]`,
		`{"image":"` + image + `","n":NaN,"text":"Which lamp is it?"}`,
	} {
		clean := func(s string) (string, []string) {
			c, cut, err := field.Clean(&record.ThinkAct{RootPlanID: "p", StepID: "s", ThinkInput: &s})
			if err != nil {
				t.Fatal(err)
			}
			return *c.(*record.ThinkAct).ThinkInput, cut
		}

		got, cut := clean(sent)
		if len(got) != record.MaxTextBytes || !loosejson.Valid(got) || !strings.Contains(got, `"Which lamp is it?"`) ||
			!slices.Equal(cut, []string{"thinkInput"}) {
			t.Errorf("%d bytes, cut %q: %.100s", len(got), cut, got)
		}
		if again, cut := clean(got + "\U0010FFFF"); again != got || !slices.Equal(cut, []string{"thinkInput"}) {
			t.Errorf("an export comes back as %d bytes, cut %q", len(again), cut)
		}
		if again, cut := clean(got); again != got || cut != nil {
			t.Errorf("it is cut again: %q", cut)
		}
	}
}

// TestCleanCopies checks that Clean repairs a copy and leaves the caller's change as it is.
func TestCleanCopies(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 20, 12, 0, 0, 1, time.FixedZone("", 3600))
	newPlan := func() *record.Plan {
		return &record.Plan{RootPlanID: "a\x00", CurrentPlanID: "a\x00", Title: new("b\xff"), Tags: []string{"c\x00"},
			TraceID:   new(" "),
			StartTime: new(start), Metadata: json.RawMessage(`{ "d": "\u0000" }`)}
	}

	p := newPlan()
	c, _, err := field.Clean(p)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(newPlan(), p); diff != "" {
		t.Errorf("the caller's change (-before +after):\n%s", diff)
	}

	want := &record.Plan{RootPlanID: "a\uFFFD", CurrentPlanID: "a\uFFFD", Title: new("b\uFFFD"), Tags: []string{"c\uFFFD"},
		StartTime: new(time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)), Metadata: json.RawMessage(`{"d":"\ufffd"}`)}
	if diff := cmp.Diff(record.Change(want), c); diff != "" {
		t.Errorf("the cleaned change (-want +got):\n%s", diff)
	}
}

// TestJSONIsRepaired checks that JSON is compacted, that characters Postgres refuses are
// replaced, and that invalid JSON is refused.
func TestJSONIsRepaired(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat(`}`, n-1) }
	for sent, want := range map[string]string{ // empty: refused
		"{ \"b\" : 1.50,\n\"a\":[ null ] }": `{"b":1.50,"a":[null]}`,
		`{"a":"\u0000\\u0000"}`:             `{"a":"\ufffd\\u0000"}`,
		`{"\ud83d":"\ude00"}`:               `{"\ufffd":"\ufffd"}`,
		`{"a":"\ud83d\ude00"}`:              `{"a":"\ud83d\ude00"}`,
		`{"a":"\ud83d\ud83d\ude00"}`:        `{"a":"\ufffd\ud83d\ude00"}`,
		`{"a":"\ud83d\n"}`:                  `{"a":"\ufffd\n"}`,
		`{"a":"\uD83D"}`:                    `{"a":"\ufffd"}`,
		"{\"a\":\"\xff\"}":                  "{\"a\":\"\uFFFD\"}",
		`{"a":-1.5e-400}`:                   `{"a":-1.5e-400}`,
		`{"a":1e400}`:                       "",
		`{"1e400":"1e400"}`:                 `{"1e400":"1e400"}`,
		`{"a":`:                             "",
		`{"a":NaN}`:                         "",
		`[]`:                                "",
		`null`:                              "null",
		` `:                                 "",
		deep(record.MaxJSONDepth):           deep(record.MaxJSONDepth),
		deep(record.MaxJSONDepth + 1):       "",
		`{"a":"` + strings.Repeat("[", 200) + `"}`: `{"a":"` + strings.Repeat("[", 200) + `"}`,
	} {
		p, cut, err := cleanPlan(func(p *record.Plan) { p.Metadata = json.RawMessage(sent) })
		var invalid *record.InvalidError

		switch {
		case want == "":
			if !errors.As(err, &invalid) || invalid.Code != record.CodeInvalidValue || invalid.Field != "metadata" {
				t.Errorf("%.60s: %v", sent, err)
			}
		case err != nil:
			t.Errorf("%.60s: %v", sent, err)
		case want == "null":
			if p.Metadata != nil {
				t.Errorf("%.60s: %s", sent, p.Metadata)
			}
		case string(p.Metadata) != want || cut != nil:
			t.Errorf("%.60s: %.60s, cut %q", sent, p.Metadata, cut)
		}
	}
}

// TestLongJSON checks that JSON over the limit becomes a string that holds its beginning.
func TestLongJSON(t *testing.T) {
	t.Parallel()
	for _, filling := range []string{"x", `\"`, "<", "日"} {
		sent := `{"a":"` + strings.Repeat(filling, record.MaxTextBytes/len(filling)) + `"}`
		p, cut := mustCleanPlan(t, func(p *record.Plan) { p.Metadata = json.RawMessage(sent) })

		var kept string
		if err := json.Unmarshal(p.Metadata, &kept); err != nil || !strings.HasPrefix(sent, kept) ||
			len(kept) < record.MaxTextBytes/8 {
			t.Errorf("%q: kept %d bytes, %v", filling, len(kept), err)
		}
		if len(p.Metadata) > record.MaxTextBytes || !slices.Equal(cut, []string{"metadata"}) {
			t.Errorf("%q: %d bytes, cut %q", filling, len(p.Metadata), cut)
		}
	}
}

// TestFormInputs checks that the inputs of a form are a list of objects whose values are
// strings.
func TestFormInputs(t *testing.T) {
	t.Parallel()
	for inputs, ok := range map[string]bool{
		`[]`: true, `[{}]`: true, `[{"a":"b"},{"a":""}]`: true,
		`{}`: false, `[null]`: false, `["a"]`: false, `[{"a":1}]`: false, `[{"a":null}]`: false, `[{"a":["b"]}]`: false,
	} {
		_, _, err := field.Clean(&record.Wait{RootPlanID: "p", PlanID: "p", WaitID: "w", FormInputs: json.RawMessage(inputs)})
		if (err == nil) != ok {
			t.Errorf("%s: %v", inputs, err)
		}
	}
}

// TestListsAreCut checks that too many items of a list are cut, and that a long item is.
func TestListsAreCut(t *testing.T) {
	t.Parallel()
	p, cut := mustCleanPlan(t, func(p *record.Plan) { p.Tags = make([]string, record.MaxListItems+1) })
	if len(p.Tags) != record.MaxListItems || !slices.Equal(cut, []string{"tags"}) {
		t.Errorf("%d tags, cut %q", len(p.Tags), cut)
	}

	p, cut = mustCleanPlan(t, func(p *record.Plan) { p.Tags = []string{strings.Repeat("é", 200), "b"} })
	if len(p.Tags[0]) != 254 || !slices.Equal(cut, []string{"tags"}) {
		t.Errorf("a tag of %d bytes, cut %q", len(p.Tags[0]), cut)
	}
}

// TestInvalidNumbers checks that numbers out of range are refused.
func TestInvalidNumbers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*record.ThinkAct{
		"costUsd":     {CostUSD: new(math.NaN())},
		"costUsd ":    {CostUSD: new(math.Inf(1))},
		"costUsd  ":   {CostUSD: new(-0.01)},
		"costUsd   ":  {CostUSD: new(1e13)},
		"inputTokens": {InputTokens: new(int64(record.MaxCount + 1))},
		"seq":         {Seq: math.MaxInt32},
		"seq ":        {Seq: -1},
		"attempt":     {Attempt: new(int64(0))},
	} {
		c.RootPlanID, c.StepID = "p", "s"
		var invalid *record.InvalidError
		if _, _, err := field.Clean(c); !errors.As(err, &invalid) || invalid.Field != strings.TrimSpace(name) ||
			invalid.Code != record.CodeInvalidValue {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCharactersAreCountedBeforeCut checks that the number of characters is that of the whole
// text, and that a count without its text is ignored.
func TestCharactersAreCountedBeforeCut(t *testing.T) {
	t.Parallel()
	c, cut, err := field.Clean(&record.ThinkAct{
		RootPlanID: "p", StepID: "s", ThinkInput: new(strings.Repeat("é", record.MaxTextBytes)),
		ThinkOutputChars: new(int64(9)),
	})
	if err != nil {
		t.Fatal(err)
	}

	got := c.(*record.ThinkAct)
	if *got.ThinkInputChars != record.MaxTextBytes || got.ThinkOutputChars != nil ||
		!slices.Equal(cut, []string{"thinkInput"}) {
		t.Errorf("%d characters, %v; cut %q", *got.ThinkInputChars, got.ThinkOutputChars, cut)
	}
}

// TestStillCut checks that a field is no longer cut once its value was replaced by a shorter
// one.
func TestStillCut(t *testing.T) {
	t.Parallel()
	all := []string{"title", "name", "tags", "metadata", "summary"}

	for name, tt := range map[string]struct {
		plan record.Plan
		want []string
	}{
		"empty": {record.Plan{}, []string{}},
		"replaced": {
			record.Plan{
				Title: new("t"), Name: new("n"), Tags: []string{"a"}, Metadata: json.RawMessage(`{"a":1}`), Summary: new(""),
			}, []string{},
		},
		"as cut": {record.Plan{Title: new(strings.Repeat("x", record.MaxTextBytes-3)), Name: new(strings.Repeat("é", 127)),
			Tags:     []string{"a", strings.Repeat("x", 255)},
			Metadata: json.RawMessage(`"{"`)}, []string{"metadata", "name", "tags", "title"}},
		"just full":      {record.Plan{Name: new(strings.Repeat("x", 252))}, []string{"name"}},
		"not quite full": {record.Plan{Name: new(strings.Repeat("x", 251))}, []string{}},
		"a full list":    {record.Plan{Tags: make([]string, record.MaxListItems)}, []string{"tags"}},
	} {
		if diff := cmp.Diff(tt.want, field.StillCut(&tt.plan, all)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	if got := field.StillCut(&record.Plan{Name: new(strings.Repeat("x", 255))}, nil); len(got) != 0 {
		t.Errorf("StillCut of a plan that was never cut: %q", got)
	}
}

// TestImplausibleValues checks the values that are refused although their type is right, and their
// neighbours that are not (N27).
func TestImplausibleValues(t *testing.T) {
	t.Parallel()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	plan := func(set func(*record.Plan)) record.Change {
		p := &record.Plan{RootPlanID: "p", CurrentPlanID: "p"}
		set(p)
		return p
	}

	traced := func(id string) record.Change { return plan(func(p *record.Plan) { p.TraceID = &id }) }
	begun := func(year int) record.Change {
		return plan(func(p *record.Plan) { p.StartTime = new(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)) })
	}
	thought := func(confidence float64) record.Change {
		return &record.Thought{RootPlanID: "p", PlanID: "p", ThoughtID: "t", Confidence: &confidence}
	}
	source := func(score float64) record.Change {
		return &record.Source{RootPlanID: "p", PlanID: "p", SourceID: "s", RelevanceScore: &score}
	}

	for _, tt := range []struct {
		field    string
		ok, fail []record.Change
	}{
		{"traceId", []record.Change{
			traced(trace), traced(strings.ToUpper(trace)), traced("0af76519-16cd-43dd-8448-eb211c80319c"), traced(" "),
		},
			[]record.Change{
				traced("zz"), traced(trace[1:]), traced(trace + "0"), traced(strings.Repeat("0", 32)), traced("-" + trace[1:]),
				traced(trace[:31] + "é"),
			}},
		{
			"startTime", []record.Change{begun(1970), begun(2026), begun(2262)}, []record.Change{
				begun(1), begun(1969), begun(2263), begun(9999), begun(-1),
			},
		},
		{
			"confidence", []record.Change{thought(0), thought(0.5), thought(1)}, []record.Change{
				thought(2), thought(-0.1), thought(math.NaN()),
			},
		},
		{
			"relevanceScore", []record.Change{source(0), source(1)}, []record.Change{
				source(1.01), source(-1), source(math.Inf(1)),
			},
		},
	} {
		for _, c := range tt.ok {
			if _, _, err := field.Clean(c); err != nil {
				t.Errorf("%s: %v", tt.field, err)
			}
		}

		for i, c := range tt.fail {
			var invalid *record.InvalidError
			if _, _, err := field.Clean(c); !errors.As(err, &invalid) || invalid.Field != tt.field ||
				invalid.Code != record.CodeInvalidValue {
				t.Errorf("tt.field = %s, %d: %v", tt.field, i, err)
			}
		}
	}
}

// TestStartedBy checks the link of a root plan to the tool call that started it: it has one form, and names what is
// wrong with any other.
func TestStartedBy(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", record.MaxIDBytes+1)
	for _, test := range []struct{ in, want, wrong string }{
		{in: `{"planId":"p","toolCallId":"t"}`, want: `{"planId":"p","toolCallId":"t"}`},
		{in: ` {"toolCallId" : "t", "planId":"\u0070"}`, want: `{"planId":"p","toolCallId":"t"}`},
		{in: `{"planId":"p"}`, want: `{"planId":"p"}`},
		{in: `null`},
		{in: `{}`, wrong: "planId"},
		{in: `{"planId":" "}`, wrong: "planId"},
		{in: `{"planId":7}`, wrong: "texts"},
		{in: `["p"]`, wrong: "object"},
		{in: `{"PlanId":"p"}`, wrong: "member"},
		{in: `{"planId":"p","more":"x"}`, wrong: "member"},
		{in: `{"planId":"` + long + `"}`, wrong: "bytes"},
		{in: `{"planId":"p","toolCallId":"` + long + `"}`, wrong: "bytes"},
		{in: `{"planId":"p","more":"` + strings.Repeat("x", 64<<10) + `"}`, wrong: "bytes"},
	} {
		p, cut, err := cleanPlan(func(p *record.Plan) { p.StartedBy = json.RawMessage(test.in) })
		var invalid *record.InvalidError

		switch {
		case test.wrong != "":
			if !errors.As(err, &invalid) || invalid.Field != "startedBy" || !strings.Contains(invalid.Reason, test.wrong) {
				t.Errorf("startedBy %.60s: got the error %v, want one of startedBy with %q", test.in, err, test.wrong)
			}
		case err != nil:
			t.Errorf("startedBy %s: %v", test.in, err)
		case string(p.StartedBy) != test.want || len(cut) > 0:
			t.Errorf("startedBy %s: got %s, cut %v, want %s", test.in, p.StartedBy, cut, test.want)
		}
	}

	_, _, err := cleanPlan(func(p *record.Plan) {
		p.CurrentPlanID, p.StartedBy = "sub", json.RawMessage(`{"planId":"p"}`)
	})
	if invalid := new(record.InvalidError); !errors.As(err, &invalid) || invalid.Code != record.CodeInvalidRelation {
		t.Errorf("startedBy of a sub-plan: got the error %v, want %s", err, record.CodeInvalidRelation)
	}
}

// A field that the store sets has no limit; a Go program that sets it is no reason to panic.
func TestJSONWithoutALimit(t *testing.T) {
	t.Parallel()
	c := &record.ThinkAct{RootPlanID: "p", StepID: "s", Tariff: json.RawMessage(`{"any":"thing that is long"}`)}
	if _, _, err := field.Clean(c); err != nil || string(c.Tariff) != `{"any":"thing that is long"}` {
		t.Errorf("c.Tariff = %s, %v", c.Tariff, err)
	}
}
