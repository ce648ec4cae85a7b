package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// lookers keep what they are told of the progress of calls.
type lookers struct {
	engine.Watcher
	mu   sync.Mutex
	told []string // attempt and progress
}

func (l *lookers) Progress(_, _, _ string, _ int64, toolCallID string, attempt int64, p record.Progress) {
	b, err := json.Marshal(p)
	if err != nil || !strings.HasPrefix(toolCallID, "toolcall-") {
		b = fmt.Append(nil, err, toolCallID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, fmt.Sprint(attempt, " ", string(b)))
}

func (l *lookers) Delta(string, string, string, int64, int64, string) {}
func (l *lookers) Reset(string, string, string, int64, int64)         {}

func (l *lookers) Answer(string, string, string, int64, int64, string) {}
func (l *lookers) ResetAnswer(string, string, string, int64, int64)    {}

// working returns a house with a tool, and what is told of its progress.
func working(t *testing.T, p tool.Policy, work func(context.Context) (string, error)) (*enginetest.House, *lookers) {
	t.Helper()
	h := deploys(t, []tool.Tool{tool.Func("work", "Works.", func(ctx context.Context, _ struct{}) (string, error) {
		return work(ctx)
	}, tool.WithPolicy(p))}, "work", `{}`)
	looks := &lookers{}
	h.Engine = h.NewEngine(func(c *engine.Config) { c.Watcher = looks })
	return h, looks
}

// A call that takes long says how far it has come: those who watch see it at once, and it is on record before the call
// ends. What is no number is not known, and the message is one line that may be on record.
func TestProgress(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	h, looks := working(t, tool.Policy{}, func(ctx context.Context) (string, error) {
		tool.Progress(ctx, 1, 3, " counting\n\tsk-secret \x00\xff "+strings.Repeat("ä", 1000))
		<-goOn
		tool.Progress(ctx, math.NaN(), math.Inf(1), "")
		return "done", nil
	})
	h.Parts.Secret = "sk-secret"
	h.Engine.SetProgressEvery(time.Millisecond)
	h.Work(h.Engine)
	id := h.Start("a", "Go.")

	message := "counting [secret] \uFFFD "
	message += strings.Repeat("ä", record.MaxProgressMessage-1-len([]rune(message))) + "…"
	want := `{"done":1,"total":3,"message":"` + message + `"}`
	var c *tree.ToolCall
	storetest.Until(t, "the progress is on record", func() bool {
		c = firstCall(h, id)
		return c != nil && c.Record.Progress != nil
	})
	if *c.Record.State != record.Running || string(c.Record.Progress) != want {
		t.Errorf("the call is %s: %s, want %s", *c.Record.State, c.Record.Progress, want)
	}

	close(goOn)
	h.Await(id, record.Completed)
	const none = `{"done":null,"total":null,"message":null}`
	if c = firstCall(h, id); string(c.Record.Progress) != none {
		t.Errorf("in the end it is %s", c.Record.Progress)
	}
	if got := strings.Join(looks.told, "\n"); got != "1 "+want+"\n1 "+none {
		t.Errorf("those who watch were told:\n%s", got)
	}
}

// A tool may report as often as it likes: what is told and written is bounded by time, and the last report is on record
// with the end of the call.
func TestProgressOfAFastTool(t *testing.T) {
	t.Parallel()
	const reports = 300_000
	var took time.Duration
	h, looks := working(t, tool.Policy{}, func(ctx context.Context) (string, error) {
		began := time.Now()
		for i := range reports {
			tool.Progress(ctx, float64(i+1), reports, "working")
		}
		took = time.Since(began)
		return "done", nil
	})

	written := 0
	h.Engine = h.NewEngine(func(c *engine.Config) {
		c.Watcher = looks
		c.Write = func(ctx context.Context, l runstore.Lease, changes []record.Change, ops ...runstore.RunOp) error {
			for _, each := range changes {
				if call, ok := each.(*record.ActTool); ok && call.Progress != nil {
					written++
				}
			}
			return c.Store.WriteRun(ctx, l, changes, ops...)
		}
	})
	h.Work(h.Engine)
	id := h.Start("a", "Go.")
	h.Await(id, record.Completed)

	c := firstCall(h, id)
	if want := fmt.Sprintf(`{"done":%d,"total":%d,"message":"working"}`, reports, reports); string(c.Record.Progress) != want {
		t.Errorf("on record is %s", c.Record.Progress)
	}
	t.Logf("%d reports took %s, of which %d were told and %d written", reports, took, len(looks.told), written)
	if most := int(took/(100*time.Millisecond)) + 3; len(looks.told) > most {
		t.Errorf("%d were told, want at most %d", len(looks.told), most)
	}
	if most := int(took/time.Second) + 2; written > most {
		t.Errorf("%d were written, want at most %d", written, most)
	}
}

// Another attempt begins without the progress of the one before. What a tool reports after its end says nothing.
func TestProgressOfAttempts(t *testing.T) {
	t.Parallel()
	var before context.Context
	h, looks := working(t, tool.Policy{Retry: soon(2)}, func(ctx context.Context) (string, error) {
		if before == nil {
			before = ctx
			tool.Progress(ctx, 1, 2, "half")
			return "", context.DeadlineExceeded
		}
		tool.Progress(before, 2, 2, "too late")
		return "done", nil
	})
	h.Work(h.Engine)
	id := h.Start("a", "Go.")
	h.Await(id, record.Completed)

	c := firstCall(h, id)
	if string(c.Record.Progress) != `{"done":null,"total":null,"message":null}` || len(c.PastAttempts) != 1 {
		t.Errorf("on record is %s:\n%s", c.Record.Progress, attemptsOf(c))
	}
	if got := strings.Join(looks.told, "\n"); got != `1 {"done":1,"total":2,"message":"half"}` {
		t.Errorf("those who watch were told:\n%s", got)
	}
}
