package scriptmodel_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// listen serves a script over HTTP. What it returns posts a request to the path of an API.
func listen(
	t *testing.T, script scriptmodel.Script,
) (*scriptmodel.Server, func(path, body string) (*http.Response, error)) {
	t.Helper()
	s, err := scriptmodel.Start(script, nil)
	if err != nil {
		t.Fatal(err)
	}

	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: transport}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})

	return s, func(path, body string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		return client.Do(r)
	}
}

var streamed = strings.Replace(hello, "{", `{"stream":true,"max_tokens":9,`, 1)

// TestBreak ends answers early, twice each.
func TestBreak(t *testing.T) {
	t.Parallel()
	overloaded := &scriptmodel.Failure{Status: 529, Message: "Overloaded"}

	for _, row := range []struct {
		name, path string
		broken     scriptmodel.Break
		events     int    // that come before the end
		last       string // part of the last of them
		err        error
	}{
		{"cut", "/chat/completions", scriptmodel.Break{After: 2}, 2, `"content":"0123`, io.ErrUnexpectedEOF},
		{"cut at once", "/chat/completions", scriptmodel.Break{Then: "cut"}, 0, "", io.ErrUnexpectedEOF},
		{"end", "/chat/completions", scriptmodel.Break{After: 2, Then: "end"}, 2, `"content":"0123`, nil},
		{"error", "/chat/completions",
			scriptmodel.Break{After: 1, Then: "end", Error: &scriptmodel.Failure{Status: 500, Code: "boom", Type: "odd"}}, 2,
			`{"error":{"message":"Internal Server Error","type":"odd","param":null,"code":"boom"}}`, nil},
		{"cut message", "/messages", scriptmodel.Break{After: 3}, 3, `"text":"0123`, io.ErrUnexpectedEOF},
		{"error in a message", "/messages", scriptmodel.Break{After: 3, Error: overloaded}, 4,
			`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, io.ErrUnexpectedEOF},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.broken.Times = 2
			_, post := listen(t, oneTurn(scriptmodel.Turn{Content: strings.Repeat("0123456789", 4), Break: &row.broken}))

			for range 2 {
				resp, err := post(row.path, streamed)
				if err != nil {
					t.Fatal(err)
				}

				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if got := bytes.Count(body, []byte("data: ")); resp.StatusCode != 200 || got != row.events ||
					!errors.Is(err, row.err) ||
					!strings.Contains(string(body[bytes.LastIndex(body, []byte("data: "))+1:]), row.last) {
					t.Errorf("status %d, %d events, %v:\n%s", resp.StatusCode, got, err, body)
				}
			}
		})
	}
}

// TestBreakOfWholeAnswers ends answers that are no streams, until they have ended often enough.
func TestBreakOfWholeAnswers(t *testing.T) {
	t.Parallel()
	_, post := listen(t, oneTurn(scriptmodel.Turn{Content: "x", Break: &scriptmodel.Break{After: 3, Times: 2}}))
	for range 2 {
		if resp, err := post("/chat/completions", hello); !errors.Is(err, io.EOF) {
			t.Errorf("resp = %v, %v", resp, err)
		}
	}

	_, fail := listen(t, oneTurn(scriptmodel.Turn{
		Content: "x", Break: &scriptmodel.Break{Error: &scriptmodel.Failure{Status: 503}, Times: 1},
	}))
	for _, row := range []struct {
		status int
		post   func(path, body string) (*http.Response, error)
	}{{200, post}, {503, fail}, {200, fail}} {
		resp, err := row.post("/chat/completions", hello)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != row.status {
			t.Errorf("status %d, want %d", resp.StatusCode, row.status)
		}
	}
}

// TestSilence reads the first events of streams that hang or are slow. The server ends them when it
// is closed.
func TestSilence(t *testing.T) {
	t.Parallel()
	for _, turn := range []scriptmodel.Turn{
		{Content: "x", Break: &scriptmodel.Break{After: 1, Then: "hang"}},
		{Content: "x", ChunkDelay: scriptmodel.Duration(time.Hour)},
	} {
		for _, path := range []string{"/chat/completions", "/messages"} {
			s, post := listen(t, oneTurn(turn))
			resp, err := post(path, streamed)
			if err != nil {
				t.Fatal(err)
			}

			lines := bufio.NewReader(resp.Body)
			for line := ""; line != "\n"; {
				if line, err = lines.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}

			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if rest, err := io.ReadAll(lines); len(rest) > 0 {
				t.Errorf("%s: after the first event: %q, %v", path, rest, err)
			}
			_ = resp.Body.Close()
		}
	}
}

// TestReasoning: reasoning comes before the content, and a changed signature is refused.
func TestReasoning(t *testing.T) {
	t.Parallel()
	script := oneTurn(scriptmodel.Turn{
		Content: "yes", Reasoning: "Is it really so?", NoUsage: true,
		Usage: &scriptmodel.Usage{Prompt: 9, Completion: 7, Reasoning: 4, CacheWrite: 2},
	})
	script.Scenes[0].Turns = append(script.Scenes[0].Turns, scriptmodel.Turn{Content: "again", Whole: true})
	h, post := serve(t, script, nil)

	w := post(streamed)
	if body := w.Body.String(); !strings.Contains(body, `{"role":"assistant","content":""}`) ||
		!strings.Contains(body, `{"reasoning_content":"Is it really so?"}`) || strings.Contains(body, "usage") {
		t.Errorf("w.Body.String() = %v", body)
	}

	if body := post(hello).Body.String(); !strings.Contains(body,
		`"content":"yes","refusal":null,"reasoning_content":"Is it really so?"}`) || strings.Contains(body, "usage") {
		t.Errorf("post(hello).Body.String() = %v", body)
	}
	if got := string(h.Requests()[0].Body); got != streamed {
		t.Errorf("recorded %s", got)
	}

	_, message := serveMessages(t, script, nil)
	got := fields(t, message(strings.Replace(streamed, "true", "false", 1)))
	signature, _ := got["content"].([]any)[0].(map[string]any)["signature"].(string)

	want := map[string]any{
		"content": []any{
			map[string]any{"type": "thinking", "thinking": "Is it really so?", "signature": signature},
			map[string]any{"type": "text", "text": "yes"},
		},
		"usage": map[string]any{
			"input_tokens": 7.0, "cache_creation_input_tokens": 2.0, "cache_read_input_tokens": 0.0, "output_tokens": 7.0,
			"output_tokens_details": map[string]any{"thinking_tokens": 4.0},
		},
	}
	if diff := cmp.Diff(want, map[string]any{"content": got["content"], "usage": got["usage"]}); diff != "" ||
		signature == "" {
		t.Errorf("want (-got +want):\n%s", diff)
	}

	if body := message(streamed).Body.String(); !strings.Contains(
		body, `{"type":"thinking_delta","thinking":"Is it really so?"}`,
	) ||
		!strings.Contains(body, fmt.Sprintf(`{"type":"signature_delta","signature":%q}`, signature)) {
		t.Errorf("message(streamed).Body.String() = %v", body)
	}
	for sent, status := range map[string]int{signature: 200, "forged": 400} {
		w := message(`{"model":"m-1","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":[` +
			fmt.Sprintf(
				`{"type":"thinking","thinking":"Is it really so?","signature":%q},{"type":"text","text":"yes"}]},{"role":"user","content":"why?"}]}`, sent,
			))
		if w.Code != status || w.Header().Get("Content-Type") != "application/json" { // a whole answer, or an error
			t.Errorf("signature %q: status %d, %s", sent, w.Code, w.Body)
		}
	}
}

func TestParseStreams(t *testing.T) {
	t.Parallel()
	for turn, problem := range map[string]string{
		`{"content":"x","reasoning":"y","noUsage":true,"whole":true,"chunkDelay":"1ms","break":{"after":3,"then":"hang","times":2,"error":{"status":529,"type":"t","code":"c"}}}`: "",
		`{"content":"x","chunkDelay":"-1ms"}`:               "negative delay",
		`{"content":"x","break":{"after":-1}}`:              `break with after -1, then "", times 0`,
		`{"content":"x","break":{"then":"explode"}}`:        `then "explode"`,
		`{"content":"x","break":{"error":{"status":200}}}`:  "error with status 200",
		`{"content":"x","break":{"times":-1,"then":"cut"}}`: "times -1",
	} {
		_, err := scriptmodel.Parse([]byte(`{"scenes":[{"name":"s","turns":[` + turn + `]}]}`))
		if problem == "" && err != nil || problem != "" && (err == nil || !strings.Contains(err.Error(), problem)) {
			t.Errorf("%s: %v, want %q", turn, err, problem)
		}
	}
}
