package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// completion is a chat completion that arrives.
type completion struct {
	run    string // the id of its run
	events *bufio.Scanner
	text   strings.Builder
	finish string
	code   string // of its error
	done   bool   // it ended with [DONE]
}

// completes asks a server for a completion as a stream, as clients of OpenAI do.
func completes(t *testing.T, server *program, key string) *completion {
	t.Helper()
	const body = `{"model":"agent/helper","stream":true,"messages":[{"role":"user","content":"Help."}]}`
	url := server.url + "/v1/chat/completions"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}

	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("answer.Status = %v", answer.Status)
	}
	return &completion{run: answer.Header.Get("X-Actlog-Run"), events: bufio.NewScanner(answer.Body)}
}

// read reads until it has so many bytes of the answer, or has ended.
func (c *completion) read(t *testing.T, least int) {
	t.Helper()
	for c.text.Len() < least && c.events.Scan() {
		data, ok := strings.CutPrefix(c.events.Text(), "data: ")
		switch {
		case !ok:
			continue // a comment, or the line between two events
		case data == "[DONE]":
			c.done = true
			continue
		}

		var piece struct {
			Choices []struct {
				Delta        struct{ Content string }
				FinishReason string `json:"finish_reason"`
			}
			Error struct{ Code string }
		}

		if err := json.Unmarshal([]byte(data), &piece); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		c.code += piece.Error.Code
		for _, choice := range piece.Choices {
			c.text.WriteString(choice.Delta.Content)
			c.finish += choice.FinishReason
		}
	}
}

// whole is more than any answer has.
const whole = 1 << 20

// talker has an agent that appends to a file, and then answers: slowly at first, and with another text from the second
// time on if there is one.
type talker struct {
	*house
	first string
	asked atomic.Int64 // how often the model was asked for the answer
}

func newTalker(t *testing.T, another string) *talker {
	t.Helper()
	a := &talker{first: strings.Repeat("It begins like this. ", 40) + "This is the end."}
	appends := calls("files-append_file", map[string]string{"path": "once.txt", "content": "once\n"})
	appends.Content = "I write." // a process that has sent no text yet first learns who watches
	agents := "  helper: {description: Helps, tools: [\"files.*\"]}\npolicies:\n" +
		"  - {tools: \"files.*\", approval: false}\n"

	a.house = newHouse(t, agents, scriptmodel.Scene{Name: "s", Turns: []scriptmodel.Turn{
		appends,
		{Reply: func(ctx context.Context, _ *scriptmodel.Request) (scriptmodel.Turn, error) {
			if a.asked.Add(1) > 1 && another != "" {
				return says(another), nil
			}
			slow := says(a.first)
			if a.asked.Load() == 1 {
				slow.Delay, slow.ChunkDelay = scriptmodel.Duration(2*time.Second), scriptmodel.Duration(100*time.Millisecond)
			}
			return slow, nil
		}},
	}})
	return a
}

// check expects of a completion that it is that of a run, and has an answer once.
func (a *talker) check(t *testing.T, c *completion, run, answer string) {
	t.Helper()
	c.read(t, whole)
	if c.run != run || c.text.String() != answer || c.finish != "stop" || !c.done || c.code != "" {
		t.Errorf("run %s, not %s: %q %q %q, done: %t", c.run, run, c.text.String(), c.finish, c.code, c.done)
	}
}

// broken expects of a completion that it sent the beginning of the first answer, and then that there is another.
func (a *talker) broken(t *testing.T, c *completion) {
	t.Helper()
	c.read(t, whole)
	if c.done || c.finish != "" || c.code != "answer_restarted" || !strings.HasPrefix(a.first, c.text.String()) {
		t.Errorf("%q %q %q, done: %t", c.text.String(), c.finish, c.code, c.done)
	}
}

// once expects that there was one run, whose call took effect once.
func (a *talker) once(t *testing.T, server *program) {
	t.Helper()
	written, err := os.ReadFile(filepath.Join(a.dir, "once.txt"))
	if string(written) != "once\n" {
		t.Errorf("the tool has written %q: %v", written, err)
	}

	var list struct{ Items []struct{ PlanID string } }
	if err := json.Unmarshal([]byte(body(t, server.url+"/api/v1/runs")), &list); err != nil || len(list.Items) != 1 {
		t.Errorf("runs: %+v %v", list, err)
	}
}

// TestCompletionWhoseWorkerIsKilled kills the worker that carries a completion after part of the answer was sent.
// Another goes on with the run. The stream ends with the whole answer, or with an error if that is another by then; the
// same request with the same key has the whole answer of the same run.
func TestCompletionWhoseWorkerIsKilled(t *testing.T) {
	t.Parallel()
	for name, another := range map[string]string{"the same answer": "", "another answer": "Something else."} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newTalker(t, another)
			server := a.serve(t, 0)
			work := []string{"work", "--database-url", a.database, "--config", a.config, "--workers", "1"}
			doomed := begin(t, work...)

			c := completes(t, server, "once")
			c.read(t, 40)
			doomed.kill(t)
			attached := completes(t, server, "once") // while nobody carries the run
			begin(t, work...)

			answer := a.first
			if another == "" {
				a.check(t, c, c.run, answer)
			} else {
				answer = another
				a.broken(t, c)
			}

			a.check(t, attached, c.run, answer)
			a.check(t, completes(t, server, "once"), c.run, answer)
			a.once(t, server)
			if n := a.asked.Load(); n != 2 {
				t.Errorf("the model was asked for the answer %d times", n)
			}
		})
	}
}

// TestCompletionWhoseServerIsKilled kills a server that carries its completions itself. The client loses its
// connection, and nothing that it was sent says that the answer is whole. The next server on the same database goes on,
// and the same request with the same key has the whole answer of the same run.
func TestCompletionWhoseServerIsKilled(t *testing.T) {
	t.Parallel()
	a := newTalker(t, "")
	doomed := a.serve(t, 1)

	c := completes(t, doomed, "once")
	c.read(t, 40)
	doomed.kill(t)
	c.read(t, whole)
	if c.done || c.finish != "" || c.events.Err() == nil && c.text.String() == a.first {
		t.Errorf("a broken stream ended well: %q %q %v", c.text.String(), c.finish, c.events.Err())
	}

	next := a.serve(t, 1)
	a.check(t, completes(t, next, "once"), c.run, a.first)
	a.check(t, completes(t, next, "once"), c.run, a.first)
	a.once(t, next)
}
