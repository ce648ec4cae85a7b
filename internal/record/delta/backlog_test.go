package delta_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/delta"
)

func cycle(seq int64) delta.Cycle {
	return delta.Cycle{RootPlanID: "root", PlanID: "plan", StepID: "step", Seq: seq}
}

// piece returns a delta of cycle 0.
func piece(attempt, offset int64, text string) delta.Delta {
	return delta.Delta{Cycle: cycle(0), Attempt: attempt, Offset: offset, Text: text}
}

// received reads what waits: of each cycle the text, and before it a "!" for each reset.
func received(b *delta.Backlog) (lines []string) {
	for d, ok := b.Next(); ok; d, ok = b.Next() {
		line := fmt.Sprintf("%d/%d %s", d.Seq, d.Attempt, d.Text)
		if d.Reset {
			line = fmt.Sprintf("%d/%d !", d.Seq, d.Attempt)
		}
		lines = append(lines, line)
	}
	return lines
}

// TestBacklog: a watcher that lacks a part of an answer receives a reset, then the rest. Deltas are
// added in turns; after each turn the watcher receives what waits.
func TestBacklog(t *testing.T) {
	t.Parallel()
	other := delta.Delta{Cycle: cycle(1), Attempt: 1, Text: "x"}

	for _, tt := range []struct {
		name  string
		turns [][]delta.Delta
		want  []string
	}{
		{"one after the other", [][]delta.Delta{{piece(1, 0, "ab")}, {piece(1, 2, "cd")}}, []string{"0/1 ab", "0/1 cd"}},
		{"together", [][]delta.Delta{{piece(1, 0, "ab"), other, piece(1, 2, "cd")}}, []string{"0/1 abcd", "1/1 x"}},
		{"from the middle", [][]delta.Delta{{piece(1, 5, "cd")}, {piece(1, 7, "ef")}}, []string{"0/1 !", "0/1 cd", "0/1 ef"}},
		{"from the second attempt", [][]delta.Delta{{piece(2, 0, "ab")}}, []string{"0/2 !", "0/2 ab"}},
		{"one is lost", [][]delta.Delta{{piece(1, 0, "ab")}, {piece(1, 4, "ef")}}, []string{"0/1 ab", "0/1 !", "0/1 ef"}},
		{
			"one is lost while another waits", [][]delta.Delta{{piece(1, 0, "ab"), piece(1, 4, "ef")}},
			[]string{"0/1 !", "0/1 ef"},
		},
		{
			"another attempt", [][]delta.Delta{
				{piece(1, 0, "ab")}, {{Cycle: cycle(0), Attempt: 2, Reset: true}}, {piece(2, 0, "AB")},
			}, []string{"0/1 ab", "0/2 !", "0/2 AB"},
		},
		{
			"another attempt whose reset is lost", [][]delta.Delta{{piece(1, 0, "ab")}, {piece(2, 0, "AB")}},
			[]string{"0/1 ab", "0/2 !", "0/2 AB"},
		},
		{
			"a reset and a text in one", [][]delta.Delta{
				{piece(1, 0, "ab"), {Cycle: cycle(0), Attempt: 2, Reset: true, Text: "AB"}},
			}, []string{"0/2 !", "0/2 AB"},
		},
		{
			"of a worker that lost the run", [][]delta.Delta{{piece(2, 0, "AB")}, {piece(1, 7, "gh")}, {piece(2, 2, "CD")}},
			[]string{"0/2 !", "0/2 AB", "0/2 CD"},
		},
		{
			"the same attempt again", [][]delta.Delta{
				{piece(1, 0, "ab")}, {{Cycle: cycle(0), Attempt: 1, Reset: true}, piece(1, 0, "AB")},
			}, []string{"0/1 ab", "0/1 !", "0/1 AB"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := delta.NewBacklog()
			var got []string

			for _, turn := range tt.turns {
				for _, d := range turn {
					b.Add(d)
				}
				got = append(got, received(b)...)
			}

			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestBacklogIsBounded: a watcher that reads nothing keeps a bounded amount of text of a bounded
// number of cycles waiting. It lacks the beginning, so a reset comes first.
func TestBacklogIsBounded(t *testing.T) {
	t.Parallel()
	b := delta.NewBacklog()
	text := strings.Repeat("x", 1_000)
	const pieces = 10_000
	for i := range pieces {
		b.Add(piece(1, int64(i*len(text)), text))
	}

	first, _ := b.Next()
	rest, ok := b.Next()
	if !first.Reset || !ok || rest.Reset || rest.Text == "" || len(rest.Text) > 128<<10 {
		t.Errorf("first a reset: %t, then %d bytes", first.Reset, len(rest.Text))
	}

	b.Add(piece(1, int64(pieces*len(text)), "end"))
	if got := received(b); !cmp.Equal(got, []string{"0/1 end"}) {
		t.Errorf("after it has caught up: %q", got)
	}

	for i := range pieces {
		b.Add(delta.Delta{Cycle: cycle(int64(i)), Attempt: 1, Text: "a"})
	}
	got := received(b)
	if len(got) > 1_000 || got[len(got)-1] != fmt.Sprintf("%d/1 a", pieces-1) {
		t.Errorf("%d cycles, the last is %s", len(got), got[len(got)-1])
	}

	gone := int64(pieces - 1_001) // fell out
	b.Add(delta.Delta{Cycle: cycle(gone), Attempt: 1, Offset: 1, Text: "b"})
	if want := []string{fmt.Sprintf("%d/1 !", gone), fmt.Sprintf("%d/1 b", gone)}; !cmp.Equal(received(b), want) {
		t.Errorf("a cycle that fell out has no reset")
	}
}
