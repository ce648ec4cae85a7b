package record_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/record"
)

// clean cleans a plan that is valid but for what tell does to it.
func clean(t testing.TB, tell func(*record.Plan)) (*record.Plan, []string, error) {
	t.Helper()
	p := &record.Plan{RootPlanID: "p", CurrentPlanID: "p"}
	tell(p)
	c, cut, err := record.Clean(p)
	if err != nil {
		return nil, nil, err
	}
	return c.(*record.Plan), cut, nil
}

func mustClean(t testing.TB, tell func(*record.Plan)) (*record.Plan, []string) {
	t.Helper()
	p, cut, err := clean(t, tell)
	if err != nil {
		t.Fatal(err)
	}
	return p, cut
}

func TestTextsAreCutAtACharacter(t *testing.T) {
	t.Parallel()
	for _, char := range []string{"x", "é", "日", "🔑"} {
		for shift := range 4 {
			told := strings.Repeat("-", shift) + strings.Repeat(char, record.MaxIDBytes)
			p, cut := mustClean(t, func(p *record.Plan) { p.Name = &told })
			got := *p.Name
			whole := (len(told) <= record.MaxIDBytes)
			if !strings.HasPrefix(told, got) || len(got) > record.MaxIDBytes || !whole && len(got) <= record.MaxIDBytes-len(char) || strings.ContainsRune(got, '\uFFFD') {
				t.Errorf("%d bytes of %q kept", len(got), char)
			}
			if slices.Contains(cut, "name") == whole {
				t.Errorf("%q: cut %q", char, cut)
			}
		}
	}
	if got := record.Shorten("日", 2); got != "" {
		t.Errorf("shortened to %q", got)
	}
}

// TestTheCallersChangeStaysAsItIs, whatever is mended in the copy.
func TestTheCallersChangeStaysAsItIs(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 20, 12, 0, 0, 1, time.FixedZone("", 3600))
	told := func() *record.Plan {
		return &record.Plan{RootPlanID: "a\x00", CurrentPlanID: "a\x00", Title: new("b\xff"), Tags: []string{"c\x00"}, TraceID: new(" "),
			StartTime: new(start), Metadata: json.RawMessage(`{ "d": "\u0000" }`)}
	}
	p := told()
	c, _, err := record.Clean(p)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(told(), p); diff != "" {
		t.Errorf("altered (-before +after):\n%s", diff)
	}
	want := &record.Plan{RootPlanID: "a\uFFFD", CurrentPlanID: "a\uFFFD", Title: new("b\uFFFD"), Tags: []string{"c\uFFFD"},
		StartTime: new(time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)), Metadata: json.RawMessage(`{"d":"\ufffd"}`)}
	if diff := cmp.Diff(record.Change(want), c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJSONIsMended(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat(`}`, n-1) }
	for told, want := range map[string]string{ // empty: refused
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
		p, cut, err := clean(t, func(p *record.Plan) { p.Metadata = json.RawMessage(told) })
		var invalid *record.InvalidError
		switch {
		case want == "":
			if !errors.As(err, &invalid) || invalid.Code != record.CodeInvalidValue || invalid.Field != "metadata" {
				t.Errorf("%.60s: %v", told, err)
			}
		case err != nil:
			t.Errorf("%.60s: %v", told, err)
		case want == "null":
			if p.Metadata != nil {
				t.Errorf("%.60s: %s", told, p.Metadata)
			}
		case string(p.Metadata) != want || cut != nil:
			t.Errorf("%.60s: %.60s, cut %q", told, p.Metadata, cut)
		}
	}
}

// TestJSONThatIsTooLong becomes a string that holds its beginning.
func TestJSONThatIsTooLong(t *testing.T) {
	t.Parallel()
	for _, filling := range []string{"x", `\"`, "<", "日"} {
		told := `{"a":"` + strings.Repeat(filling, record.MaxTextBytes/len(filling)) + `"}`
		p, cut := mustClean(t, func(p *record.Plan) { p.Metadata = json.RawMessage(told) })
		var kept string
		if err := json.Unmarshal(p.Metadata, &kept); err != nil || !strings.HasPrefix(told, kept) || len(kept) < record.MaxTextBytes/8 {
			t.Errorf("%q: %d bytes kept, %v", filling, len(kept), err)
		}
		if len(p.Metadata) > record.MaxTextBytes || !slices.Equal(cut, []string{"metadata"}) {
			t.Errorf("%q: %d bytes, cut %q", filling, len(p.Metadata), cut)
		}
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	for told, ok := range map[string]bool{
		`[]`: true, `[{}]`: true, `[{"a":"b"},{"a":""}]`: true,
		`{}`: false, `[null]`: false, `["a"]`: false, `[{"a":1}]`: false, `[{"a":null}]`: false, `[{"a":["b"]}]`: false,
	} {
		_, _, err := record.Clean(&record.Wait{RootPlanID: "p", PlanID: "p", WaitID: "w", FormInputs: json.RawMessage(told)})
		if (err == nil) != ok {
			t.Errorf("%s: %v", told, err)
		}
	}
}

func TestListsAreCut(t *testing.T) {
	t.Parallel()
	p, cut := mustClean(t, func(p *record.Plan) { p.Tags = make([]string, record.MaxListItems+1) })
	if len(p.Tags) != record.MaxListItems || !slices.Equal(cut, []string{"tags"}) {
		t.Errorf("%d tags, cut %q", len(p.Tags), cut)
	}
	p, cut = mustClean(t, func(p *record.Plan) { p.Tags = []string{strings.Repeat("é", 200), "b"} })
	if len(p.Tags[0]) != 254 || !slices.Equal(cut, []string{"tags"}) {
		t.Errorf("%d bytes, cut %q", len(p.Tags[0]), cut)
	}
}

func TestNumbersThatNoOneMeans(t *testing.T) {
	t.Parallel()
	for field, c := range map[string]*record.ThinkAct{
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
		if _, _, err := record.Clean(c); !errors.As(err, &invalid) || invalid.Field != strings.TrimSpace(field) || invalid.Code != record.CodeInvalidValue {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestCharactersAreCountedBeforeTheCut(t *testing.T) {
	t.Parallel()
	c, cut, err := record.Clean(&record.ThinkAct{RootPlanID: "p", StepID: "s", ThinkInput: new(strings.Repeat("é", record.MaxTextBytes)), ThinkOutputChars: new(int64(9))})
	if err != nil {
		t.Fatal(err)
	}
	got := c.(*record.ThinkAct)
	if *got.ThinkInputChars != record.MaxTextBytes || got.ThinkOutputChars != nil || !slices.Equal(cut, []string{"thinkInput"}) {
		t.Errorf("%d characters, %v; cut %q", *got.ThinkInputChars, got.ThinkOutputChars, cut)
	}
}

// TestStillCut: a field that was told anew, and short, is cut no longer.
func TestStillCut(t *testing.T) {
	t.Parallel()
	all := []string{"title", "name", "tags", "metadata", "summary"}
	for name, tt := range map[string]struct {
		plan record.Plan
		want []string
	}{
		"nothing is told": {record.Plan{}, []string{}},
		"told anew":       {record.Plan{Title: new("t"), Name: new("n"), Tags: []string{"a"}, Metadata: json.RawMessage(`{"a":1}`), Summary: new("")}, []string{}},
		"as they were cut": {record.Plan{Title: new(strings.Repeat("x", record.MaxTextBytes-3)), Name: new(strings.Repeat("é", 127)), Tags: []string{"a", strings.Repeat("x", 255)},
			Metadata: json.RawMessage(`"{"`)}, []string{"metadata", "name", "tags", "title"}},
		"full, as it happens": {record.Plan{Name: new(strings.Repeat("x", 252))}, []string{"name"}},
		"short of full":       {record.Plan{Name: new(strings.Repeat("x", 251))}, []string{}},
		"a full list":         {record.Plan{Tags: make([]string, record.MaxListItems)}, []string{"tags"}},
	} {
		if diff := cmp.Diff(tt.want, record.StillCut(&tt.plan, all)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := record.StillCut(&record.Plan{Name: new(strings.Repeat("x", 255))}, nil); len(got) != 0 {
		t.Errorf("never cut, yet %q", got)
	}
}
