package engine_test

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/pgtest"
)

// A15: the JSON of an answer is read bare and in fences, and nothing in it can end a fence early.
func TestReadAnswer(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is read, and how much of it")
	t.Parallel()
	const f = "```"

	for name, tt := range map[string]struct{ answer, text, error string }{
		"bare":                    {` {"text": "a"} `, "a", ""},
		"json fence":              {f + "json\n{\"text\":\"a\"}\n" + f, "a", ""},
		"JSON fence":              {f + "JSON\r\n{\"text\":\"a\"}\r\n" + f, "a", ""},
		"fence":                   {f + "\n{\"text\":\"a\"}\n" + f, "a", ""},
		"fence in a line":         {f + `{"text":"a"}` + f, "a", ""},
		"text around":             {"Here [it] is:\n" + f + "json\n{\"text\":\"a\"}\n" + f + "\nDone {}.", "a", ""},
		"no end of the fence":     {f + "json\n{\"text\":\"a\"}", "a", ""},
		"bare with a fence in it": {`{"text":"` + f + `json {} ` + f + `"}`, f + "json {} " + f, ""},
		"a fence in a fence": {
			f + "json\n{\"text\":\"" + f + "json\\n{}\\n" + f + "\"}\n" + f, f + "json\n{}\n" + f, "",
		},
		"the first of several":   {f + "\n{\"text\":\"a\"}\n" + f + "\n" + f + "\n{\"text\":\"b\"}\n" + f, "a", ""},
		"after another language": {f + "python\nprint({})\n" + f + "\n" + f + "json\n{\"text\":\"a\"}\n" + f, "a", ""},
		"empty":                  {"", "", "unexpected end of JSON input"},
		"text":                   {"I cannot.", "", "invalid character 'I' looking for beginning of value"},
		"JSON and text":          {`{"text":"a"} Done.`, "", "invalid character 'D' after top-level value"},
		"cut off":                {f + "json\n{\"text\":\"a", "", "unexpected EOF"},
		"two values":             {f + "\n{} {}\n" + f, "", "text follows the JSON of the code fence, at byte 3 of it"},
		"an empty fence":         {f + "json\n" + f, "", "invalid character '`' looking for beginning of value"},
		"of another type": {
			`{"text":1}`, "", "json: cannot unmarshal number into Go struct field .Text of type string",
		},
		"deep":        {f + "\n" + strings.Repeat("[", 1<<20), "", "exceeded max depth"},
		"many fences": {strings.Repeat(f+"[\"", 1<<18), "", "invalid character '`' after array element"},
		"huge":        {f + "\n{\"text\":\"" + strings.Repeat("a", 1<<22) + "\"}\n" + f, strings.Repeat("a", 1<<22), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got struct{ Text string }
			err := engine.ReadAnswer(tt.answer, &got)
			if tt.error == "" {
				if err != nil || got.Text != tt.text {
					t.Errorf("got.Text = %.100q %v", got.Text, err)
				}
				return
			}
			if err == nil || !strings.HasSuffix(err.Error(), tt.error) {
				t.Errorf("engine.ReadAnswer(tt.answer, &got) = %v, want %s", err, tt.error)
			}
		})
	}
}
