package store_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// fill writes a plan of some steps, each with some cycles of two tool calls.
func fill(b *testing.B, s *store.Store, root string, steps, cycles int) {
	b.Helper()
	text := strings.Repeat("The quick brown fox reads a file. ", 30)
	changes := []record.Change{&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("bench")}}
	for i := range steps {
		step := fmt.Sprintf("%s-s%d", root, i)
		changes = append(changes, &record.AgentExecution{RootPlanID: root, PlanID: root, StepID: step, StepIndex: new(int64(i)), AgentName: new("agent"), Result: &text})
		for c := range cycles {
			changes = append(changes,
				&record.ThinkAct{RootPlanID: root, StepID: step, Seq: int64(c), ThinkInput: &text, ThinkOutput: &text, InputTokens: new(int64(100))},
				&record.ActTool{RootPlanID: root, StepID: step, Seq: int64(c), ToolCallID: fmt.Sprintf("%s-%d-0", step, c), Name: new("tool"), Result: &text},
				&record.ActTool{RootPlanID: root, StepID: step, Seq: int64(c), ToolCallID: fmt.Sprintf("%s-%d-1", step, c), Name: new("tool"), Result: &text})
		}
	}
	write(b, s, changes...)
}

// BenchmarkWriteOne is a synchronous write of one tool call: what a Recorder's
// call costs, in a small plan and in a large one.
func BenchmarkWriteOne(b *testing.B) {
	for _, steps := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("steps=%d", steps), func(b *testing.B) {
			s := open(b)
			root := record.NewPlanID()
			fill(b, s, root, steps, 0)
			n := 0
			for b.Loop() {
				n++
				write(b, s, &record.ActTool{RootPlanID: root, StepID: fmt.Sprintf("%s-s%d", root, n%steps), Seq: int64(n / 100), ToolCallID: fmt.Sprint("t", n), Name: new("tool")})
			}
		})
	}
}

// BenchmarkWriteBatch is a plan of 10 steps of 10 cycles of 2 tool calls.
func BenchmarkWriteBatch(b *testing.B) {
	s := open(b)
	var rows atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			fill(b, s, record.NewPlanID(), 10, 10)
			rows.Add(311)
		}
	})
	b.ReportMetric(float64(rows.Load())/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkPlanTree(b *testing.B) {
	for _, steps := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("steps=%d", steps), func(b *testing.B) {
			s := open(b)
			root := record.NewPlanID()
			fill(b, s, root, steps, 1)
			for b.Loop() {
				planTree(b, s, root)
			}
		})
	}
}

func BenchmarkStepDetail(b *testing.B) {
	s := open(b)
	root := record.NewPlanID()
	fill(b, s, root, 10, 5)
	for b.Loop() {
		stepDetail(b, s, root+"-s3")
	}
}
