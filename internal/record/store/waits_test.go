package store_test

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// openQuestions returns the ids of open questions in pages of two.
func openQuestions(t *testing.T, s *store.Store, f store.WaitFilter) (ids string) {
	t.Helper()
	f.Limit, f.Timeout = 2, 10*time.Second
	for {
		list, err := s.OpenQuestions(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range list {
			ids += q.Wait.WaitID + " "
		}

		if len(list) < f.Limit {
			return strings.TrimSpace(ids)
		}
		f.After = &list[len(list)-1].Cursor
	}
}

// TestOpenQuestions checks which waits are listed, in which order, and what is said of them.
func TestOpenQuestions(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	past := time.Now().Add(-time.Hour)
	wait := func(root, id string, at int, state record.State) *record.Wait {
		w := &record.Wait{RootPlanID: root, PlanID: root, WaitID: id, Title: new(strings.Repeat("q", 400)), State: &state}
		if at >= 0 {
			w.StartTime = storetest.At(at)
		}
		return w
	}

	late := wait("goes-on", "expired", 0, record.Waiting)
	late.ExpiresAt = &past
	asked := wait("goes-on", "w2", 2, record.Waiting)
	asked.StepID = new("s")

	storetest.Write(t, s,
		&record.Plan{RootPlanID: "goes-on", CurrentPlanID: "goes-on", Title: new("Goes on"), State: new(record.Running)},
		&record.AgentExecution{RootPlanID: "goes-on", PlanID: "goes-on", StepID: "s", AgentName: new("asker")},
		&record.Plan{RootPlanID: "ended", CurrentPlanID: "ended", State: new(record.Failed)},
		&record.Plan{RootPlanID: "other", CurrentPlanID: "other", Project: new("shop"), State: new(record.Waiting)},
		asked, late, wait("goes-on", "w1", 1, record.Waiting), wait("goes-on", "answered", 1, record.Approved),
		wait("ended", "unheard", 0, record.Waiting), wait("other", "w3", 2, record.Waiting),
		wait("other", "untimed", -1, record.Waiting))

	if got, want := openQuestions(t, s, store.WaitFilter{}), "w1 w2 w3 untimed"; got != want {
		t.Errorf("open are %q, want %q", got, want)
	}
	if got, want := openQuestions(t, s, store.WaitFilter{Project: "shop"}), "w3 untimed"; got != want {
		t.Errorf("of a project %q, want %q", got, want)
	}

	list, err := s.OpenQuestions(t.Context(), store.WaitFilter{Limit: 5, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if q := list[1]; q.Wait.RootPlanID != "goes-on" || *q.AgentName != "asker" || *q.RunName != "Goes on" ||
		len(*q.Wait.Title) != 300 || !q.Wait.StartTime.Equal(*storetest.At(2)) {
		t.Errorf("it is %+v", q)
	}
	if q := list[2]; q.AgentName != nil || q.RunName != nil {
		t.Errorf("it is %+v", q)
	}

	if _, err := s.OpenQuestions(t.Context(), store.WaitFilter{Limit: 1}); !errors.Is(err, store.ErrSlow) {
		t.Errorf("without time: %v", err)
	}
}

// TestOpenQuestionsReadNoOthers checks the plan of the list: it reads the open waits of a page, and of the runs only
// theirs.
func TestOpenQuestionsReadNoOthers(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	storetest.Exec(t, s, `INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, told_state)
	SELECT 'root-' || r, 'root-' || r, DATE '2026-01-05', CASE WHEN r % 100 = 0 THEN 'RUNNING' ELSE 'COMPLETED' END FROM generate_series(0, 19999) AS r`)
	storetest.Exec(t, s, `INSERT INTO actlog.wait_state (root_plan_id, plan_id, wait_id, told_state, start_time)
	SELECT 'root-' || r, 'root-' || r, 'w', CASE WHEN r % 100 = 0 THEN 'WAITING' ELSE 'APPROVED' END, TIMESTAMPTZ '2026-01-05' + r * INTERVAL '1 second' FROM generate_series(0, 19999) AS r`)
	storetest.Exec(t, s, "ANALYZE actlog.plan_execution_record, actlog.wait_state")

	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		plan := explain(t, s, mode, store.OpenQuestionsSQL, time.Time{}, int64(0), nil, int32(51))
		if strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, "wait_open") {
			t.Errorf("with %s the plan is\n%s", mode, plan)
		}

		for _, read := range regexp.MustCompile(`actual rows=([0-9.]+) loops=([0-9]+)`).FindAllStringSubmatch(plan, -1) {
			rows, _ := strconv.ParseFloat(read[1], 64)
			loops, _ := strconv.ParseFloat(read[2], 64)
			if rows*loops > 60 {
				t.Errorf("with %s it reads %s", mode, fmt.Sprint(read))
			}
		}
	}
}
