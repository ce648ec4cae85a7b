package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
)

// refusal is what a record must be refused with.
type refusal struct {
	Code  record.Code
	Field string
}

// postRaw sends records as they are written, each with a good one behind it, and
// returns the refusals, nil for those that were accepted.
func (c *client) postRaw(raw ...string) []*refusal {
	c.T.Helper()
	var lines []string
	for i, r := range raw {
		lines = append(lines, r, fmt.Sprintf(`{"kind":"plan","rootPlanId":"good-%d","currentPlanId":"good-%d"}`, i, i))
	}

	_, a := c.PostBody(wire.TypeJSON, []byte(`{"records":[`+strings.Join(lines, ",")+`]}`))
	out := make([]*refusal, len(raw))
	for _, r := range a.Rejected {
		if r.Index%2 != 0 || r.Message == "" || !strings.HasPrefix(r.Message, r.Field) {
			c.T.Errorf("rejection %+v", r)
			continue
		}
		out[r.Index/2] = &refusal{r.Code, r.Field}
	}

	if a.Accepted+len(a.Rejected) != len(lines) {
		c.T.Errorf("%d accepted, %d rejected of %d", a.Accepted, len(a.Rejected), len(lines))
	}
	for i := range raw {
		c.Details(fmt.Sprint("good-", i))
	}
	return out
}

// goodRecord is a record of a kind with its required fields.
func goodRecord(t testing.TB, kind record.Kind) obj {
	t.Helper()
	b, err := wire.Encode(least(kind))
	if err != nil {
		t.Fatal(err)
	}

	var r obj
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// wrongValues are values, as JSON, that no field of a type takes.
var wrongValues = map[field.Type][]string{
	field.Text:  {`5`, `true`, `{}`, `["x"]`},
	field.Int:   {`"5"`, `1.5`, `-2`, `1e300`, `true`, `{}`, `92233720368547758080`},
	field.Float: {`"0.5"`, `{}`, `1e400`, `true`},
	field.Time: {`"yesterday"`, `1763640000`, `"2026-11-20"`, `"2026-11-20T12:00:00"`, `"10000-01-01T00:00:00Z"`,
		`"2026-13-01T00:00:00Z"`,
		`"9999-12-31T23:59:59-01:00"`, `"0000-01-01T00:00:00Z"`, `"0001-01-01T00:00:00Z"`,
		`"1969-12-31T23:59:59Z"`, `"1970-01-01T00:00:00+01:00"`, `"2263-01-01T00:00:00Z"`, `"9999-12-31T23:59:59Z"`,
		`[2026,11,20,12,0]`, `""`},
	field.Texts: {`"x"`, `[1]`, `[null]`, `{}`, `[["x"]]`},
	field.JSON: {
		`[]`, `"x"`, `5`, `true`, `{"a":1e400}`, `{"a":` + strings.Repeat("[", 149) + strings.Repeat("]", 149) + `}`,
	},
}

// TestBadRecords: every kind refuses the values that each of its fields cannot hold. Codes
// without a field are in the test below, invalid_relation is in TestPlanRelations.
func TestBadRecords(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is refused, and in which words")
	t.Parallel()
	for _, kind := range record.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			var raw []string
			var want []*refusal

			bad := func(value, code record.Code, field string, r obj) {
				b := string(apitest.JSON(t, r))
				raw = append(raw, strings.Replace(b, `"$"`, string(value), 1))
				want = append(want, &refusal{code, field})
			}
			with := func(field string) obj {
				r := goodRecord(t, kind)
				r[field] = "$"
				return r
			}

			for _, f := range field.Fields(kind) {
				if !f.Sent() {
					continue
				}
				if f.Key || f.Required {
					missing := with(f.Name)
					delete(missing, f.Name)
					bad("", record.CodeMissingField, f.Name, missing)
					bad("null", record.CodeMissingField, f.Name, with(f.Name))
					if f.Type == field.Text {
						bad(`" \t"`, record.CodeMissingField, f.Name, with(f.Name))
					}
				}

				values := wrongValues[f.Type]
				if f.AnyJSON || kind == record.KindArtifact && f.Name == "value" { // N27: the depth holds for all JSON
					values = []string{
						strings.Repeat("[", 101) + strings.Repeat("]", 101),
						`[` + strings.Repeat(`{"a":`, 100) + `{}` + strings.Repeat(`}`, 100) + `]`,
					}
				}
				if f.IsList() {
					values = []string{`{}`, `"x"`, `[1]`, `["x"]`, `[null]`}
				}
				if f.IsList() && f.Name != "messages" { // their objects have texts only
					values = append(values, `[{"a":1}]`, `[{"a":null}]`, `[{"a":{}}]`)
				}

				_, schema := recordSchema(t, kind)
				property := schema["properties"].(obj)[f.Name].(obj)
				if property["enum"] != nil {
					values = append(slices.Clone(values), `"NOPE"`, `""`, `"running"`)
				}
				if most, err := strconv.Atoi(fmt.Sprint(property["maxLength"])); err == nil {
					values = append(slices.Clone(values), `"`+strings.Repeat("x", most+1)+`"`, `"`+strings.Repeat("é", most/2+1)+`"`)
				}

				if property["pattern"] != nil { // N27
					values = append(slices.Clone(values), `"zz"`, `"0af7651916cd43dd8448eb211c80319"`,
						`"0af7651916cd43dd8448eb211c80319cc"`,
						`"0af7651916cd43dd8448eb211c80319g"`, `"00000000000000000000000000000000"`,
						`"0af76519-16cd-43dd-8448-eb211c80319"`)
				}
				if property["maximum"] == json.Number("1") { // N27
					values = append(slices.Clone(values), `2`, `1.0001`, `-0.1`)
				}
				for _, v := range values {
					bad(record.Code(v), record.CodeInvalidValue, f.Name, with(f.Name))
				}
			}

			bad(`1`, record.CodeUnknownField, "nosuch", with("nosuch"))
			bad(`null`, record.CodeUnknownField, "nosuch", with("nosuch"))
			bad(`"x"`, record.CodeUnknownField, "State", with("State")) // names are case sensitive
			if diff := cmp.Diff(want, serve(t).postRaw(raw...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestElementsThatAreNoRecords(t *testing.T) {
	t.Parallel()
	c := serve(t)
	got := c.postRaw(`null`, `5`, `"x"`, `[]`, `[{"kind":"plan"}]`, `{}`, `{"kind":null}`, `{"kind":""}`, `{"kind":5}`,
		`{"kind":"Plan"}`, `{"kind":"nosuch"}`,
		`{"Kind":"plan","rootPlanId":"p","currentPlanId":"p"}`)

	want := []*refusal{
		{"malformed", ""}, {"malformed", ""}, {"malformed", ""}, {"malformed", ""}, {"malformed", ""},
		{"missing_field", "kind"}, {"missing_field", "kind"},
		{"unknown_kind", "kind"}, {"unknown_kind", "kind"}, {"unknown_kind", "kind"}, {"unknown_kind", "kind"},
		{"missing_field", "kind"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStatusOfRecords: the status is an error if every record was refused, by the decoder or by
// the store, and only then (N2).
func TestStatusOfRecords(t *testing.T) {
	t.Parallel()
	c := serve(t)
	const (
		good    = `{"kind":"plan","rootPlanId":"p","currentPlanId":"p"}`
		unread  = `5`
		refused = `{"kind":"plan","rootPlanId":"p","currentPlanId":"p","toolCallId":"t"}`
	)

	for _, tt := range []struct {
		records []string
		status  int
	}{
		{nil, http.StatusOK},
		{[]string{good}, http.StatusOK},
		{[]string{good, unread}, http.StatusMultiStatus},
		{[]string{refused, unread, good}, http.StatusMultiStatus},
		{[]string{unread}, http.StatusUnprocessableEntity},
		{[]string{refused}, http.StatusUnprocessableEntity},
		{[]string{refused, unread}, http.StatusUnprocessableEntity},
	} {
		for contentType, body := range map[string]string{
			wire.TypeJSON:   `{"records":[` + strings.Join(tt.records, ",") + `]}`,
			wire.TypeNDJSON: strings.Join(tt.records, "\n"),
		} {
			status, a := c.PostBody(contentType, []byte(body))
			if status != tt.status || a.Accepted+len(a.Rejected) != len(tt.records) {
				t.Errorf("%s: %d %+v, want %d", body, status, a, tt.status)
			}
		}
	}
}

// TestAllBad: the answer names each of the records.
func TestAllBad(t *testing.T) {
	t.Parallel()
	status, a := serve(t).Post(5, obj{"kind": "plan", "rootPlanId": "p"})
	want := wire.Answer{Rejected: []wire.Rejection{
		{Index: 0, Code: "malformed", Message: "a record must be a JSON object"},
		{Index: 1, Code: "missing_field", Field: "currentPlanId", Message: "currentPlanId is required"},
	}}
	if diff := cmp.Diff(want, a); diff != "" || status != http.StatusUnprocessableEntity {
		t.Errorf("status = %d (-want +got):\n%s", status, diff)
	}
}

// TestOddValuesThatAreAccepted writes values that look wrong, but are allowed or mended.
func TestOddValuesThatAreAccepted(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is refused, and in which words")
	t.Parallel()
	const key = `"kind":"plan","rootPlanId":"p","currentPlanId":"p"`
	const toolKey = `"kind":"actTool","rootPlanId":"p","stepId":"s","seq":0,"toolCallId":"t"`
	const call = "thinkActSteps.0.actToolInfoList.0."

	for name, tt := range map[string]struct {
		record string
		path   string // of a plan; of a step where it begins with thinkActSteps
		want   any
	}{
		"NUL in a text":              {`{` + key + `,"title":"a\u0000b"}`, "title", "a\uFFFDb"},
		"invalid UTF-8 in a text":    {`{` + key + `,"title":"a` + "\xff\xfe" + `b"}`, "title", "a\uFFFD\uFFFDb"},
		"a lone surrogate in a text": {`{` + key + `,"title":"a\ud83db"}`, "title", "a\uFFFDb"},
		"a pair of surrogates":       {`{` + key + `,"title":"\ud83d\ude00"}`, "title", "😀"},
		"a lone surrogate in an id":  {`{` + key + `,"userId":"\udc00x"}`, "userId", "\uFFFDx"},
		"NUL in an id":               {`{` + key + `,"conversationId":"\u0000"}`, "conversationId", "\uFFFD"},
		"a blank optional id":        {`{` + key + `,"traceId":" "}`, "traceId", nil},
		"NUL in metadata": {
			`{` + key + `,"metadata":{"a\u0000":"\u0000"}}`, "metadata", obj{"a\uFFFD": "\uFFFD"},
		},
		"a lone surrogate in metadata": {
			`{` + key + `,"metadata":{"\ud83d":["\ude00\ud83d","\\ud83d"]}}`, "metadata", obj{
				"\uFFFD": []any{"\uFFFD\uFFFD", `\ud83d`},
			},
		},
		"invalid UTF-8 in metadata": {`{` + key + `,"metadata":{"a":"` + "\xc3" + `"}}`, "metadata", obj{"a": "\uFFFD"}},
		"metadata 100 levels deep": {
			`{` + key + `,"metadata":` + strings.Repeat(`{"a":`, 99) + `{}` + strings.Repeat(`}`, 99) + `}`,
			"metadata.a.a.a.a.a.a.a.a.a.state", skip,
		},
		"null is absent": {
			`{` + key + `,"title":null,"tags":null,"state":null,"metadata":null,"rev":null,"startTime":null}`, "state",
			"PENDING",
		},
		"empty texts stay":              {`{` + key + `,"title":"","tags":[]}`, "title", ""},
		"the last of duplicate members": {`{` + key + `,"title":"a","title":"b"}`, "title", "b"},
		"an offset becomes UTC": {
			`{` + key + `,"startTime":"2026-11-20T15:30:00.5+03:30"}`, "startTime", "2026-11-20T12:00:00.5Z",
		},
		"nanoseconds are cut": {
			`{` + key + `,"startTime":"2026-11-20T12:00:00.123456789Z"}`, "startTime", "2026-11-20T12:00:00.123456Z",
		},
		"a clock that was never set": {
			`{` + key + `,"startTime":"1970-01-01T00:00:00Z"}`, "startTime", "1970-01-01T00:00:00Z",
		},
		"the year 2262": {
			`{` + key + `,"endTime":"2262-12-31T23:59:59.999999Z"}`, "endTime", "2262-12-31T23:59:59.999999Z",
		},
		"an end before its start": {
			`{` + key + `,"startTime":"2026-11-20T12:00:00Z","endTime":"2026-11-20T11:00:00Z"}`, "figures.durationMs", nil,
		},
		"a trace id in upper case": {
			`{` + key + `,"traceId":"0AF7651916CD43DD8448EB211C80319C"}`, "traceId", "0af7651916cd43dd8448eb211c80319c",
		},
		"a trace id that is a UUID": {
			`{` + key + `,"traceId":"0af76519-16cd-43dd-8448-eb211c80319c"}`, "traceId", "0af7651916cd43dd8448eb211c80319c",
		},
		"a name that is too long": {
			`{` + key + `,"name":"` + strings.Repeat("é", 200) + `"}`, "name", strings.Repeat("é", 127),
		},
		"names that are cut are named": {
			`{` + key + `,"name":"` + strings.Repeat("é", 200) + `","tags":["` + strings.Repeat("x", 300) + `"]}`, "truncated",
			[]any{"name", "tags"},
		},
		"parameters as an object": {
			`{` + toolKey + `,"parameters":{ "b" : 1, "a" : [ 1.0, null ] }}`, call + "parameters", `{"b":1,"a":[1.0,null]}`,
		},
		"parameters as a text": {
			`{` + toolKey + `,"parameters":"{ \"b\" : 1 }"}`, call + "parameters", `{ "b" : 1 }`,
		},
		"a result that is a number":     {`{` + toolKey + `,"result":1.50}`, call + "result", `1.50`},
		"a result that is false":        {`{` + toolKey + `,"result":false}`, call + "result", `false`},
		"a whole number, oddly written": {`{` + toolKey + `,"callIndex":1.2e1}`, call + "callIndex", 12},
		"a result 100 levels deep": {
			`{` + toolKey + `,"result":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, call + "result",
			strings.Repeat("[", 100) + strings.Repeat("]", 100),
		},
		"JSON in a text at any depth": {
			`{` + toolKey + `,"result":"` + strings.Repeat("[", 9000) + `"}`, call + "result", strings.Repeat("[", 9000),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t)
			if got := c.postRaw(tt.record); got[0] != nil {
				t.Fatalf("refused: %+v", got[0])
			}
			switch {
			case tt.want == skip:
				c.Details("p")
			case strings.HasPrefix(tt.path, "thinkActSteps"):
				expect(t, c.Step("s"), obj{tt.path: tt.want})
			default:
				expect(t, c.Details("p"), obj{tt.path: tt.want})
			}
		})
	}
}

// skip means that any value will do: the record must be accepted and the read must work.
const skip = "$skip"

// TestAbsurdFigures: one record must not break the reads of others.
func TestAbsurdFigures(t *testing.T) {
	t.Parallel()
	c := serve(t)

	got := c.postRaw(
		`{"kind":"thinkAct","rootPlanId":"p","stepId":"s","seq":0,"inputTokens":9223372036854775807}`,
		`{"kind":"thinkAct","rootPlanId":"p","stepId":"s","seq":1,"costUsd":1e308}`,
		`{"kind":"thinkAct","rootPlanId":"p","stepId":"s","seq":2147483647}`,
		`{"kind":"thinkAct","rootPlanId":"p","stepId":"s","seq":2147483646,"inputTokens":1000000000000,"costUsd":1e12}`,
		`{"kind":"thinkAct","rootPlanId":"p","stepId":"s2","seq":2147483646,"inputTokens":1000000000000,"costUsd":1e12}`,
		`{"kind":"plan","rootPlanId":"p","currentPlanId":"p","rev":9223372036854775807}`,
	)

	want := []*refusal{
		{"invalid_value", "inputTokens"}, {"invalid_value", "costUsd"}, {"invalid_value", "seq"}, nil, nil, nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	expect(t, c.Details("p"), obj{"total.inputTokens": 2e12, "total.costUsd": 2e12})
	c.Read("/api/v1/plans")
}

const onePlan = `{"kind":"plan","rootPlanId":"p","currentPlanId":"p"}`

// TestBodies sends bodies that are read as a whole, or not at all.
func TestBodies(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is refused, and in which words")
	t.Parallel()
	good := []byte(`{"records":[` + onePlan + `]}`)

	// Both formats may be joined end to end: small bodies that become gigabytes.
	bomb := bytes.Repeat([]byte("a"), 8<<20)
	gzipBomb, zstdBomb := bytes.Repeat(apitest.Gzip(t, bomb), 500), bytes.Repeat(apitest.Zstd(t, bomb), 500)
	gzipSpaces := bytes.Repeat(apitest.Gzip(t, bytes.Repeat([]byte(" "), 8<<20)), 500)
	window := []byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, 21 << 3, 0x01, 0x00, 0x00} // asks for 2 GiB to look back

	lines := func(n int) []byte { return []byte(strings.Repeat(onePlan+"\n", n)) }
	list := func(n int) []byte {
		return []byte(`{"records":[` + strings.TrimSuffix(strings.Repeat(onePlan+",", n), ",") + `]}`)
	}

	for name, tt := range map[string]struct {
		contentType, encoding string
		body                  []byte
		want                  int
		accepted              int
	}{
		"JSON":                     {"application/json", "", good, 200, 1},
		"JSON with a charset":      {"application/json; charset=utf-8", "", good, 200, 1},
		"an empty list":            {"application/json", "", []byte(`{"records":[]}`), 200, 0},
		"spaces around":            {"application/json", "identity", []byte(" \n" + string(good) + "\r\n "), 200, 1},
		"1,000 records":            {"application/json", "", list(1000), 200, 1000},
		"1,001 records":            {"application/json", "", list(1001), 413, 0},
		"1,000 lines":              {"application/x-ndjson", "", lines(1000), 200, 1000},
		"1,001 lines":              {"application/x-ndjson", "", lines(1001), 413, 0},
		"no lines":                 {"application/x-ndjson", "", nil, 200, 0},
		"blank lines":              {"application/x-ndjson", "", []byte("\n \r\n\t\n"), 200, 0},
		"gzip":                     {"application/json", "gzip", apitest.Gzip(t, good), 200, 1},
		"GZIP":                     {"application/json", "GZIP", apitest.Gzip(t, good), 200, 1},
		"zstd":                     {"application/x-ndjson", "zstd", apitest.Zstd(t, lines(3)), 200, 3},
		"no content type":          {"", "", good, 415, 0},
		"a form":                   {"application/x-www-form-urlencoded", "", good, 415, 0},
		"text":                     {"text/plain", "", good, 415, 0},
		"an unknown encoding":      {"application/json", "br", good, 415, 0},
		"not gzip":                 {"application/json", "gzip", good, 400, 0},
		"not zstd":                 {"application/json", "zstd", good, 400, 0},
		"gzip cut off":             {"application/json", "gzip", apitest.Gzip(t, good)[:30], 400, 0},
		"gzip lines cut off":       {"application/x-ndjson", "gzip", apitest.Gzip(t, lines(1))[:60], 400, 0},
		"nothing":                  {"application/json", "", nil, 400, 0},
		"no JSON":                  {"application/json", "", []byte(`<records/>`), 400, 0},
		"no object":                {"application/json", "", []byte(`[` + onePlan + `]`), 400, 0},
		"null":                     {"application/json", "", []byte(`null`), 400, 0},
		"no records":               {"application/json", "", []byte(`{}`), 400, 0},
		"records that are no list": {"application/json", "", []byte(`{"records":` + onePlan + `}`), 400, 0},
		"records that are null":    {"application/json", "", []byte(`{"records":null}`), 400, 0},
		"records in another case":  {"application/json", "", []byte(`{"Records":[]}`), 400, 0},
		"records twice": {
			"application/json", "", []byte(`{"records":[],"records":[` + onePlan + `]}`), 400, 0,
		},
		"another member":      {"application/json", "", []byte(`{"records":[` + onePlan + `],"more":1}`), 400, 0},
		"something behind":    {"application/json", "", []byte(string(good) + `{}`), 400, 0},
		"cut off":             {"application/json", "", good[:len(good)-2], 400, 0},
		"cut off in a record": {"application/json", "", []byte(`{"records":[` + onePlan + `,{"kind":"pl`), 400, 0},
		"NaN": {
			"application/json", "", []byte(
				`{"records":[{"kind":"thinkAct","rootPlanId":"p","stepId":"s","seq":0,"costUsd":NaN}]}`,
			), 400, 0,
		},
		"100,000 levels": {
			"application/json", "", []byte(`{"records":[` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `]}`),
			400, 0,
		},
		"a gzip bomb": {
			"application/json", "gzip", append(apitest.Gzip(t, []byte(`{"records":[`)), gzipSpaces...), 413, 0,
		},
		"a gzip bomb of one line":      {"application/x-ndjson", "gzip", gzipBomb, 413, 0},
		"a zstd bomb of one line":      {"application/x-ndjson", "zstd", zstdBomb, 413, 0},
		"zstd that wants to look back": {"application/json", "zstd", window, 400, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t)
			a := wantStatus(t, c.Do(http.MethodPost, "/api/v1/records", bytes.NewReader(tt.body), "Content-Type",
				tt.contentType, "Content-Encoding", tt.encoding), tt.want)
			if a.Status != http.StatusOK {
				wantStatus(t, c.Get(details+"p"), http.StatusNotFound) // nothing was written
			} else if got := lookup(t, a.JSON(t), "accepted"); got != float64(tt.accepted) {
				t.Errorf("%v accepted", got)
			}
		})
	}
}

// TestLines: a bad line is refused alone; blank ones do not count.
func TestLines(t *testing.T) {
	t.Parallel()
	c := serve(t)
	body := "\r\n" + onePlan + "\r\n\n  \n" + `{"kind":"plan"` + "\n" + `[]` + "\n" +
		strings.Repeat("[", 100_000) + "\n" + `{"kind":"plan","rootPlanId":"q","currentPlanId":"q"}` // without an end of line
	status, a := c.PostBody("application/x-ndjson", []byte(body))
	if status != http.StatusMultiStatus || a.Accepted != 2 {
		t.Errorf("status = %d %+v", status, a)
	}

	for i, r := range a.Rejected {
		if r.Index != i+1 || r.Code != "malformed" {
			t.Errorf("rejection %+v", r)
		}
	}
	c.Details("p")
	c.Details("q")
}

// What a body can have of one field. Millions of tags take less room in it than in the queue
// of writes.
var hugeText, hugeList = 50 << 20, 5_000_000

// TestTextsThatAreTooLong are cut at a character, and the reads say so.
func TestTextsThatAreTooLong(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is refused, and in which words")
	t.Parallel()
	c := serve(t)
	size := hugeText

	body := []byte(`{"records":[{"kind":"thinkAct","rootPlanId":"p","stepId":"s","seq":0,"thinkInput":"x`)
	body = append(body, bytes.Repeat([]byte("é"), size/2)...)
	body = append(body, `"},{"kind":"plan","rootPlanId":"p","currentPlanId":"p","metadata":{"a":"`...)
	body = append(body, bytes.Repeat([]byte("y"), record.MaxTextBytes)...)
	body = append(body, `"}}]}`...)
	if status, a := c.PostBody(wire.TypeJSON, body); status != http.StatusOK {
		t.Fatalf("status = %d %+v", status, a)
	}

	got := c.Step("s")
	text := lookup(t, got, "thinkActSteps.0.thinkInput").(string)
	if len(text) != record.MaxTextBytes-1 || !strings.HasPrefix(text, "xé") || !strings.HasSuffix(text, "é") {
		t.Errorf("kept %d bytes", len(text))
	}
	expect(t, got, obj{"thinkActSteps.0.truncated": []string{"thinkInput"}, "thinkActSteps.0.inputCharCount": 1 + size/2})

	p := c.Details("p")
	if m, _ := lookup(t, p, "metadata").(string); !strings.HasPrefix(m, `{"a":"yyy`) {
		t.Errorf("metadata %.50v", m)
	}
	expect(t, p, obj{"truncated": []string{"metadata"}})
	c.Write(plan("p", obj{"metadata": obj{"a": 1}}))
	expect(t, c.Details("p"), obj{"truncated": []string{}, "metadata": obj{"a": 1}})
}

// TestListsThatAreTooLong are cut, too.
func TestListsThatAreTooLong(t *testing.T) {
	t.Parallel()
	c := serve(t)
	body := `{"records":[{"kind":"plan","rootPlanId":"p","currentPlanId":"p","tags":[` +
		strings.TrimSuffix(strings.Repeat(`"",`, hugeList), ",") + `]}]}`
	if status, a := c.PostBody(wire.TypeJSON, []byte(body)); status != http.StatusOK {
		t.Fatalf("status = %d %+v", status, a)
	}
	expect(t, c.Details("p"), obj{"tags.#": record.MaxListItems, "truncated": []string{"tags"}})
}

// TestTwoWritersOfOnePlan: what is accepted from both is on record.
func TestTwoWritersOfOnePlan(t *testing.T) {
	t.Parallel()
	c := serve(t)
	const writers = 16
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			s := fmt.Sprint("s", i)
			c.Write(plan("p", obj{"rev": i, "title": fmt.Sprint(i)}), step("p", "p", s, obj{"stepIndex": i}),
				cycle("p", s, 0, obj{"inputTokens": 1}))
		})
	}

	wg.Wait()
	expect(t, c.Details("p"), obj{
		"title": fmt.Sprint(writers - 1), "agentExecutionSequence.#": writers, "figures.inputTokens": writers,
	})
}

// TestRevisions are kept for each field.
func TestRevisions(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p", obj{"rev": 5, "title": "five"}))
	c.Write(plan("p", obj{"rev": 3, "title": "three", "summary": "three"}))
	expect(t, c.Details("p"), obj{"title": "five", "summary": "three"}) // the older one counts where nothing is known

	c.Write(plan("p", obj{"rev": 4, "summary": "four"}))
	// newer than the field's, though not than the row's newest
	expect(t, c.Details("p"), obj{"title": "five", "summary": "four"})
	c.Write(plan("p", obj{"rev": 5, "title": "a lesser value"}), plan("p", obj{"rev": 4, "summary": "greater"}))
	expect(t, c.Details("p"), obj{"title": "five", "summary": "greater"})
	c.Write(plan("p", obj{"title": "the latest arrival"}))
	expect(t, c.Details("p"), obj{"title": "the latest arrival"})
}

// TestAttempts: a record that names none belongs to the first.
func TestAttempts(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(step("p", "p", "s", state("FAILED"), obj{"errorMessage": "broke", "endTime": at(9)}))
	c.Write(step("p", "p", "s", state("RUNNING"), obj{"attempt": 2}))
	expect(t, c.Step("s"), obj{"attempt": 2, "state": "RUNNING", "errorMessage": nil, "endTime": nil})

	c.Write(step("p", "p", "s", state("CANCELLED"), obj{"endTime": at(20)}))
	expect(t, c.Step("s"), obj{"attempt": 2, "state": "RUNNING", "endTime": nil})
	c.Write(step("p", "p", "s", state("COMPLETED"), obj{"attempt": 2}))
	expect(t, c.Step("s"), obj{"state": "COMPLETED"})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	want := obj{
		"maxBodyBytes": 64 << 20, "maxRecords": 1000, "maxTextBytes": 4 << 20, "maxIdBytes": 255, "maxJsonDepth": 100,
		"maxListItems": 1000, "maxCount": 1e12,
	}

	got := serve(t).Read("/api/v1/limits")
	expect(t, got, want)
	if len(got.(obj)) != len(want) {
		t.Errorf("limits %v", slices.Sorted(maps.Keys(got.(obj))))
	}
}
