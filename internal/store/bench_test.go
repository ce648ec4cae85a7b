package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/actlog/actlog/internal/pgtest"
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

// sources is real text, of the kind that agents read: the source files around here.
func sources(b *testing.B) string {
	b.Helper()
	files, err := filepath.Glob(filepath.Join("..", "*", "*.go"))
	if err != nil || len(files) == 0 {
		b.Fatal("no sources here", err)
	}
	var all strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// BenchmarkSize tells what a row of each kind takes on disk with its indexes, and
// what is written ahead for it: without texts, then in cycles with a prompt of 20 KB,
// told twice, at their beginning and at their end. Of use alone on its server.
func BenchmarkSize(b *testing.B) {
	const rows = 1000 // a write
	all, from := sources(b), 0
	text := func(n int) *string {
		if from += 7919; from+n > len(all) {
			from %= 7919
		}
		return new(all[from : from+n])
	}
	for _, bench := range []struct {
		name string
		tell func(root, step string, i int64) []record.Change
	}{
		{"plan", func(_, _ string, _ int64) []record.Change {
			root := record.NewPlanID()
			return []record.Change{&record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Completed), StartTime: at(1), EndTime: at(2)}}
		}},
		{"step", func(root, _ string, i int64) []record.Change {
			return []record.Change{&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: record.NewStepID(), StepIndex: &i, State: new(record.Completed), StartTime: at(1), EndTime: at(2)}}
		}},
		{"cycle", func(root, step string, i int64) []record.Change {
			return []record.Change{&record.ThinkAct{RootPlanID: root, StepID: step, Seq: i, State: new(record.Completed), ThinkStartTime: at(1), ThinkEndTime: at(2), InputTokens: &i}}
		}},
		{"cycle+tool", func(root, step string, i int64) []record.Change {
			return []record.Change{&record.ActTool{RootPlanID: root, StepID: step, Seq: i, ToolCallID: record.NewToolCallID(), Name: new("read_file"), State: new(record.Completed), StartTime: at(1), EndTime: at(2)}}
		}},
		{"texts", func(root, step string, i int64) []record.Change {
			return []record.Change{
				&record.ThinkAct{RootPlanID: root, StepID: step, Seq: i, State: new(record.Running), ThinkInput: text(20_000), ThinkStartTime: at(1), Rev: new(int64(1))},
				&record.ThinkAct{RootPlanID: root, StepID: step, Seq: i, State: new(record.Completed), ThinkOutput: text(1_000), ThinkEndTime: at(2), InputTokens: &i, Rev: new(int64(2))},
			}
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			db := pgtest.Fresh(b)
			s := openURL(b, db.URL)
			const sqlSize = `SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relnamespace = 'actlog'::regnamespace AND relkind = 'r' AND relname <> 'change'`
			exec(b, s, "CHECKPOINT")
			size, wal := query[int64](b, s, sqlSize), query[string](b, s, "SELECT pg_current_wal_insert_lsn()::text")
			n := 0
			for b.Loop() {
				root, step := record.NewPlanID(), record.NewStepID()
				told := map[bool][]record.Change{}
				for i := range int64(rows) {
					for j, c := range bench.tell(root, step, i%50) {
						told[j == 0] = append(told[j == 0], c)
					}
					if i%50 == 49 { // a step has so many cycles
						step = record.NewStepID()
					}
				}
				write(b, s, told[true]...)
				if len(told[false]) > 0 {
					write(b, s, told[false]...)
				}
				n += rows
			}
			b.ReportMetric(float64(query[int64](b, s, sqlSize)-size)/float64(n), "B/row")
			b.ReportMetric(query[float64](b, s, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::text::pg_lsn)::float8", wal)/float64(n), "WAL-B/row")
			b.ReportMetric(0, "ns/op")
		})
	}
}
