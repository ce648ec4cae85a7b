//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// forksEach is how many runs go on from rows of a run.
const forksEach = 2

// fork starts runs that go on from rows of one that has ended, and follows them to their ends.
func (h *house) fork(ctx context.Context, r *oneRun) {
	rows, err := h.rowsOf(ctx, r.planID)
	for err != nil && ctx.Err() == nil { // Postgres is away
		pause(ctx, 300*time.Millisecond)
		rows, err = h.rowsOf(ctx, r.planID)
	}
	rows = slices.DeleteFunc(rows, func(t treeRow) bool { return strings.HasPrefix(t.address, "plan:") })

	var all sync.WaitGroup
	for n := range min(forksEach, len(rows)) {
		key := fmt.Sprintf("%s-fork-%d", r.key, n)
		f := &oneRun{kind: r.kind, key: key, about: r.about, of: r, at: rows[h.pick(key, len(rows))].address}
		h.add(f)
		all.Go(func() { h.followFork(ctx, f) })
	}
	all.Wait()
}

// followFork starts a fork, twice with the same key, and follows it to its end.
func (h *house) followFork(ctx context.Context, f *oneRun) {
	start := func() string {
		var s started
		h.call(ctx, http.MethodPost, "/runs/"+f.of.planID+"/fork", f.key, object{"at": f.at}, &s)
		return s.PlanID
	}

	id := start()
	if again := start(); again != id && ctx.Err() == nil {
		h.violated("the fork of %s with key %s is %s, and then %s", f.of.planID, f.key, id, again)
	}
	h.mu.Lock()
	f.planID = id
	h.mu.Unlock()
	if id != "" {
		h.toItsEnd(ctx, f, plain)
	}
}

// treeRow is a plan, a step, a cycle or a tool call.
type treeRow struct {
	address, parent string
	from            string // the address of the row that it is a copy of; empty: of none
}

// treeSQL reads the rows of a tree, each behind those of its parent that come before it.
const treeSQL = `
	SELECT 'plan:' || p.current_plan_id, CASE WHEN t.tool_call_id IS NULL THEN '' ELSE concat('call:', t.step_id, '/', t.seq, '/', t.tool_call_id) END, COALESCE(p.forked_from, ''), 0::bigint AS nth
	FROM actlog.plan_execution_record AS p LEFT JOIN actlog.act_tool_info AS t ON t.root_plan_id = p.root_plan_id AND t.tool_call_id = p.tool_call_id WHERE p.root_plan_id = $1
	UNION ALL SELECT 'step:' || step_id, 'plan:' || shown_plan_id, COALESCE(forked_from, ''), step_index FROM actlog.agent_execution_record WHERE root_plan_id = $1
	UNION ALL SELECT concat('cycle:', step_id, '/', seq), 'step:' || step_id, COALESCE(forked_from, ''), seq FROM actlog.think_act_record WHERE root_plan_id = $1
	UNION ALL SELECT concat('call:', step_id, '/', seq, '/', tool_call_id), concat('cycle:', step_id, '/', seq), COALESCE(forked_from, ''), call_index FROM actlog.act_tool_info WHERE root_plan_id = $1
	ORDER BY nth, 1`

// rowsOf returns the rows of a tree in its order: what is below a row comes before the row that follows it.
func (h *house) rowsOf(ctx context.Context, root string) (all []treeRow, err error) {
	rows, err := h.db.Query(ctx, treeSQL, root)
	if err != nil {
		return nil, err
	}

	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t treeRow, err error) {
		var nth *int64
		err = row.Scan(&t.address, &t.parent, &t.from, &nth)
		return t, err
	})

	below := map[string][]treeRow{}
	for _, t := range found {
		below[t.parent] = append(below[t.parent], t)
	}

	var add func(parent string)
	add = func(parent string) {
		for _, t := range below[parent] {
			all = append(all, t)
			add(t.address)
		}
	}
	add("")
	return all, err
}

// checkForks checks that each fork has the rows of its original before the row from which it goes on, and no others,
// as they are there. That a fork came to the same end, and that no copied call was made again, is checked as of all
// runs.
func (h *house) checkForks(ctx context.Context) (rows [][2]any, err error) {
	forks, copies := 0, 0
	for _, f := range h.runs {
		if f.of == nil || f.planID == "" {
			continue
		}
		original, err := h.rowsOf(ctx, f.of.planID)
		if err != nil {
			return nil, err
		}

		fork, err := h.rowsOf(ctx, f.planID)
		if err != nil {
			return nil, err
		}

		want, above := rowsBefore(original, f.at)
		var got []string
		for _, t := range fork {
			if t.from != "" && !slices.Contains(above, t.from) {
				got = append(got, t.from)
			}
		}
		if missing := differences(strings.Join(want, "\n"), strings.Join(got, "\n")); missing != "" {
			h.violated("plan %s goes on from %s of plan %s, and has other copies than of the rows before:\n%s", f.planID,
				f.at, f.of.planID, missing)
		}

		if err := h.checkCopies(ctx, f, fork, above); err != nil {
			return nil, err
		}
		forks, copies = forks+1, copies+len(got)
	}
	return [][2]any{{"forks", fmt.Sprintf("%d, with copies of %d rows", forks, copies)}}, nil
}

// rowsBefore returns the addresses of the rows before one, and of those that it is below.
func rowsBefore(rows []treeRow, at string) (before, above []string) {
	parents := map[string]string{}
	for _, t := range rows {
		parents[t.address] = t.parent
	}
	for address := parents[at]; address != ""; address = parents[address] {
		above = append(above, address)
	}

	for _, t := range rows {
		if t.address == at {
			break
		}
		if !slices.Contains(above, t.address) {
			before = append(before, t.address)
		}
	}
	return before, above
}

// shownStep is a step as a user reads it.
type shownStep struct{ ThinkActSteps []map[string]any }

// lines returns a text for each cycle and each call of a step, by its address, or that of its original. Of cycles
// above the row from which a fork goes on it is only what the model was asked and answered.
func (v shownStep) lines(step string, above []string) map[string]string {
	all := map[string]string{}
	put := func(address string, row map[string]any) {
		if from, ok := row["forkedFrom"].(string); ok {
			address = from
		}
		for _, own := range []string{"forkedFrom", "id", "stepId", "currentPlanId", "parentExecutionId"} {
			delete(row, own)
		}
		if slices.Contains(above, address) {
			row = map[string]any{"thinkInput": row["thinkInput"], "thinkOutput": row["thinkOutput"]}
		}
		line, _ := json.MarshalIndent(row, "", " ") // it was decoded from JSON
		all[address] = string(line)
	}

	for _, c := range v.ThinkActSteps {
		calls, _ := c["actToolInfoList"].([]any)
		delete(c, "actToolInfoList")
		cycle := fmt.Sprintf("%s/%v", step, c["seq"])
		put("cycle:"+cycle, c)
		for _, each := range calls {
			call, _ := each.(map[string]any)
			put(fmt.Sprintf("call:%s/%v", cycle, call["id"]), call)
		}
	}
	return all
}

// checkCopies compares the copied cycles and calls of a fork with the original's. In rows above that from which the
// fork goes on, only what the model was asked and answered is the same.
func (h *house) checkCopies(ctx context.Context, f *oneRun, fork []treeRow, above []string) error {
	read := func(step string) (all map[string]string, err error) {
		var v shownStep
		url := h.server.server.url() + "/api/executor/agent-execution/" + step
		status, content, err := h.send(ctx, http.MethodGet, url, "", nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("read step %s: %d %s", step, status, content)
		}

		if err == nil {
			err = json.Unmarshal(content, &v)
		}
		return v.lines(step, above), err
	}

	for _, t := range fork {
		from, isCycle := strings.CutPrefix(t.from, "cycle:")
		if !isCycle {
			continue
		}
		step, _, _ := strings.Cut(strings.TrimPrefix(t.address, "cycle:"), "/")
		copied, err := read(step)
		if err != nil {
			return err
		}

		stepBefore, _, _ := strings.Cut(from, "/")
		original, err := read(stepBefore)
		if err != nil {
			return err
		}

		for address, line := range original {
			if got, ok := copied[address]; ok && got != line {
				h.violated("plan %s: the copy of %s differs:\n%s", f.planID, address, differences(line, got))
			}
		}
	}
	return nil
}
