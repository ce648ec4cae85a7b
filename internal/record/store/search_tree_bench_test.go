package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// BenchmarkFind searches in 10,000 rows of 4 kB: of ASCII, of other letters, and of JSON with escapes.
func BenchmarkFind(b *testing.B) {
	s := storetest.Open(b)
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, again and again; ", 66)
	json := `{"text":"` + strings.Repeat(`The quick brown f\u00f6x \"jumps\" over\nthe lazy dog, again and again; `, 57) +
		`"}`

	for _, kind := range []string{"ascii", "umlaut", "json"} {
		changes := []record.Change{&record.Plan{RootPlanID: kind, CurrentPlanID: kind}}
		for i := range 100 {
			step := fmt.Sprint(kind, i)
			changes = append(changes, &record.AgentExecution{RootPlanID: kind, PlanID: kind, StepID: step})
			for c := range 50 {
				x := fmt.Sprintf("%d %d %s", i, c,
					map[string]string{"ascii": text, "umlaut": strings.ReplaceAll(text, "o", "ö"), "json": json}[kind])
				changes = append(changes, &record.ThinkAct{RootPlanID: kind, StepID: step, Seq: int64(c), ThinkInput: &x},
					&record.ActTool{RootPlanID: kind, StepID: step, Seq: int64(c), ToolCallID: fmt.Sprint("c", c%2), Result: &x})
			}
		}

		for len(changes) > 0 {
			n := min(500, len(changes))
			storetest.Write(b, s, changes[:n]...)
			changes = changes[n:]
		}

		var keys []record.Key
		keys = append(keys, (&record.Plan{RootPlanID: kind, CurrentPlanID: kind}).Key())
		for i := range 100 {
			step := fmt.Sprint(kind, i)
			keys = append(keys, (&record.AgentExecution{RootPlanID: kind, PlanID: kind, StepID: step}).Key())
			for c := range 50 {
				keys = append(keys, (&record.ThinkAct{RootPlanID: kind, StepID: step, Seq: int64(c)}).Key(),
					(&record.ActTool{RootPlanID: kind, StepID: step, Seq: int64(c), ToolCallID: fmt.Sprint("c", c%2)}).Key())
			}
		}

		for _, q := range []string{"absent", "fox"} {
			b.Run(kind+"/"+q, func(b *testing.B) {
				for b.Loop() {
					hits, rest, err := s.SearchTree(b.Context(), store.TreeSearch{
						RootPlanID: kind, Keys: keys, Text: q, Most: 100, Time: time.Minute,
					})
					if err != nil || rest != nil && len(hits) < 100 {
						b.Fatalf("s.SearchTree = %v, %v", err, rest)
					}
				}
			})
		}
	}
}
