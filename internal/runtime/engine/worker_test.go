package engine_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestLostClaim checks that a run is carried whose claim was committed, although the connection was lost before its
// worker knew of that.
func TestLostClaim(t *testing.T) {
	t.Parallel()
	pair := storetest.Pair(t)
	host := define.Definition{}
	host.Model.Name = "default"
	h := enginetest.Build(t, enginetest.Plans{
		Scenes:      []scriptmodel.Scene{{Name: "s", Turns: calls(terminate("Done."))}},
		Executors:   []engine.Executor{thinkact.Executor{}},
		Definitions: map[string]any{"agent.host": host}, DB: &pgtest.DB{URL: pair.Primary},
	})

	admin, err := pgx.Connect(t.Context(), pair.Primary)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.Background()) }()
	ask := func(sql string) (n int) {
		t.Helper()
		if err := admin.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}

	id := h.Start("host", "Go.")
	holder, err := pgx.Connect(t.Context(), pair.Primary) // of the run, so that it cannot be claimed yet
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Close(context.Background()) }()
	if _, err := holder.Exec(t.Context(), "BEGIN; SELECT FROM actlog.run FOR UPDATE"); err != nil {
		t.Fatal(err)
	}

	h.Work(h.Engine)
	storetest.Until(t, "there is a worker", func() bool { return ask("SELECT count(*) FROM actlog.worker") == 1 })
	pair.Set(t, "synchronous_standby_names", "nobody") // commits stay on record, and have no answer
	if _, err := holder.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}

	storetest.Until(t, "the claim is on record", func() bool {
		return ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query "+
			"LIKE '%RunClaim%'") == 1
	})
	storetest.Until(t, "the run is held", func() bool { return ask("SELECT count(worker_id) FROM actlog.run") == 1 })
	pair.Set(t, "synchronous_standby_names", "")
	h.Await(id, record.Completed)
}

// TestWorkersListenTogether checks that the workers of a process take one connection to hear of what there is to do.
func TestWorkersListenTogether(t *testing.T) {
	t.Parallel()
	h := build(t, []scriptmodel.Scene{{Name: "s", Turns: calls(terminate("Done."))}},
		map[string]define.Definition{"host": {}}, nil)

	for range 5 {
		h.Work(h.Engine)
	}
	for range 3 {
		h.Await(h.Start("host", "Go."), record.Completed)
	}

	storetest.Until(t, "one connection listens", func() bool {
		return storetest.Query[int](t, h.Store,
			"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN actlog_run%'") == 1
	})
}
