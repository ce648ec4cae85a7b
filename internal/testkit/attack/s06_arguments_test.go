//go:build attack

package attack_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// S6: what the approver is shown is what is sent.

// written are arguments that a model may write: whether they are good, and could be sent.
var written = []struct {
	name, text string
	good       bool
}{
	{"plain", `{"item":"test","run":"RUN"}`, true},
	{"spaces and order", "{ \"run\" : \"RUN\" ,\n\t\"item\":\"test\" }", true},
	{"a number that no float holds exactly", `{"item":"test","run":"RUN","amount":12345678901234567890}`, true},
	{"a decimal", `{"item":"test","run":"RUN","amount":0.1000,"other":1E2,"zero":-0.0}`, true},
	{"escapes", `{"item":"t\u0065st \u00e9 \ud83d\ude00 <b>&\u2028","run":"RUN"}`, true},
	{"names that differ in case", `{"item":"test","Item":"prod","run":"RUN"}`, true},
	{"a nested object", `{"item":"test","more":{"a":[1,{"b":null}],"c":true},"run":"RUN"}`, true},
	{"bidi", "{\"item\":\"a\u202etset\",\"run\":\"RUN\"}", true},

	{"a key twice", `{"item":"prod","item":"test","run":"RUN"}`, false},
	{"a key twice, the same value", `{"item":"test","item":"test","run":"RUN"}`, false},
	{"a key twice, one escaped", `{"item":"prod","\u0069tem":"test","run":"RUN"}`, false},
	{"a key three times", `{"item":"a","run":"RUN","item":"b","item":"c"}`, false},
	{"a nested key twice", `{"item":"test","more":{"to":"prod","to":"test"},"run":"RUN"}`, false},
	{"a key twice in a list", `{"item":"test","more":[{"to":"prod","to":"test"}],"run":"RUN"}`, false},
	{"the mark twice", `{"item":"test","run":"RUN","run":"RUN"}`, false},
	{"two objects", `{"item":"test","run":"RUN"}{"item":"prod","run":"RUN"}`, false},
	{"text behind", `{"item":"test","run":"RUN"} prod`, false},
	{"a list", `[{"item":"test","run":"RUN"}]`, false},
	{"a text", `"RUN"`, false},
	{"half of an object", `{"item":"test","run":"RUN"`, false},
	{"single quotes", `{'item':'test','run':'RUN'}`, false},
	{"a comment", `{"item":"test",/* "item":"prod" */"run":"RUN"}`, false},
	{"half a surrogate pair", `{"item":"test\ud83d","run":"RUN"}`, false},
}

func TestS6Arguments(t *testing.T) {
	t.Parallel()
	agents, more := object{}, []scriptmodel.Scene{}
	for i, w := range written {
		for _, tool := range []string{"bank-pay", "bank-note"} {
			name := fmt.Sprintf("writes-%s-%02d", tool, i)
			rounds := [][]act{{{tool, w.text}}}
			agents[name], more = agentWith(name, rounds), append(more, scene(name, rounds))
		}
	}

	h := open(t, setting{config: object{"agents": agents}, scenes: more})
	for i, w := range written {
		for _, tool := range []string{"bank-pay", "bank-note"} {
			what := tool + ", " + w.name
			r := h.start(fmt.Sprintf("writes-%s-%02d", tool, i))
			r.waits()
			v := r.view()
			var shown json.RawMessage
			if len(v.Waits) > 0 {
				shown = v.Waits[0].Parameters
			}

			if asks := tool == "bank-pay" && w.good; asks != (shown != nil) {
				t.Errorf("%s: an approval is asked for: %v; want %v: %s", what, shown != nil, asks, clipDiff(v.raw))
			}

			o := r.finish()
			sent := h.tools.rawOf(r.mark)
			switch {
			case !w.good && len(o.Effects)+len(sent) > 0:
				t.Errorf("%s: bad arguments were sent: %s", what, sent)
				continue
			case w.good && len(sent) != 1:
				t.Errorf("%s: sent %d times; %+v", what, len(sent), o)
				continue
			case !w.good:
				continue
			}

			var call struct {
				Params struct{ Arguments jsontext.Value }
			}
			if err := json.Unmarshal([]byte(sent[0]), &call); err != nil {
				t.Errorf("%s: %v in %s", what, err, sent[0])
				continue
			}

			meant := strings.ReplaceAll(w.text, "RUN", r.mark)
			if got, want := canonical(t, string(call.Params.Arguments)), canonical(t, meant); got != want {
				t.Errorf("%s: the server received %s, and the model wrote %s", what, got, want)
			}
			if shown != nil {
				if got, want := canonical(t, string(call.Params.Arguments)), canonical(t, string(shown)); got != want {
					t.Errorf("%s: the server received %s, and the approver saw %s", what, got, want)
				}
			}
		}
	}
}

// canonical is a JSON text with its members in order, and its numbers as they are written.
func canonical(t *testing.T, text string) string {
	t.Helper()
	v := jsontext.Value(bytes.Clone([]byte(text)))
	if err := v.Format(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false),
		jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(false)); err != nil {
		t.Errorf("%v in %q", err, text)
	}
	return string(v)
}
