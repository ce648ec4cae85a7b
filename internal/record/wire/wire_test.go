package wire_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/record"
)

// full returns a change of a kind. Every field that is sent has a value that JSON could spoil.
func full(t testing.TB, kind record.Kind) record.Change {
	t.Helper()
	c := record.New(kind)
	for i, f := range field.Fields(kind) {
		if !f.Sent() {
			continue
		}

		v := f.In(c)
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
		}

		switch f.Type {
		case field.Text:
			v.SetString(f.Name + " <&> \" \\ \n \u2028 é 日 🔑")
		case field.Int:
			v.SetInt(math.MaxInt64 - int64(i))
		case field.Float:
			v.SetFloat(0.1 + float64(i))
		case field.Time:
			v.Set(reflect.ValueOf(time.Date(2026, 11, 20, 12, 0, i, 123456000, time.UTC)))
		case field.Texts:
			v.Set(reflect.ValueOf([]string{"a,b", "", "<>"}))
		case field.JSON:
			v.SetBytes([]byte(`{"z":1.50,"a":["<",null]}`))
		default:
			t.Fatalf("%s.%s is of an unknown type", kind, f.Name)
		}
	}
	return c
}

func TestEveryFieldOfEveryKindSurvives(t *testing.T) {
	t.Parallel()
	for _, kind := range record.Kinds {
		want := full(t, kind)
		b, err := wire.Encode(want)
		if err != nil {
			t.Fatal(err)
		}

		got, err := wire.Decode(b)
		if err != nil {
			t.Fatalf("%s: %v\n%s", kind, err, b)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-sent +decoded):\n%s", kind, diff)
		}
	}
}

// TestEmptyListIsSent: an empty list is not the same as none.
func TestEmptyListIsSent(t *testing.T) {
	t.Parallel()
	for _, want := range []*record.Plan{{Tags: []string{}}, {}} {
		b, err := wire.Encode(want)
		if err != nil {
			t.Fatal(err)
		}

		want.RootPlanID, want.CurrentPlanID = "p", "p"
		got, err := wire.Decode(bytes.ReplaceAll(b, []byte(`""`), []byte(`"p"`)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(record.Change(want), got); diff != "" {
			t.Errorf("(-sent +decoded):\n%s", diff)
		}
	}
}

// TestEncodeInvalid: a value without a JSON form is an error.
func TestEncodeInvalid(t *testing.T) {
	t.Parallel()
	for _, c := range []record.Change{
		&record.ThinkAct{CostUSD: new(math.NaN())},
		&record.Plan{Metadata: json.RawMessage(`{`)},
	} {
		if b, err := wire.Encode(c); err == nil {
			t.Errorf("encoded as %s", b)
		}
	}
}

// TestWholeNumbers: an integer may be written in any form of a JSON number.
func TestWholeNumbers(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]int64{
		"0": 0, "-0": 0, "7": 7, "7.0": 7, "1.2e1": 12, "9223372036854775807": math.MaxInt64, "9007199254740992.0": 1 << 53,
		"1.5": -1, "1e16": -1, "9223372036854775808": -1, "1e999": -1, `"7"`: -1,
	} {
		c, err := wire.Decode([]byte(`{"kind":"plan","rootPlanId":"p","currentPlanId":"p","rev":` + raw + `}`))
		switch {
		case want < 0:
			var invalid *record.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != "rev" {
				t.Errorf("%s: %v", raw, err)
			}
		case err != nil || *c.Revision() != want:
			t.Errorf("%s: %v, %v", raw, c, err)
		}
	}
}

// TestRecordLimits: decoding stops at the limits, so a record with more members or a longer list
// takes no more memory.
func TestRecordLimits(t *testing.T) {
	t.Parallel()
	const begin = `{"kind":"plan","rootPlanId":"p","currentPlanId":"p"`
	decode := func(rest string) (*record.Plan, error) {
		c, err := wire.Decode([]byte(begin + rest + "}"))
		plan, _ := c.(*record.Plan)
		return plan, err
	}
	members := func(n int) string { return strings.Repeat(`,"title":"T"`, n-3) }
	if plan, err := decode(members(wire.MaxMembers)); err != nil || *plan.Title != "T" {
		t.Errorf("plan = %+v, %v", plan, err)
	}

	tags := func(n int, last string) string { return `,"tags":[` + strings.Repeat(`"\u0061",`, n-1) + last + `]` }
	plan, err := decode(tags(100_000, `"z"`))
	if err != nil || len(plan.Tags) != record.MaxListItems+1 || plan.Tags[record.MaxListItems] != "a" {
		t.Fatalf("%d tags, %v", len(plan.Tags), err)
	}

	clean, cut, err := field.Clean(plan)
	if err != nil || len(clean.(*record.Plan).Tags) != record.MaxListItems || !cmp.Equal(cut, []string{"tags"}) {
		t.Errorf("cut %q, %v", cut, err)
	}

	for name, tt := range map[string]struct {
		rest, field, reason string
		code                record.Code
	}{
		"a member too many":  {members(wire.MaxMembers + 1), "", "over 1000 members", record.CodeMalformed},
		"unknown members":    {strings.Repeat(`,"":0`, 10_000_000), "", "over 1000 members", record.CodeMalformed},
		"no string":          {tags(2, `5`), "tags", "a list of strings", record.CodeInvalidValue},
		"nothing":            {tags(2, `null`), "tags", "a list of strings", record.CodeInvalidValue},
		"a list":             {tags(2, `["a"]`), "tags", "a list of strings", record.CodeInvalidValue},
		"no string far back": {tags(2_000, `{}`), "tags", "a list of strings", record.CodeInvalidValue},
		"no list":            {`,"tags":{"a":"b"}`, "tags", "a list of strings", record.CodeInvalidValue},
	} {
		_, err := decode(tt.rest)
		var invalid *record.InvalidError
		if !errors.As(err, &invalid) || invalid.Code != tt.code || invalid.Field != tt.field ||
			!strings.Contains(invalid.Reason, tt.reason) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// counter counts the bytes that are read of a body.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// endless is a body that repeats one byte and never ends.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// TestEndlessBody: a body without an end is read up to the limit, so its memory is bounded. That
// includes white space, which is read in time linear to its length.
func TestEndlessBody(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		contentType, start string
		fill               endless
	}{
		"a line":                 {wire.TypeNDJSON, "", 'a'},
		"white space in a list":  {wire.TypeJSON, `{"records":[`, '\n'},
		"white space at the end": {wire.TypeJSON, `{"records":[]}`, '\t'},
	} {
		body := &counter{r: io.MultiReader(strings.NewReader(tt.start), tt.fill)}
		if _, err := wire.DecodeBody(body, tt.contentType, "", nil); !errors.Is(err, wire.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
		if body.n != wire.MaxBodyBytes+1 {
			t.Errorf("%s: %d bytes were read", name, body.n)
		}
	}
}

// TestCompressedBomb: the limit holds for the decompressed bytes. Compressed bytes beyond it are
// not read.
func TestCompressedBomb(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := io.CopyN(w, endless('a'), 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	bomb := bytes.Repeat(packed.Bytes(), 4096) // 4 GiB
	body := &counter{r: bytes.NewReader(bomb)}
	if _, err := wire.DecodeBody(body, wire.TypeNDJSON, "gzip", nil); !errors.Is(err, wire.ErrTooLarge) {
		t.Error(err)
	}
	if limit := int64(packed.Len())*66 + 8<<10; body.n > limit {
		t.Errorf("%d of %d bytes were read, at most %d are needed", body.n, len(bomb), limit)
	}
}

// breaks is a body that fails with an error.
type breaks struct{ err error }

func (b breaks) Read([]byte) (int, error) { return 0, b.err }

// TestBrokenBody: a body that breaks off is an error, at whichever byte.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	const one = `{"kind":"plan","rootPlanId":"p","currentPlanId":"p"}`
	for contentType, text := range map[string]string{
		wire.TypeJSON: `{"records":[` + one + `,` + one + `]}`, wire.TypeNDJSON: one + "\n" + one + "\n",
	} {
		for i := range len(text) {
			body := io.MultiReader(strings.NewReader(text[:i]), breaks{io.ErrUnexpectedEOF})
			if items, err := wire.DecodeBody(body, contentType, "", nil); err == nil {
				t.Errorf("%s, %d bytes: %v", contentType, i, items)
			}
		}
	}
}

// FuzzDecode: a valid record stays the same when it is encoded and decoded again.
func FuzzDecode(f *testing.F) {
	for _, kind := range record.Kinds {
		b, err := wire.Encode(full(f, kind))
		if err != nil {
			f.Fatal(err)
		}

		f.Add(b)
		f.Add(
			[]byte(
				fmt.Sprintf(
					`{"kind":%q,"rootPlanId":"r","currentPlanId":"r","planId":"r","stepId":"s","seq":0,"toolCallId":"t","thoughtId":"o","name":"n","sourceId":"q","waitId":"w"}`, kind,
				),
			),
		)
	}

	for _, s := range []string{`null`, `{}`, `{"kind":null}`,
		`{"kind":"plan","rootPlanId":"\ud800","currentPlanId":"\u0000"}`,
		`{"kind":"actTool","rootPlanId":"p","stepId":"s","seq":1e0,"toolCallId":"t","parameters":{"a":[1.0,"\ud83d\ude00"]},"result":null}`,
		`{"kind":"plan","rootPlanId":"p","currentPlanId":"p","metadata":{"\ud83d":"\u0000\ude00"},"tags":["\udfff",""],"startTime":"2026-11-20T12:00:00+14:00"}`,
		`{"kind":"wait","rootPlanId":"p","planId":"p","waitId":"w","formInputs":[{"a":"b"},{}]}`} {
		f.Add([]byte(s))
	}

	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := wire.Decode(raw)
		if err != nil {
			var invalid *record.InvalidError
			if !errors.As(err, &invalid) || invalid.Code == "" || invalid.Reason == "" {
				t.Fatalf("error %#v", err)
			}
			return
		}
		clean, _, err := field.Clean(c)
		if err != nil {
			return
		}

		b, err := wire.Encode(clean)
		if err != nil {
			t.Fatalf("cannot be encoded: %v", err)
		}
		again, err := wire.Decode(b)
		if err != nil {
			t.Fatalf("cannot be decoded again: %v\n%s", err, b)
		}
		if again, _, err = field.Clean(again); err != nil {
			t.Fatalf("is no longer valid: %v\n%s", err, b)
		}

		// Derived fields are computed from the text, which may have been cut.
		for _, f := range field.Fields(c.Kind()) {
			if !f.Sent() {
				f.In(clean).SetZero()
				f.In(again).SetZero()
			}
		}
		if diff := cmp.Diff(clean, again); diff != "" {
			t.Fatalf("(-clean +decoded again):\n%s\n%s", diff, b)
		}
	})
}

// FuzzDecodeBody: every body is read or refused, within its limits.
func FuzzDecodeBody(f *testing.F) {
	const one = `{"kind":"plan","rootPlanId":"p","currentPlanId":"p"}`
	for _, encoding := range []string{"", "gzip", "zstd", "zlib", "deflate", "lz4", "snappy", "x-snappy-framed", "br"} {
		f.Add([]byte(`{"records":[`+one+`,5]}`), wire.TypeJSON, encoding)
		f.Add([]byte(pack(f, encoding, one+"\r\n\n{\n"+one)), wire.TypeNDJSON, encoding)
	}
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00"), wire.TypeNDJSON,
		"gzip")
	f.Add([]byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, 21 << 3, 0x01, 0x00, 0x00}, wire.TypeNDJSON, "zstd")
	f.Add([]byte(`{"records":[],"records":[]}`), "application/json; charset=utf-8", "")

	f.Fuzz(func(t *testing.T, body []byte, contentType, encoding string) {
		items, err := wire.DecodeBody(bytes.NewReader(body), contentType, encoding, nil)
		if err != nil {
			if items != nil {
				t.Fatalf("items beside %v", err)
			}
			return
		}

		if len(items) > wire.MaxRecords {
			t.Fatalf("%d items", len(items))
		}
		for _, it := range items {
			if (it.Change == nil) == (it.Err == nil) {
				t.Fatalf("item %+v", it)
			}
		}
	})
}

// TestTheWindowOfZstdIsTaken: N16: a decoder holds all of it for the smallest body.
func TestTheWindowOfZstdIsTaken(t *testing.T) {
	t.Parallel()
	frame := func(window int, text string) []byte {
		var packed bytes.Buffer
		e, err := zstd.NewWriter(&packed, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}

		if _, err := io.WriteString(e, text); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(e.Flush(), e.Close()); err != nil { // flushed, it does not know its size
			t.Fatal(err)
		}
		return packed.Bytes()
	}

	small := frame(1<<10, "small")
	for _, tt := range []struct {
		body        []byte
		least, most int64
	}{
		{small, 5, 64 << 10},
		{frame(8<<20, "small"), 8 << 20, 8<<20 + 5},
		{slices.Concat(small, small), 10, 64 << 10},
		// a skippable frame is first
		{slices.Concat([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, small), 16 << 20, 16<<20 + 5},
	} {
		var taken int64
		if _, err := wire.ReadBody(bytes.NewReader(tt.body), 0, "zstd", func(n int64) error {
			taken += n
			return nil
		}); err != nil || taken < tt.least || taken > tt.most {
			t.Errorf("%d taken, want %d to %d: %v", taken, tt.least, tt.most, err)
		}
	}

	if _, err := wire.ReadBody(bytes.NewReader(slices.Concat(small, frame(8<<20, strings.Repeat("large", 100_000)))), 0,
		"zstd", nil); err == nil {
		t.Error("a later window is larger than what was taken")
	}
}

// F2: a cycle takes the names of times that all other kinds have, and an error names what was meant.
func TestOtherNames(t *testing.T) {
	t.Parallel()
	const cycle = `{"kind":"thinkAct","rootPlanId":"p","stepId":"s","seq":0,`
	for _, tt := range []struct{ members, field, message string }{
		{`"startTime":"2026-11-20T12:00:00Z","endTime":"2026-11-20T12:00:05Z"}`, "", ""},
		{`"startTime":"2026-11-20T12:00:00Z","thinkStartTime":null,"thinkEndTime":"2026-11-20T12:00:05Z"}`, "", ""},
		{`"startTime":null,"thinkStartTime":"2026-11-20T12:00:00Z","thinkEndTime":"2026-11-20T12:00:05Z"}`, "", ""},
		{`"thinkStartTime":"2026-11-20T12:00:00Z","startTime":null,"endTime":"2026-11-20T12:00:05Z"}`, "", ""},
		{
			`"startTime":"2026-11-20T12:00:00Z","thinkStartTime":"2026-11-20T12:00:00Z"}`, "startTime",
			"startTime is another name of thinkStartTime, which is there too",
		},
		{`"startTime":5}`, "startTime", "startTime must be a time such as 2026-11-20T13:53:00.123456Z (RFC 3339)"},
		{`"start_time":"2026-11-20T12:00:00Z"}`, "start_time", "start_time is no field of thinkAct; did you mean startTime?"},
		{`"output":"x"}`, "output", "output is no field of thinkAct; did you mean thinkOutput?"},
		{`"inputToken":1}`, "inputToken", "inputToken is no field of thinkAct; did you mean inputTokens?"},
		{`"somethingElse":1}`, "somethingElse", "somethingElse is no field of thinkAct"},
	} {
		change, err := wire.Decode([]byte(cycle + tt.members))
		if tt.field != "" {
			invalid, ok := errors.AsType[*record.InvalidError](err)
			if !ok || invalid.Field != tt.field || wire.Reject(0, invalid).Message != tt.message {
				t.Errorf("%s: got %v, want %s", tt.members, err, tt.message)
			}
			continue
		}

		if err != nil {
			t.Fatalf("%s: %v", tt.members, err)
		}
		got := change.(*record.ThinkAct)
		if got.ThinkStartTime == nil || got.ThinkEndTime == nil ||
			got.ThinkEndTime.Sub(*got.ThinkStartTime) != 5*time.Second {
			t.Errorf("%s: got the times %v and %v", tt.members, got.ThinkStartTime, got.ThinkEndTime)
		}
	}
}
