package api_test

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/api"
)

// TestAnswersAreAsTheStandardLibraryEncodesThem, whatever is in them.
func TestAnswersAreAsTheStandardLibraryEncodesThem(t *testing.T) {
	t.Parallel()
	for name, answer := range api.Answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				v := reflect.New(answer)
				anything(t, v.Elem(), 0)
				sameJSON(t, v.Interface())
			})
		})
	}
}

// TestDeepAnswers: the encoder looks for cycles in what is nested deep.
func TestDeepAnswers(t *testing.T) {
	t.Parallel()
	const plans = "SubPlanExecutionRecords"
	root := reflect.New(api.Answers["Plan"])
	for range 3_000 {
		above := reflect.New(root.Type().Elem())
		above.Elem().FieldByName(plans).Set(reflect.Append(above.Elem().FieldByName(plans), root))
		root = above
	}
	sameJSON(t, root.Interface())
}

func sameJSON(t rapid.TB, v any) {
	t.Helper()
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	wantErr := enc.Encode(v)
	got, err := api.AppendJSON(nil, v)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%v, want %v", err, wantErr)
	}
	if wantErr == nil && string(got)+"\n" != want.String() {
		t.Fatalf("%s\nwant\n%s", got, want.String())
	}
}

var (
	someTexts  = rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "plain text", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "<a href=\"x\">&</a>", "\u2028\u2029", "é 漢字 🙂 plain behind", "bad \xff\xc3 bytes", "\xed\xa0\x80"}))
	someFloats = rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1e-6, 9.9e-7, 1e20, 1e21, 0.1, 1e-12, math.NaN()}))
	someRaws   = rapid.SampledFrom([]string{"", `{ "b" : [1 , 2.50, "a  b\u2028 <&>"],` + "\n\t" + `"a": null }`, `{}`, ` [ ] `, `-0.0`, `"\ud800 <"`, "\"\u2028\"", `{"z":1,"a":1e400}`})
)

// anything fills a value of an answer, not too deep.
func anything(t *rapid.T, v reflect.Value, depth int) {
	switch to := v.Addr().Interface().(type) {
	case *json.RawMessage: // as all of them get there
		if raw := someRaws.Draw(t, "raw"); raw != "" {
			*to = json.RawMessage(raw)
		}
		*to = api.OrNull(*to)
		return
	case *time.Time:
		*to = time.UnixMicro(rapid.Int64Range(-62135596800_000_000, 253402300799_999_999).Draw(t, "time")).UTC()
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(someTexts.Draw(t, "text"))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(int(rapid.Int64().Draw(t, "int"))))
	case reflect.Float64:
		v.SetFloat(someFloats.Draw(t, "float"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Pointer:
		if depth < 4 && rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			anything(t, v.Elem(), depth+1)
		}
	case reflect.Slice:
		if depth < 4 && rapid.Bool().Draw(t, "there") {
			v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 2).Draw(t, "length"), 2))
			for i := range v.Len() {
				anything(t, v.Index(i), depth+1)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			anything(t, v.Field(i), depth)
		}
	default:
		t.Fatalf("a member of type %s", v.Type())
	}
}
