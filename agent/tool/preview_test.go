package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
)

// A digest covers all of the text and of the parts, also what is not shown.
func TestNewPreview(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2*tool.MaxPreview)
	one := tool.NewPreview(tool.PreviewDiff, long, "a", "bc")
	if len(one.Text) > tool.MaxPreview || !strings.HasSuffix(one.Text, "(cut: the whole has 131072 bytes)") ||
		len(one.Digest) != 64 {
		t.Errorf("%d bytes, %q, %s", len(one.Text), one.Text[len(one.Text)-60:], one.Digest)
	}

	if again := tool.NewPreview(tool.PreviewDiff, long, "a", "bc"); again != one {
		t.Error("the same call has another preview")
	}
	for name, other := range map[string]tool.Preview{
		"the end of the text": tool.NewPreview(tool.PreviewDiff, long[1:]+"y", "a", "bc"),
		"the borders":         tool.NewPreview(tool.PreviewDiff, long, "ab", "c"),
		"a part":              tool.NewPreview(tool.PreviewDiff, long, "a", "bd"),
		"no part":             tool.NewPreview(tool.PreviewDiff, long),
		"the kind":            tool.NewPreview(tool.PreviewText, long, "a", "bc"),
	} {
		if other.Digest == one.Digest {
			t.Errorf("%s: the digest is the same", name)
		}
	}

	if text := tool.NewPreview(tool.PreviewText, "a\x00b\xff").Text; text != "a\uFFFDb\uFFFD" {
		t.Errorf("text = %q", text)
	}
}

// What was approved is done, and nothing else.
func TestCheckApproved(t *testing.T) {
	t.Parallel()
	now := tool.NewPreview(tool.PreviewStatement, "DELETE FROM a")
	for approved, want := range map[string]error{
		"": nil, now.Digest: nil, tool.NewPreview(tool.PreviewStatement, "DELETE FROM b").Digest: tool.ErrChanged,
		"x": tool.ErrChanged,
	} {
		if err := (tool.Call{Approved: approved}).CheckApproved(now); !errors.Is(err, want) {
			t.Errorf("approved %q: %v", approved, err)
		}
	}
}

type destination struct {
	City string `json:"city"`
}

// previews returns a function tool with a preview.
func previews(show func(context.Context, tool.Call, destination) (tool.Preview, error)) tool.Tool {
	return tool.Func("move", "Moves.", func(context.Context, destination) (string, error) { return "moved", nil },
		tool.WithPreview(show))
}

func TestPreviewOf(t *testing.T) {
	t.Parallel()
	call := tool.Call{ID: "c1", Arguments: json.RawMessage(`{"city":"Rome"}`)}
	whole := previews(func(_ context.Context, c tool.Call, in destination) (tool.Preview, error) {
		return tool.NewPreview(tool.PreviewText, in.City+" "+c.ID), nil
	})
	if p, can, err := tool.PreviewOf(t.Context(), whole, tool.Policy{}, call); err != nil || !can || p.Text != "Rome c1" {
		t.Errorf("tool.PreviewOf = %+v, %v, %v", p, can, err)
	}

	for name, tt := range map[string]struct {
		tool tool.Tool
		call tool.Call
		can  bool
		says string
	}{
		"no previews": {tool: tool.Func("move", "", func(context.Context, destination) (string, error) { return "", nil }),
			call: call},
		"no Previewer": {tool: rawTool{}, call: call},
		"nothing to do": {can: true, says: "nothing is staged", call: call,
			tool: previews(func(context.Context, tool.Call, destination) (tool.Preview, error) {
				return tool.Preview{}, errors.New("nothing is staged")
			})},
		"an empty one": {can: true, says: "does not say", call: call,
			tool: previews(func(context.Context, tool.Call, destination) (tool.Preview, error) {
				return tool.Preview{}, nil
			})},
		"a panic": {can: true, says: "the tool failed: oh", call: call,
			tool: previews(func(context.Context, tool.Call, destination) (tool.Preview, error) {
				panic("oh")
			})},
		"bad arguments": {can: true, says: "city", tool: whole},
		"too slow": {can: true, says: "in time", call: call,
			tool: previews(func(ctx context.Context, _ tool.Call, _ destination) (tool.Preview, error) {
				<-ctx.Done()
				return tool.Preview{}, ctx.Err()
			})},
	} {
		_, can, err := tool.PreviewOf(t.Context(), tt.tool, tool.Policy{Timeout: 50 * time.Millisecond}, tt.call)
		if can != tt.can || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, %v; want %v, %q", name, can, err, tt.can, tt.says)
		}
	}

	defer func() {
		if recover() == nil {
			t.Error("a preview for other arguments is taken")
		}
	}()
	tool.Func("move", "", func(context.Context, struct{}) (string, error) { return "", nil },
		tool.WithPreview(func(context.Context, tool.Call, destination) (tool.Preview, error) { return tool.Preview{}, nil }))
}

func TestVerify(t *testing.T) {
	t.Parallel()
	call := tool.Call{ID: "c1", Arguments: json.RawMessage(`{"city":"Rome"}`)}
	verifies := func(find func(context.Context, tool.Call, destination) (tool.Result, bool, error)) tool.Tool {
		return tool.Func("move", "", func(context.Context, destination) (string, error) { return "", nil },
			tool.WithVerify(find))
	}
	found := verifies(func(_ context.Context, c tool.Call, in destination) (tool.Result, bool, error) {
		return tool.Result{Text: strings.Repeat(in.City, tool.MaxText)}, c.ID == "c1", nil
	})

	if r, done, err := tool.Verify(t.Context(), found, tool.Policy{}, call); err != nil || !done ||
		!strings.HasPrefix(r.Text, "Rome") || len(r.Text) > tool.MaxText {
		t.Errorf("%d bytes, %v, %v", len(r.Text), done, err)
	}

	call.ID = "c2"
	panics := verifies(func(context.Context, tool.Call, destination) (tool.Result, bool, error) { panic("oh") })
	for name, each := range map[string]tool.Tool{"another call": found, "no Verifier": rawTool{}, "cannot": previews(nil),
		"a panic": panics} {
		if r, done, err := tool.Verify(t.Context(), each, tool.Policy{}, call); done || r.Text != "" ||
			(err != nil) != (name == "a panic") {
			t.Errorf("%s: %+v, %v, %v", name, r, done, err)
		}
	}
}
