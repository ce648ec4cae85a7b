package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// writePlan writes a plan with steps. Each step has cycles of two tool calls.
func writePlan(b *testing.B, s *store.Store, root string, steps, cycles int) {
	b.Helper()
	text := strings.Repeat("The quick brown fox reads a file. ", 30)
	changes := []record.Change{&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("bench")}}

	for i := range steps {
		step := fmt.Sprintf("%s-s%d", root, i)
		changes = append(changes, &record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: step, StepIndex: new(int64(i)), AgentName: new("agent"), Result: &text,
		})

		for c := range cycles {
			changes = append(changes,
				&record.ThinkAct{
					RootPlanID: root, StepID: step, Seq: int64(c), ThinkInput: &text, ThinkOutput: &text, InputTokens: new(int64(100)),
				},
				&record.ActTool{
					RootPlanID: root, StepID: step, Seq: int64(c), ToolCallID: fmt.Sprintf("%s-%d-0", step, c), Name: new("tool"),
					Result: &text,
				},
				&record.ActTool{
					RootPlanID: root, StepID: step, Seq: int64(c), ToolCallID: fmt.Sprintf("%s-%d-1", step, c), Name: new("tool"),
					Result: &text,
				})
		}
	}
	storetest.Write(b, s, changes...)
}

// BenchmarkWriteOne measures a synchronous write of one tool call, which is what a call of a
// Recorder costs, in a small plan and in a large one.
func BenchmarkWriteOne(b *testing.B) {
	for _, steps := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("steps=%d", steps), func(b *testing.B) {
			s := storetest.Open(b)
			root := record.NewPlanID()
			writePlan(b, s, root, steps, 0)

			n := 0
			for b.Loop() {
				n++
				storetest.Write(b, s, &record.ActTool{
					RootPlanID: root, StepID: fmt.Sprintf("%s-s%d", root, n%steps), Seq: int64(n / 100),
					ToolCallID: fmt.Sprint("t", n), Name: new("tool"),
				})
			}
		})
	}
}

// BenchmarkWriteBatch measures the write of a plan of 10 steps of 10 cycles of 2 tool calls.
func BenchmarkWriteBatch(b *testing.B) {
	s := storetest.Open(b)
	var rows atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			writePlan(b, s, record.NewPlanID(), 10, 10)
			rows.Add(311)
		}
	})
	b.ReportMetric(float64(rows.Load())/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkPlanTree(b *testing.B) {
	for _, steps := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("steps=%d", steps), func(b *testing.B) {
			s := storetest.Open(b)
			root := record.NewPlanID()
			writePlan(b, s, root, steps, 1)
			for b.Loop() {
				storetest.PlanTree(b, s, root)
			}
		})
	}
}

func BenchmarkSkeleton(b *testing.B) {
	for _, rows := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			s := storetest.Open(b)
			root := record.NewPlanID()
			writePlan(b, s, root, rows/20, 6) // 19 rows a step, and the plan
			for b.Loop() {
				if _, err := s.Skeleton(b.Context(), "", root); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkStepDetail(b *testing.B) {
	s := storetest.Open(b)
	root := record.NewPlanID()
	writePlan(b, s, root, 10, 5)
	for b.Loop() {
		storetest.StepDetail(b, s, root+"-s3")
	}
}

// sourceText returns a function that returns n bytes of real text, of the kind that agents read:
// the source files of this module. Each call returns another part.
func sourceText(b *testing.B) func(n int) *string {
	b.Helper()
	files, err := filepath.Glob(filepath.Join("..", "*", "*.go"))
	if err != nil || len(files) == 0 {
		b.Fatal("no source files", err)
	}

	var all strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		all.Write(text)
	}

	text, from := all.String(), 0
	return func(n int) *string {
		if from += 7919; from+n > len(text) {
			from %= 7919
		}
		return new(text[from : from+n])
	}
}

// BenchmarkSize measures how much a row of each kind takes on disk, indexes included, and in the
// WAL. The kinds come without texts. Then come cycles with a prompt of 20 KB, which are written
// twice: when they begin and when they end. The figures are right only if nothing else uses the
// server.
func BenchmarkSize(b *testing.B) {
	const rows = 1000 // per write
	text := sourceText(b)

	for _, bench := range []struct {
		name string
		// changes returns one row, or the first and the second write of it.
		changes func(root, step string, i int64) []record.Change
	}{
		{"plan", func(_, _ string, _ int64) []record.Change {
			root := record.NewPlanID()
			return []record.Change{
				&record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Completed), StartTime: at(1), EndTime: at(2)},
			}
		}},
		{"step", func(root, _ string, i int64) []record.Change {
			return []record.Change{
				&record.AgentExecution{
					RootPlanID: root, PlanID: root, StepID: record.NewStepID(), StepIndex: &i, State: new(record.Completed),
					StartTime: at(1), EndTime: at(2),
				},
			}
		}},
		{"cycle", func(root, step string, i int64) []record.Change {
			return []record.Change{
				&record.ThinkAct{
					RootPlanID: root, StepID: step, Seq: i, State: new(record.Completed), ThinkStartTime: at(1), ThinkEndTime: at(2),
					InputTokens: &i,
				},
			}
		}},
		{"cycle+tool", func(root, step string, i int64) []record.Change {
			return []record.Change{
				&record.ActTool{
					RootPlanID: root, StepID: step, Seq: i, ToolCallID: record.NewToolCallID(), Name: new("read_file"),
					State: new(record.Completed), StartTime: at(1), EndTime: at(2),
				},
			}
		}},
		{"texts", func(root, step string, i int64) []record.Change {
			return []record.Change{
				&record.ThinkAct{
					RootPlanID: root, StepID: step, Seq: i, State: new(record.Running), ThinkInput: text(20_000),
					ThinkStartTime: at(1), Rev: new(int64(1)),
				},
				&record.ThinkAct{
					RootPlanID: root, StepID: step, Seq: i, State: new(record.Completed), ThinkOutput: text(1_000),
					ThinkEndTime: at(2), InputTokens: &i, Rev: new(int64(2)),
				},
			}
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			db := pgtest.Fresh(b)
			s := storetest.OpenURL(b, db.URL)
			const sqlSize = `SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relnamespace = 'actlog'::regnamespace AND relkind = 'r' AND relname <> 'change'`
			storetest.Exec(b, s, "CHECKPOINT")
			size, wal := storetest.Query[int64](b, s, sqlSize),
				storetest.Query[string](b, s, "SELECT pg_current_wal_insert_lsn()::text")

			n := 0
			for b.Loop() {
				root, step := record.NewPlanID(), record.NewStepID()
				var writes [2][]record.Change
				for i := range int64(rows) {
					for j, c := range bench.changes(root, step, i%50) {
						writes[j] = append(writes[j], c)
					}
					if i%50 == 49 { // a step has 50 cycles
						step = record.NewStepID()
					}
				}

				for _, changes := range writes {
					if len(changes) > 0 {
						storetest.Write(b, s, changes...)
					}
				}
				n += rows
			}

			b.ReportMetric(float64(storetest.Query[int64](b, s, sqlSize)-size)/float64(n), "B/row")
			b.ReportMetric(storetest.Query[float64](b, s,
				"SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::text::pg_lsn)::float8", wal)/float64(n), "WAL-B/row")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkList reads a page of 50 runs of 38 rows: runs in which nothing failed, and runs that failed at a call.
// Upkeep has found the causes of the kept ones. The large one is a run of 100,000 rows beside them, in which every
// tenth call failed.
func BenchmarkList(b *testing.B) {
	for _, of := range []struct {
		name         string
		failed, kept bool
		large        bool
	}{
		{name: "well"}, {name: "well kept", kept: true}, {name: "failed", failed: true},
		{name: "failed kept", failed: true, kept: true}, {name: "large", failed: true, large: true},
		{name: "large kept", failed: true, large: true, kept: true},
	} {
		b.Run(of.name, func(b *testing.B) {
			s := storetest.Open(b)
			state := func(failed bool) *record.State {
				if failed {
					return new(record.Failed)
				}
				return new(record.Completed)
			}

			write := func(root string, steps int, failed func(step, call int) bool) {
				var changes []record.Change
				changes = append(changes, &record.Plan{
					RootPlanID: root, CurrentPlanID: root, State: state(of.failed), StartTime: storetest.At(steps),
					EndTime: storetest.At(9),
				})

				for i := range steps {
					step := fmt.Sprint(root, "-", i)
					bad := failed(i, 17)
					changes = append(changes, &record.AgentExecution{
						RootPlanID: root, PlanID: root, StepID: step, StepIndex: new(int64(i)), State: state(bad),
					})

					for call := range 18 {
						changes = append(changes, &record.ActTool{
							RootPlanID: root, StepID: step, Seq: int64(call), ToolCallID: fmt.Sprint("c", call), Name: new("tool"),
							State: state(failed(i, call)), ErrorMessage: new("it broke"),
						})
					}
				}

				for part := range slices.Chunk(changes, 2_000) {
					storetest.Write(b, s, part...)
				}
			}

			for i := range 50 {
				write(fmt.Sprint("run", i), 2, func(step, call int) bool { return of.failed && step == 1 && call == 17 })
			}
			if of.large {
				write("large", 2_700, func(step, call int) bool { return (step*18+call)%10 == 7 })
			}
			if of.kept {
				if err := storetest.Upkeep(b, s, upkeep.Config{}).Run(b.Context()); err != nil {
					b.Fatal(err)
				}
			}

			for b.Loop() {
				if list, err := s.Plans(b.Context(), store.PlanFilter{Limit: 50}); err != nil || len(list) != 50 {
					b.Fatalf("len(list) = %v, %v", len(list), err)
				}
			}
		})
	}
}
