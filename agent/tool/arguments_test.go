package tool_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/agent/tool"
)

// S6: arguments have one form, in which nothing is lost.
func TestCanonical(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ arguments, want string }{
		{``, `{}`},
		{" \n\t ", `{}`},
		{"{}", `{}`},
		{" {\"a\" : 1 ,\n\"b\":[ true ,null]}\n", `{"a":1,"b":[true,null]}`},
		{`{"b":1,"a":2}`, `{"b":1,"a":2}`},
		{`{"n":9007199254740993,"m":1.50,"e":1E+2,"z":-0,"long":0.1000000000000000055511151231257827}`,
			`{"n":9007199254740993,"m":1.50,"e":1E+2,"z":-0,"long":0.1000000000000000055511151231257827}`},
		{`{"t":"\u003cb\u003e \u0026 \/ \u00e4 \ud83d\ude00 \u2028 \u202e"}`, "{\"t\":\"<b> & / ä 😀 \u2028 \u202e\"}"},
		{`{"t":"\u0009\u000a\u001f\\u0000\""}`, `{"t":"\t\n\u001f\\u0000\""}`},
		{`{"\u0074arget":1}`, `{"target":1}`},
		{`{"target":1,"Target":2}`, `{"target":1,"Target":2}`}, // two keys, and both are shown
		{`{"a":{"x":1},"b":{"x":2},"c":[{"x":3},{"x":4}]}`, `{"a":{"x":1},"b":{"x":2},"c":[{"x":3},{"x":4}]}`},
		{`{"":1}`, `{"":1}`},
	} {
		got, err := tool.Canonical(json.RawMessage(tt.arguments))
		if err != nil || string(got) != tt.want {
			t.Errorf("%.100s: got %s, %v; want %s", tt.arguments, got, err, tt.want)
			continue
		}

		if again, err := tool.Canonical(got); err != nil || string(again) != string(got) {
			t.Errorf("%.100s: the second time %s, %v", tt.arguments, again, err)
		}
	}
}

// S6: arguments that two readers could take for different things are bad, and the error names the key.
func TestBadArguments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ arguments, want string }{
		{`{"target":"prod","target":"test"}`, `the key "target" is there twice`},
		{`{"target":"prod","\u0074arget":"test"}`, `the key "target" is there twice`},
		{`{"a":{"b":[{"c":0},{"c":1,"d":2,"c":3}]}}`, `the key "a.b.1.c" is there twice`},
		{`{"target":1,"target":1}`, `the key "target" is there twice`},
		{`{"":1,"":2}`, `the key "" is there twice`},
		{`{"😀":1,"\ud83d\ude00":2}`, `the key "😀" is there twice`},
		{"{\"a\u202eb\":1,\"a\u202eb\":2}", `the key "a\u202eb" is there twice`},
		{`{"` + strings.Repeat("k", 10_000) + `":1,"` + strings.Repeat("k", 10_000) + `":2}`, `is there twice`},
		{`{"a":1} {"a":2}`, "not a JSON object"},
		{`{"a":1}x`, "not a JSON object"},
		{`{"a":1`, "not a JSON object"},
		{`{"a":1,}`, "not a JSON object"},
		{`{'a':1}`, "not a JSON object"},
		{`{"a":NaN}`, "not a JSON object"},
		{`{"a":01}`, "not a JSON object"},
		{"\ufeff{}", "not a JSON object"},
		{`null`, "not a JSON object"},
		{`[{"a":1}]`, "not a JSON object"},
		{`"{}"`, "not a JSON object"},
		{"{\"a\":\"\xff\"}", "not a JSON object"},
		{"{\"a\xff\":1}", "not a JSON object"},
		{`{"a":"\ud800"}`, "not a JSON object"},
		{`{"a":"\ude00\ud83d"}`, "not a JSON object"},
		{"{\"a\":\"\x00\"}", "not a JSON object"},
		{strings.Repeat(`{"a":`, 100_000), "not a JSON object"},
	} {
		got, err := tool.Canonical(json.RawMessage(tt.arguments))
		if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 1000 {
			t.Errorf("%.100s: got %s, %v; want %s", tt.arguments, got, err, tt.want)
		}

		called := false
		says := rawTool{func(tool.Call) { called = true }}
		r, err := tool.Do(t.Context(), says, tool.Policy{}, tool.Call{Arguments: json.RawMessage(tt.arguments)}, 0)
		if err != nil || !r.Failed || !strings.HasPrefix(r.Text, "Bad arguments: ") || called {
			t.Errorf("%.100s: %+v, %v, called %v", tt.arguments, r, err, called)
		}
	}
}

// rawTool is a tool that checks nothing itself.
type rawTool struct{ called func(tool.Call) }

func (rawTool) Spec() tool.Spec { return tool.Spec{Name: "raw"} }

func (r rawTool) Call(_ context.Context, c tool.Call) (tool.Result, error) {
	r.called(c)
	return tool.Result{Text: string(c.Arguments)}, nil
}

// S6: a Go function takes a key only as it is spelled, in structs at any depth, also where the schema lets other keys
// pass.
func TestFuncKeys(t *testing.T) {
	t.Parallel()
	type where struct {
		Country string `json:"country"`
	}

	type in struct {
		Target string           `json:"target"`
		Where  where            `json:"where,omitzero"`
		By     map[string]where `json:"by,omitempty"`
		Number int64            `json:"number,omitempty"`
		Any    any              `json:"any,omitempty"`
	}

	echo := tool.Func("echo", "", func(_ context.Context, in in) (heard, error) {
		return heard{in.Target, in.Where.Country, in.By["a"].Country, in.Number}, nil
	},
		tool.WithTouches(func(_ context.Context, in in) ([]string, error) { return []string{in.Target}, nil }))

	for _, tt := range []struct{ arguments, want string }{
		{`{"target":"prod"}`, `{"T":"prod","W":"","B":"","N":0}`},
		{
			`{"target":"prod","by":{"a":{"country":"x"},"A":{"country":"y"}},"number":9007199254740993}`,
			`{"T":"prod","W":"","B":"x","N":9007199254740993}`,
		},
		{`{"target":"prod","Target":"test"}`, "Bad arguments: "},
		{`{"Target":"test"}`, "Bad arguments: "},
		{`{"target":"prod","target":"test"}`, `Bad arguments: the key "target" is there twice`},
		{`{"target":"prod","where":{"country":"x","COUNTRY":"y"}}`, "Bad arguments: "},
		{
			`{"target":"prod","by":{"a":{"country":"x","\u0063ountry":"y"}}}`,
			`Bad arguments: the key "by.a.country" is there twice`,
		},
		{`{"target":"prod","any":{"x":1,"x":2}}`, `Bad arguments: the key "any.x" is there twice`},
	} {
		call := tool.Call{Arguments: json.RawMessage(tt.arguments)}
		r, err := echo.Call(t.Context(), call)
		if err != nil || !strings.HasPrefix(r.Text, tt.want) || r.Failed != strings.HasPrefix(tt.want, "Bad") {
			t.Errorf("%s: %+v, %v; want %s", tt.arguments, r, err, tt.want)
		}
		if touched, err := echo.(tool.Toucher).Touches(t.Context(), call); (err != nil) != r.Failed || err == nil &&
			!cmp.Equal(touched, []string{"prod"}) {
			t.Errorf("%s: touches %q, %v", tt.arguments, touched, err)
		}
	}

	var free struct{ Target string }
	for arguments, want := range map[string]string{
		`{"target":"x"}`: `"target": there is no such key`, `{"Target":"x","target":"y"}`: `"target": there is no such key`,
		`{"Target":"x","Target":"y"}`: `the key "Target" is there twice`, `{"Target":5}`: "Target: want string, not number",
		`[]`: "not a JSON object",
	} {
		if err := tool.Decode(json.RawMessage(arguments), &free); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arguments, err, want)
		}
	}
}

type heard struct {
	T, W, B string
	N       int64
}
