package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/record"
)

// wiki is a text that a tool replaces: what the call would do depends on what is there.
type wiki struct {
	mu       sync.Mutex
	now      string
	shown    int // how often it was asked for a preview
	approved []string
}

type revision struct {
	Text string `json:"text"`
}

func (p *wiki) set(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = text
}

func (p *wiki) preview(_ context.Context, _ tool.Call, in revision) (tool.Preview, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown++
	return p.change(in)
}

func (p *wiki) change(in revision) (tool.Preview, error) {
	if in.Text == p.now {
		return tool.Preview{}, errors.New("nothing would change")
	}
	return tool.NewPreview(tool.PreviewDiff, "-"+p.now+"\n+"+in.Text+"\n"), nil
}

func (p *wiki) replace(_ context.Context, c tool.Call, in revision) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.approved = append(p.approved, c.Approved)
	now, err := p.change(in)
	if err == nil {
		err = c.CheckApproved(now)
	}
	if err != nil {
		return "", err
	}

	p.now = in.Text
	return "replaced", nil
}

func (p *wiki) tool(policy tool.Policy) tool.Tool {
	return tool.CallFunc("replace", "Replaces.", p.replace, tool.WithPolicy(policy), tool.WithPreview(p.preview))
}

// A human is shown what a call would do, and approves that and nothing else.
func TestPreviewIsApproved(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		meanwhile string
		state     record.State
		result    string
	}{
		"as it was":      {"old sk-secretsecretsecret", record.Completed, "replaced"},
		"something else": {"other", record.Failed, tool.ErrChanged.Error()},
		"nothing to do":  {"new", record.Failed, "nothing would change"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &wiki{now: "old sk-secretsecretsecret"}
			h := deploys(t, []tool.Tool{p.tool(tool.Policy{Approval: true, Writes: true})}, "replace", `{"text":"new"}`)
			h.Parts.Secret = "sk-secretsecretsecret"
			h.Work(h.Engine)
			id := h.Start("a", "Go.")
			h.Await(id, record.Waiting)

			wait := waitOf(t, h)
			want := tool.NewPreview(tool.PreviewDiff, "-old sk-secretsecretsecret\n+new\n")
			got := decision.SubjectOf(&wait).Preview
			if got == nil || got.Kind != string(want.Kind) || got.SHA256 != want.Digest ||
				got.Text != h.Parts.Redact(want.Text) {
				t.Fatalf("a human is shown %+v of %s", got, wait.Subject)
			}
			if text(wait.SubjectSHA256) != sha(string(wait.Subject)) {
				t.Errorf("the hash is not that of %s", wait.Subject)
			}

			p.set(tt.meanwhile)
			if err := h.Decide(wait, record.Approved, "approve", ""); err != nil {
				t.Fatal(err)
			}

			row := h.Step(h.Ended(id)).Cycles[0].ToolCalls[0].Record
			if *row.State != tt.state || text(row.Result) != tt.result {
				t.Errorf("the call is %s: %q", *row.State, text(row.Result))
			}
			if p.shown != 1 || len(p.approved) != 1 || p.approved[0] != want.Digest {
				t.Errorf("%d previews, approved were %q", p.shown, p.approved)
			}
		})
	}
}

// Where there is nothing to do nobody is asked, and the model reads why.
func TestNothingToApprove(t *testing.T) {
	t.Parallel()
	p := &wiki{now: "new"}
	h := deploys(t, []tool.Tool{p.tool(tool.Policy{Approval: true, Writes: true})}, "replace", `{"text":"new"}`)
	h.Work(h.Engine)

	row := h.Step(h.Ended(h.Start("a", "Go."))).Cycles[0].ToolCalls[0].Record
	if *row.State != record.Failed || text(row.Result) != "nothing would change" || row.StartTime != nil ||
		len(h.Waits()) != 0 || len(p.approved) != 0 {
		t.Errorf("the call is %s: %q; %d waits", *row.State, text(row.Result), len(h.Waits()))
	}
}

// Without an approval nobody needs a preview.
func TestNoPreviewWithoutApproval(t *testing.T) {
	t.Parallel()
	p := &wiki{now: "old"}
	h := deploys(t, []tool.Tool{p.tool(tool.Policy{Writes: true})}, "replace", `{"text":"new"}`)
	h.Work(h.Engine)

	row := h.Step(h.Ended(h.Start("a", "Go."))).Cycles[0].ToolCalls[0].Record
	if *row.State != record.Completed || p.shown != 0 || len(p.approved) != 1 || p.approved[0] != "" {
		t.Errorf("the call is %s: %q; %d previews, approved were %q", *row.State, text(row.Result), p.shown, p.approved)
	}
}

// A tool that knows that a call took effect ends the question what became of it: it is not made again, whatever the
// policy says, and nobody is asked.
func TestVerified(t *testing.T) {
	t.Parallel()
	for _, policy := range []tool.OnUnknown{tool.Report, tool.Retry, tool.Ask} {
		for _, took := range []bool{true, false} {
			t.Run(fmt.Sprint(policy, took), func(t *testing.T) {
				t.Parallel()
				var calls int
				lost := tool.CallFunc("replace", "Replaces.", func(context.Context, tool.Call, revision) (string, error) {
					if calls++; calls == 1 {
						return "", fmt.Errorf("the connection broke: %w", tool.ErrUnknown)
					}
					return "made again", nil
				}, tool.WithPolicy(tool.Policy{OnUnknown: policy, Writes: true, WaitTimeout: time.Millisecond}), tool.WithVerify(
					func(_ context.Context, c tool.Call, in revision) (tool.Result, bool, error) {
						return tool.Result{Text: "It is there: " + in.Text}, took && strings.HasPrefix(c.ID, "toolcall-"), nil
					}))

				h := deploys(t, []tool.Tool{lost}, "replace", `{"text":"new"}`)
				h.Work(h.Engine)

				row := h.Step(h.Ended(h.Start("a", "Go."))).Cycles[0].ToolCalls[0].Record
				state, result := record.Completed, "It is there: new"
				switch {
				case !took && policy == tool.Retry:
					result = "made again"
				case !took:
					state, result = record.Unknown, engine.UnknownText
				}
				if *row.State != state || text(row.Result) != result {
					t.Errorf("the call is %s: %q", *row.State, text(row.Result))
				}

				var waits int
				if err := h.DB.Pool.QueryRow(t.Context(), "SELECT count(*) FROM actlog.wait_state").Scan(&waits); err != nil ||
					(waits > 0) != (!took && policy == tool.Ask) {
					t.Errorf("%d waits, %v", waits, err)
				}
			})
		}
	}
}

// A tool that finds out whether a call took effect knows what was approved, also in another process.
func TestVerifyKnowsWhatWasApproved(t *testing.T) {
	t.Parallel()
	var approved, verified string
	lost := tool.CallFunc("replace", "Replaces.", func(_ context.Context, c tool.Call, _ revision) (string, error) {
		approved = c.Approved
		return "", fmt.Errorf("the connection broke: %w", tool.ErrUnknown)
	}, tool.WithPolicy(tool.Policy{Approval: true, Writes: true}),
		tool.WithPreview(func(_ context.Context, _ tool.Call, in revision) (tool.Preview, error) {
			return tool.NewPreview(tool.PreviewText, in.Text), nil
		}), tool.WithVerify(func(_ context.Context, c tool.Call, _ revision) (tool.Result, bool, error) {
			verified = c.Approved
			return tool.Result{Text: "It is there."}, true, nil
		}))

	h := deploys(t, []tool.Tool{lost}, "replace", `{"text":"new"}`)
	h.Work(h.Engine)
	id := h.Start("a", "Go.")
	h.Await(id, record.Waiting)
	if err := h.Decide(waitOf(t, h), record.Approved, "approve", ""); err != nil {
		t.Fatal(err)
	}

	row := h.Step(h.Ended(id)).Cycles[0].ToolCalls[0].Record
	want := tool.NewPreview(tool.PreviewText, "new").Digest
	if *row.State != record.Completed || text(row.Result) != "It is there." || approved != want || verified != want {
		t.Errorf("the call is %s: %q; approved %q, verified %q, want %q", *row.State, text(row.Result), approved, verified,
			want)
	}
}

// A worker that is taken for lost may go on for a while. If the call takes effect only then, the next attempt finds
// that it cannot work any more, and why: the call is over, and did not fail.
func TestVerifiedLate(t *testing.T) {
	t.Parallel()
	for _, approval := range []bool{true, false} {
		t.Run(fmt.Sprint(approval), func(t *testing.T) {
			t.Parallel()
			p := &wiki{now: "old"}
			var began, asked atomic.Int64

			lost := tool.CallFunc("replace", "Replaces.", func(ctx context.Context, c tool.Call, in revision) (string, error) {
				if began.Add(1) == 1 {
					return "", fmt.Errorf("the connection broke: %w", tool.ErrUnknown)
				}
				return p.replace(ctx, c, in)
			}, tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry, Writes: true, Approval: approval}),
				tool.WithPreview(p.preview), tool.WithVerify(
					func(_ context.Context, _ tool.Call, in revision) (tool.Result, bool, error) {
						if asked.Add(1) == 1 {
							p.set(in.Text) // just after it was looked at
							return tool.Result{}, false, nil
						}
						return tool.Result{Text: "It is there."}, true, nil
					}))

			h := deploys(t, []tool.Tool{lost}, "replace", `{"text":"new"}`)
			ctx, cancel := context.WithCancel(t.Context())
			var answering sync.WaitGroup
			answering.Go(func() { answer(ctx, h) })
			defer func() { cancel(); answering.Wait() }()
			h.Work(h.Engine)

			row := h.Step(h.Ended(h.Start("a", "Go."))).Cycles[0].ToolCalls[0].Record
			if *row.State != record.Completed || text(row.Result) != "It is there." || *row.Attempt != 2 || asked.Load() != 2 {
				t.Errorf("the call is %s: %q, attempt %d", *row.State, text(row.Result), *row.Attempt)
			}
		})
	}
}
