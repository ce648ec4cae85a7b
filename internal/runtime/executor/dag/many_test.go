package dag_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/graph"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// layered returns a graph of n nodes: a context, and layers of ten, whose nodes need those of the layer before that
// stand at the same place and at the next.
func layered(n int) string {
	g := graph.Graph{Title: "Layers"}
	for i := range n {
		node := graph.Node{ID: fmt.Sprintf("n%d", i), Name: fmt.Sprintf("Node %d", i), Dependencies: []string{}}
		switch {
		case i == 0:
			node.Name = "Context"
		case i <= 10:
			node.Dependencies = []string{"n0"}
		default:
			first := (i-1)/10*10 - 9 // of the layer before
			node.Dependencies = []string{fmt.Sprintf("n%d", first+(i-1)%10), fmt.Sprintf("n%d", first+i%10)}
		}
		g.Nodes = append(g.Nodes, node)
	}

	text, _ := json.Marshal(g)
	return string(text)
}

// E9: many graphs at once on two workers. All are under way at the same time, so none starves; each wave begins when
// the one before has ended; nodes of a wave overlap; memory is bounded. ACTLOG_MANY_GRAPHS=1 runs 100 graphs of 50
// nodes, else there are fewer.
func TestManyGraphs(t *testing.T) {
	t.Parallel()
	runs, size := 20, 21
	if os.Getenv("ACTLOG_MANY_GRAPHS") != "" {
		runs, size = 100, 50
	}

	var together sync.WaitGroup
	together.Add(runs)
	h := house(t, planned(layered(size)),
		scene(`"Context"`, scriptmodel.Turn{Reply: func(context.Context, *scriptmodel.Request) (scriptmodel.Turn, error) {
			together.Done()
			together.Wait() // returns only when all graphs are under way
			return says("context"), nil
		}}), scene("carry out", scriptmodel.Turn{Content: strings.Repeat("done ", 200)}))

	var mu sync.Mutex
	carriedBy := map[string]map[string]bool{} // plans, by worker
	count := func(c *engine.Config) {
		c.Write = func(ctx context.Context, l runstore.Lease, changes []record.Change, ops ...runstore.RunOp) error {
			mu.Lock()
			if carriedBy[l.WorkerID] == nil {
				carriedBy[l.WorkerID] = map[string]bool{}
			}
			carriedBy[l.WorkerID][l.PlanID] = true
			mu.Unlock()
			return c.Store.WriteRun(ctx, l, changes, ops...)
		}
		c.Slots, c.Logger = (runs+2)/2, nil // so each has to take a part
	}

	h.Engine = h.NewEngine(count)
	h.Work(h.Engine)
	h.Work(h.NewEngine(count))
	plan := start(h, object{"prompt": "Go.", "draft": true})
	h.Await(plan, record.Completed)

	peak := make(chan uint64)
	done := make(chan struct{})
	go func() {
		var most uint64
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
			select {
			case <-time.After(50 * time.Millisecond):
			case <-done:
				peak <- most
				return
			}
		}
	}()

	began := time.Now()
	ids := make([]string, runs)
	for i := range ids {
		ids[i] = start(h, object{"plan_id": plan})
	}
	for _, id := range ids {
		h.Await(id, record.Completed)
	}

	close(done)
	most := <-peak
	t.Logf("%d graphs of %d nodes in %s; %d MiB of heap at most", runs, size, time.Since(began).Round(time.Millisecond),
		most>>20)
	if most > 400<<20 {
		t.Errorf("%d MiB of heap", most>>20)
	}

	if len(carriedBy) != 2 {
		t.Errorf("%d workers carried runs", len(carriedBy))
	}
	for worker, plans := range carriedBy {
		if len(plans) < runs/4 {
			t.Errorf("%s carried %d of %d", worker, len(plans), runs)
		}
	}

	const waves = `SELECT plan_id, (metadata ->> 'wave')::integer AS wave, count(*) AS nodes, min(start_time) AS first, max(start_time) AS began, min(end_time) AS ended, max(end_time) AS last
		FROM actlog.agent_execution_record WHERE plan_id <> $1 AND state = 'COMPLETED' GROUP BY 1, 2`
	got := storetest.Lines(t, h.DB.Pool,
		`SELECT count(DISTINCT plan_id) || ' graphs, ' || sum(nodes) || ' nodes, ' || max(wave) || ' waves' FROM (`+waves+
			`) AS w`, plan)
	if diff := cmp.Diff([]string{fmt.Sprintf("%d graphs, %d nodes, %d waves", runs, runs*size, (size+8)/10+1)},
		got); diff != "" {
		t.Errorf("storetest.Lines (-want +got):\n%s", diff)
	}

	early := storetest.Lines(t, h.DB.Pool,
		`WITH w AS (`+waves+`) SELECT a.plan_id || ' ' || a.wave FROM w AS a JOIN w AS b ON b.plan_id = a.plan_id AND b.wave = a.wave + 1 WHERE b.first < a.last`, plan)
	if len(early) > 0 {
		t.Errorf("waves that began before the one before had ended: %q", early)
	}
	if together := storetest.Lines(t, h.DB.Pool, `SELECT plan_id FROM (`+waves+`) AS w WHERE nodes > 1 AND began < ended`,
		plan); len(together) == 0 {
		t.Error("no wave has nodes that were all under way at the same time")
	}
}
