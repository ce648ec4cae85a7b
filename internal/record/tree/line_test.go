package tree_test

import (
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/record/tree"
)

const (
	traceback = `Traceback (most recent call last):
  File "/app/agent.py", line 12, in run
    return client.get(url)
           ^^^^^^^^^^^^^^^
  File "/app/client.py", line 40, in get
    raise TimeoutError(f"no answer within {n} s")
TimeoutError: no answer within 10 s
`
	group = `  + Exception Group Traceback (most recent call last):
  |   File "/app/a.py", line 9, in <module>
  |     main()
  | ExceptionGroup: two tasks failed (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/a.py", line 3, in one
    |     raise ValueError("first")
    | ValueError: first
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/app/a.py", line 5, in two
    |     raise KeyError("second")
    | KeyError: 'second'
    | a note
    +------------------------------------
`
	nestedGroup = `  + Exception Group Traceback (most recent call last):
  |   File "/app/a.py", line 9, in <module>
  | ExceptionGroup: outer (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | TypeError: never raised
    +---------------- 2 ----------------
    | ExceptionGroup: inner (2 sub-exceptions)
    +-+---------------- 1 ----------------
      | ValueError: a
      +---------------- 2 ----------------
      | ValueError: b
      +------------------------------------
`
	chained = traceback + `
During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/agent.py", line 20, in <module>
    main()
RuntimeError: the agent gave up
`
	goPanic = `panic: runtime error: index out of range [3] with length 3

goroutine 1 [running]:
main.main()
	/tmp/main.go:8 +0x1d
exit status 2
`
	javaTrace = `java.lang.IllegalStateException: pool is closed
	at com.acme.Pool.take(Pool.java:41)
	at com.acme.Agent.run(Agent.java:12)
Caused by: java.io.IOException: broken pipe
	... 12 more
`
)

// W2: of a text, the line that says what happened.
func TestLine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":           {"", ""},
		"blank":             {" \n\t\n", ""},
		"one line":          {"it broke", "it broke"},
		"blank lines first": {"\n \r\n  it broke  \nand more", "it broke"},
		"lines of Windows":  {"\r\nit broke\r\nand more", "it broke"},
		"a traceback":       {traceback, "TimeoutError: no answer within 10 s"},
		"after other words": {"the tool failed:\n" + traceback, "TimeoutError: no answer within 10 s"},
		"a chained one":     {chained, "RuntimeError: the agent gave up"},
		"many lines of message": {
			strings.TrimSuffix(traceback, "\n") + "\nsee the manual\n", "TimeoutError: no answer within 10 s",
		},
		"an indented message": {strings.Replace(traceback, "TimeoutError: no", "TimeoutError:\n  no", 1), "TimeoutError:"},
		"a repeated frame": {
			strings.Replace(traceback, "\nTimeoutError", "\n  [Previous line repeated 996 more times]\nTimeoutError", 1),
			"TimeoutError: no answer within 10 s",
		},
		"wholly indented": {"  " + strings.ReplaceAll(traceback, "\n", "\n  "), "TimeoutError: no answer within 10 s"},
		"a syntax error": {
			"  File \"a.py\", line 1\n    foo(\n       ^\nSyntaxError: '(' was never closed\n",
			"SyntaxError: '(' was never closed",
		},
		"no exception at all": {
			"Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    g()", "Traceback (most recent call last):",
		},
		"JSON in its frames": {
			strings.Replace(traceback, "return client.get(url)", `body = {"message": "hello"}`, 1),
			"TimeoutError: no answer within 10 s",
		},
		"JSON in its exception": {
			strings.Replace(traceback, "no answer within 10 s\n",
				"Error code: 400 - {\"error\": {\"message\": \"bad request\"}}\n", 1), "bad request",
		},
		"a group":               {group, "KeyError: 'second'"},
		"a nested group":        {nestedGroup, "ValueError: b"},
		"a group and then more": {group + strings.TrimPrefix(chained, traceback), "RuntimeError: the agent gave up"},
		"a group after another": {strings.TrimSuffix(chained, "\n") + "\n" + group, "KeyError: 'second'"},
		"a group of many": {
			strings.Replace(group, "    +------------------------------------",
				"    +---------------- ... ----------------\n    | and 3 more exceptions\n    +------------------------------------", 1), "KeyError: 'second'",
		},
		"Go":         {goPanic, "panic: runtime error: index out of range [3] with length 3"},
		"Java":       {javaTrace, "java.lang.IllegalStateException: pool is closed"},
		"JavaScript": {"TypeError: x is not a function\n    at run (agent.js:3:9)\n", "TypeError: x is not a function"},

		"JSON": {`{"message": "no such model"}`, "no such model"},
		"JSON of OpenAI": {
			`{"error": {"message": "no such model", "type": "invalid_request_error", "code": null}}`, "no such model",
		},
		"JSON of Anthropic": {
			`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, "Overloaded",
		},
		"JSON of Google": {
			`[{"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}}]`, "quota",
		},
		"the inner error comes first": {`{"message": "outer", "error": {"title": "inner"}}`, "inner"},
		"error before errors": {
			`{"errors": [{"message": "of the list"}], "error": {"message": "of the error"}}`, "of the error",
		},
		"the first of errors":   {`{"message": "outer", "errors": [{"detail": "first"}, {"detail": "second"}]}`, "first"},
		"errors that are texts": {`{"errors": ["first", "second"]}`, "first"},
		"OAuth": {
			`{"error": "invalid_grant", "error_description": "the token expired"}`, "the token expired",
		},
		"an error that is a text": {
			`{"status": 500, "error": "Internal Server Error", "path": "/x"}`, "Internal Server Error",
		},
		"RFC 9457":                  {`{"type": "about:blank", "title": "Not Found", "status": 404}`, "Not Found"},
		"detail before title":       {`{"title": "Not Found", "detail": "no plan p"}`, "no plan p"},
		"an empty message":          {`{"message": "", "detail": "no plan p"}`, "no plan p"},
		"a message that is no text": {`{"message": {"a": 1}, "detail": "no plan p"}`, "no plan p"},
		"deeper":                    {`{"error": {"error": {"message": "deep"}}}`, "deep"},
		"without a message":         {`{"code": 5}`, `{"code": 5}`},
		"at the end of a line": {
			"request failed: 400 Bad Request: {\"error\": {\"message\": \"bad\"}}\nretried twice", "bad",
		},
		"on a later line":          {"request failed\n{\"message\": \"bad\"}", "bad"},
		"over several lines":       {"HTTP 400: {\n  \"message\": \"bad\"\n}\n", "bad"},
		"not at the end of a line": {`got {"message": "bad"} from there`, `got {"message": "bad"} from there`},
		"braces before":            {`{x} failed: {"message": "bad"}`, "bad"},
		"cut JSON":                 {`{"message": "bad", "trace": "...`, "bad"},
		"cut in its message":       {`400: {"error": {"type": "limit", "message": "too many requ`, "too many requ"},
		"cut with a mark":          {`{"error": {"message": "bad", "body": {"a": [1, 2...[truncated]`, "bad"},
		"cut before its message":   {`{"status": 400, "trace": "abc`, `{"status": 400, "trace": "abc`},
		"without its middle": {
			`{"error": {"message": "bad", "body": "` + strings.Repeat("x", 4_000) + "\n" + strings.Repeat("x", 4_000) + `"}}`,
			"bad",
		},
		"without its middle, between values": {"{\"message\": \"bad\", \"list\": [1, 2\n345, 6]}", "bad"},
		"a time before cut JSON": {
			`[2026-11-26 10:00] 400: {"message": "bad", "trace": "` + strings.Repeat("x", 3<<20), "bad",
		},
		"broken in a line": {`got {"message": "bad", oops} there`, `got {"message": "bad", oops} there`},
		"megabytes before its message": {
			`{"trace": "` + strings.Repeat("x", 3<<20) + `", "message": "bad"}`, `{"trace": "` + strings.Repeat("x", 289),
		},
		"megabytes behind its message": {`{"message": "bad", "trace": "` + strings.Repeat("x", 3<<20) + `"}`, "bad"},
		"a message of many lines":      {`{"message": "\n first \n second"}`, "first"},
		"a traceback in JSON":          {`{"error": ` + quoted(traceback) + `}`, "TimeoutError: no answer within 10 s"},

		"colours":            {"\x1b[31mError:\x1b[0m no \x1b[1;4mroom\x1b[m left", "Error: no room left"},
		"a title":            {"\x1b]0;title\x07it broke", "it broke"},
		"a link":             {"see \x1b]8;;http://x\x1b\\here\x1b]8;;\x1b\\", "see here"},
		"one-byte forms":     {"\u009b31mit broke\u009b0m", "it broke"},
		"other escapes":      {"\x1b(Bit\x1b7 broke", "it broke"},
		"only escapes first": {"\x1b[2J\x1b[H\nit broke", "it broke"},
		"escapes in JSON":    {`{"message": "\u001b[31mbad\u001b[0m"}`, "bad"},
		"a coloured trace": {
			strings.ReplaceAll(traceback, "TimeoutError", "\x1b[1;35mTimeoutError\x1b[0m"),
			"TimeoutError: no answer within 10 s",
		},
		"300 characters":      {strings.Repeat("ü", 300), strings.Repeat("ü", 300)},
		"301 characters":      {strings.Repeat("ü", 301), strings.Repeat("ü", 300)},
		"a message too long":  {`{"message": "` + strings.Repeat("x", 900) + `"}`, strings.Repeat("x", 300)},
		"a long text of more": {strings.Repeat("x", 299) + " y" + "\nz", strings.Repeat("x", 299) + " "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tree.Line(tt.text); got != tt.want {
				t.Errorf("tree.Line(tt.text) = %q, want %q", got, tt.want)
			}
		})
	}
}

func quoted(s string) string {
	return `"` + strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(s) + `"`
}

// TestLineOfAnything: a line is short, is one line, and is empty only of what is blank.
func TestLineOfAnything(t *testing.T) {
	t.Parallel()
	pieces := rapid.SliceOf(rapid.SampledFrom([]string{
		"{", "}", "[", "]", `"message"`, `"error"`, ":", `"x"`, "\n", " ", "\x1b[31m", "\x1b", "a",
		"Traceback (most recent call last):\n", "  File \"a\", line 1\n", "  | ",
		"  +---------------- 1 ----------------\n", "\u009b", "\r", "é",
	}))

	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(pieces.Draw(rt, "text"), "")
		line := tree.Line(text)
		if utf8.RuneCountInString(line) > tree.MaxLine || strings.ContainsAny(line, "\n\r\x1b") {
			rt.Fatalf("%q: %q", text, line)
		}
	})
}

// TestLineReadsALimitedPart: what is read for a message has a bound, however long the text is and however often JSON
// begins in it. It counts what is allocated, so it does not run beside others.
func TestLineReadsALimitedPart(t *testing.T) {
	many := func(begin string) string { return strings.Repeat(begin, 8<<20/len(begin)) }
	long := `"` + strings.Repeat("y", 250<<10)
	for name, text := range map[string]string{
		"nested": many(`{"a":`), "lists": many(`[1,`), "broken": many(`{x `), "texts": many(`{"a": "b`),
		"broken before a long text": strings.Repeat("[x,", 200) + long,
		"loose before a long text":  strings.Repeat("[NaN,", 200) + long,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		tree.Line(text)
		runtime.ReadMemStats(&after)

		if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
			t.Errorf("%s: %d bytes are allocated", name, n)
		}
	}
}
