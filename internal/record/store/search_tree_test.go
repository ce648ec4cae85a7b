package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// foundTexts says what was found: row, kind, field and the snippet.
func foundTexts(hits []store.Hit) string {
	var b strings.Builder
	for _, h := range hits {
		fmt.Fprintf(&b, "%d %s%s%s %s: %s[%s]%s\n", h.Row, h.Kind, h.ID, h.StepID, h.Field, h.Before, h.Match, h.After)
	}
	return b.String()
}

// TestFind: all texts of rows are searched, in the order of the rows; and an answer goes on where the one before it
// ended.
func TestFind(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	failed := record.Failed
	changes := []record.Change{
		&record.Plan{
			RootPlanID: "r", CurrentPlanID: "r", Title: new("Find NÄDEL"), UserRequest: new("find it"),
			Metadata: []byte(`{"a":"n\u00e4del 1"}`),
		},
		&record.AgentExecution{
			RootPlanID: "r", PlanID: "r", StepID: "s", AgentName: new("na\u0308del-agent"), AgentRequest: new("100% of n_del"),
			Result: new("none"),
		},
		&record.ThinkAct{
			RootPlanID: "r", StepID: "s", Seq: 0, ThinkInput: new("[{\"text\":\"a\\n\\nn\u00e4del\"}]"),
			ThinkOutput: new("I look."), State: &failed, ErrorMessage: new("nädel: timeout"), Attempt: new(int64(1)),
		},
		&record.ActTool{
			RootPlanID: "r", StepID: "s", Seq: 0, ToolCallID: "c", Name: new("look"), Parameters: new(`{"what":"nädel"}`),
			Result: new("nothing\nnädel\there"), Attempt: new(int64(1)),
		},
		&record.Wait{RootPlanID: "r", PlanID: "r", WaitID: "w", Title: new("Is it a Nädel?")},
		&record.Thought{RootPlanID: "r", PlanID: "r", ThoughtID: "t1", StepID: new("s"), Content: new("the nädel is near")},
		&record.Thought{RootPlanID: "r", PlanID: "r", ThoughtID: "t2", Content: new("no needle")},
		&record.Plan{RootPlanID: "other", CurrentPlanID: "other", Title: new("Nädel")},
	}
	storetest.Write(t, s, changes...)
	storetest.Write(t, s, &record.ThinkAct{
		RootPlanID: "r", StepID: "s", Seq: 0, Attempt: new(int64(2)), State: new(record.Completed),
	})

	var keys []record.Key
	for _, c := range changes[:5] {
		keys = append(keys, c.Key())
	}

	find := func(f store.TreeSearch) ([]store.Hit, *store.Unread) {
		t.Helper()
		f.RootPlanID = "r"
		hits, rest, err := s.SearchTree(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		return hits, rest
	}

	const want = `0 plan title: Find [NÄDEL]
0 plan metadata: {"a":"[nädel] 1"}
0 thoughtt1s content: the [nädel] is near
1 agentExecution agentName: [nädel]-agent
2 thinkAct thinkInput: [{"text":"a\n\n[nädel]"}]
2 thinkAct attempts: [nädel]: timeout
3 actTool parameters: {"what":"[nädel]"}
3 actTool result: nothing [nädel] here
4 wait title: Is it a [Nädel]?
`

	hits, rest := find(store.TreeSearch{Keys: keys, Text: "nädel", Most: 100, Time: time.Minute})
	if got := strings.ReplaceAll(foundTexts(hits), "a\u0308", "ä"); got != want || rest != nil {
		t.Errorf("found\n%s, and %v is left; want\n%s", got, rest, want)
	}

	for _, row := range []struct{ text, want string }{
		{"100% of n_", "1 agentExecution agentRequest: [100% of n_]del\n"},
		{"%", "1 agentExecution agentRequest: 100[%] of n_del\n"},
		{"absent", ""},
	} {
		if hits, _ := find(store.TreeSearch{
			Keys: keys, Text: row.text, Most: 100, Time: time.Minute,
		}); foundTexts(hits) != row.want {
			t.Errorf("%q: %s", row.text, foundTexts(hits))
		}
	}

	// However small the pages, and however little time there is, they have the same hits.
	for _, f := range []store.TreeSearch{
		{Most: 1, Time: time.Minute}, {Most: 2, Time: time.Minute}, {Most: 100, Time: -1}, {Most: 1, Time: -1},
	} {
		var all []store.Hit
		f.Text = "nädel"
		for from, pages := new(store.Unread), 1; from != nil; pages++ {
			f.Keys, f.Skip = keys[from.Row:], from.Skip
			hits, rest := find(f)
			for i := range hits {
				hits[i].Row += from.Row
			}
			if all = append(all, hits...); rest != nil {
				rest.Row += from.Row
			}
			if from = rest; len(hits) > f.Most || pages > 20 {
				t.Fatalf("%d hits, page %d", len(hits), pages)
			}
		}
		if got := strings.ReplaceAll(foundTexts(all), "a\u0308", "ä"); got != want {
			t.Errorf("in pages of %d, in %v: found\n%s", f.Most, f.Time, got)
		}
	}

	var invalid *record.InvalidError
	if _, _, err := s.SearchTree(
		t.Context(), store.TreeSearch{RootPlanID: "r", Keys: keys, Text: " "},
	); !errors.As(err, &invalid) || invalid.Field != "q" {
		t.Errorf("nothing to look for: %v", err)
	}

	full := errors.New("full")
	if _, _, err := s.Within(func(int64) error {
		return full
	}).SearchTree(t.Context(), store.TreeSearch{
		RootPlanID: "r", Keys: keys, Text: "x", Time: time.Minute,
	}); !errors.Is(err, full) {
		t.Errorf("without room: %v", err)
	}
}
