package runstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// queue puts runs on record that are due, each a second after the one before. of says what run i is of; the values are
// SQL over i.
func queue(b testing.TB, s *runstore.Store, runs int, agent, owner, key string) {
	b.Helper()

	storetest.Exec(b, s.Store, `INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, told_state, part)
		SELECT 'q' || lpad(i::text, 6, '0'), 'q' || lpad(i::text, 6, '0'), 'PENDING', current_date FROM generate_series(1, $1) AS i`, runs)
	storetest.Exec(b, s.Store, fmt.Sprintf(`
		INSERT INTO actlog.run (root_plan_id, plan_id, executor, needs, input, owner, agent, concurrency_key, priority, due_at, created_at)
		SELECT x.id, x.id, 'agent', '{executor:agent}', '{"request":"Read."}', %s, %s, %s, x.i %% 10, now() - interval '2 days' + x.i * interval '1 second',
			now() - interval '2 days' + x.i * interval '1 second'
		FROM (SELECT i, 'q' || lpad(i::text, 6, '0') AS id FROM generate_series(1, $1) AS i) AS x`, owner, agent, key), runs)
	storetest.Exec(b, s.Store, "ANALYZE actlog.run")
}

// BenchmarkClaim measures a claim of one run with many queued, of which some may not go on: its p95.
func BenchmarkClaim(b *testing.B) {
	for name, of := range map[string]struct{ agent, owner, key string }{
		"free":            {"'free'", "x.id", "NULL"},
		"owners":          {"'free'", "'o' || x.i % 100", "NULL"},
		"one agent":       {"'a'", "x.id", "NULL"},
		"agents":          {"'a' || x.i % 20", "x.id", "NULL"},
		"one key":         {"'free'", "x.id", "'k'"},
		"many keys":       {"'free'", "x.id", "'k' || x.i % 1000"},
		"few may":         {"CASE WHEN x.i % 1000 = 0 THEN 'free' ELSE 'a' END", "x.id", "NULL"},
		"owners at limit": {"'free'", "'o' || x.i % 100", "NULL"},
		"over budget":     {"'free'", "x.id", "NULL"},
	} {
		for _, runs := range []int{100, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", name, runs), func(b *testing.B) {
				s := open(b)
				queue(b, s, runs, of.agent, of.owner, of.key)

				most := runstore.Most{Places: map[string]int{"agent:a": 5}, PerKey: 1}
				for i := range 20 {
					most.Places[fmt.Sprintf("agent:a%d", i)] = 3
				}
				switch name {
				case "owners at limit":
					most.PerOwner = 1
				case "over budget": // all but some
					most = atBudget()
					storetest.Exec(b, s.Store, "UPDATE actlog.run SET project = 'p' WHERE substr(plan_id, 2)::integer % 1000 > 0")
					storetest.Exec(b, s.Store, "VACUUM ANALYZE actlog.run")
				}
				provides := []string{"executor:agent"}
				if _, err := s.AddWorker(b.Context(), runstore.Worker{ID: "w", Provides: provides}, time.Hour); err != nil {
					b.Fatal(err)
				}

				var took []time.Duration
				var held []runstore.Lease
				for b.Loop() {
					began := time.Now()
					claimed, _, err := s.Claim(b.Context(), runstore.Claim{
						WorkerID: "w", Provides: provides, Runs: 1, LoneAt: -1, Most: most,
					})
					if took = append(took, time.Since(began)); err != nil {
						b.Fatal(err)
					}

					for _, c := range claimed {
						held = append(held, c.Lease)
					}
					if len(held) > 3 {
						b.StopTimer()
						finish(b, s, held[0])
						held = held[1:]
						b.StartTimer()
					}
				}
				slices.Sort(took)
				ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
				b.ReportMetric(ms(took[len(took)*95/100]), "p95-ms")
				b.ReportMetric(ms(took[len(took)-1]), "max-ms")
			})
		}
	}
}
