//go:build page

package web_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// scene writes a week of runs as a team may have them: most went well, some failed, one goes on, one waits.
// It returns the ids of the run that failed last, and of the one that did the same well before.
func (s *site) scene(now time.Time) (failed, well string) {
	s.t.Helper()
	tasks := []struct{ title, project, agent, model string }{
		{"Find stale pages", "docs", "researcher", "claude-sonnet-4-5"},
		{"Answer ticket 4507: lamp arrived broken", "support", "triage", "gpt-5-mini"},
		{"Summarise the release notes of June", "docs", "writer", "gpt-5-mini"},
		{"Answer ticket 4511: refund for two chairs", "support", "triage", "gpt-5-mini"},
		{"Check the links of the handbook", "docs", "crawler", "claude-haiku-4-5"},
		{"Weekly figures of returns", "sales", "analyst", "claude-sonnet-4-5"},
	}
	for i := range 42 {
		task := tasks[i%len(tasks)]
		root := fmt.Sprintf("run-%02d", i)
		start := now.Add(-time.Duration(42-i) * 3 * time.Hour / 2).Add(time.Duration(i*i%37) * time.Minute)
		conversation := new("ticket-" + fmt.Sprint(4507+i%3))
		if task.project != "support" {
			conversation = nil
		}

		r := &story{s: s, root: root, now: start, model: task.model}
		r.add(&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new(task.title),
			UserRequest: new(task.title + ", please."), Project: new(task.project),
			Tags: []string{"nightly"}, ConversationID: conversation, State: new(record.Running), StartTime: r.at(),
			ModelName: new(task.model)})

		switch task.title {
		case "Find stale pages":
			r.stalePages(i >= 36)
			if i >= 36 {
				failed = root
			} else {
				well = root
			}
		default:
			r.ticket(task.agent, i)
		}

		switch {
		case i == 41: // goes on
		case i == 39:
			r.add(&record.Wait{RootPlanID: root, PlanID: root, WaitID: root + "-w", StepID: new(root + "-" + task.agent),
				Type: new(record.WaitUserInput), Title: new("May we refund 249.00 EUR to the customer?"),
				FormDescription: new("The customer sent pictures of both chairs."), State: new(record.Waiting), StartTime: r.at()})
		case root == failed || i%11 == 4:
			r.add(&record.Plan{
				RootPlanID: root, CurrentPlanID: root, State: new(record.Failed), EndTime: r.at(),
				ErrorMessage: new("a step failed"),
			})
		default:
			r.add(&record.Plan{
				RootPlanID: root, CurrentPlanID: root, State: new(record.Completed), EndTime: r.at(),
				Summary: new("Done: " + strings.ToLower(task.title) + "."),
			})
		}

		r.write()
	}

	return failed, well
}

// story writes down a run as it goes on.
type story struct {
	s       *site
	root    string
	model   string
	now     time.Time
	changes []record.Change
}

func (r *story) add(c ...record.Change) { r.changes = append(r.changes, c...) }

func (r *story) at() *time.Time { return new(r.now) }

func (r *story) after(d time.Duration) *time.Time {
	r.now = r.now.Add(d)
	return r.at()
}

func (r *story) write() {
	r.s.t.Helper()
	storetest.Write(r.s.t, r.s.store, r.changes...)
}

// step adds a step that an agent does by what do adds.
func (r *story) step(plan, agent, request string, index int, state record.State, do func(step string)) {
	step := r.root + "-" + agent
	r.add(&record.AgentExecution{
		RootPlanID: r.root, PlanID: plan, StepID: step, StepIndex: new(int64(index)), AgentName: new(agent),
		AgentRequest: new(request), ModelName: new(r.model), State: new(record.Running), StartTime: r.at(),
	})
	do(step)
	r.add(&record.AgentExecution{
		RootPlanID: r.root, PlanID: plan, StepID: step, State: new(state), EndTime: r.at(),
		Result: new("Done by " + agent + "."),
	})
}

// think adds a cycle.
func (r *story) think(step string, seq int, took time.Duration, in, out int64, prompt []map[string]any, answer string) {
	text, err := json.Marshal(prompt)
	if err != nil {
		r.s.t.Fatal(err)
	}

	r.add(&record.ThinkAct{RootPlanID: r.root, StepID: step, Seq: int64(seq), State: new(record.Completed),
		ModelName: new(r.model), ThinkStartTime: r.at(), ThinkEndTime: r.after(took), ThinkInput: new(string(text)),
		ThinkOutput: new(answer), InputTokens: new(in), OutputTokens: new(out),
		CostUSD: new(float64(in)*3e-6 + float64(out)*15e-6)})
}

// call adds a call of a tool. Without a result it fails.
func (r *story) call(step string, seq, index int, name, parameters, result string, took time.Duration) {
	id := fmt.Sprintf("call-%d-%d", seq, index)
	c := &record.ActTool{
		RootPlanID: r.root, StepID: step, Seq: int64(seq), ToolCallID: id, CallIndex: new(int64(index)), Name: new(name),
		Parameters: new(parameters), StartTime: r.at(), EndTime: r.after(took), State: new(record.Completed),
		Result: new(result),
	}

	if result == "" {
		c.State, c.Result = new(record.Failed), nil
		c.ErrorKind, c.ErrorMessage = new("timeout"), new("no answer within 10 s")
	}
	r.add(c)
}

func message(role, content string) map[string]any {
	return map[string]any{"role": role, "content": content}
}

// ticket is a run of one agent and two tools.
func (r *story) ticket(agent string, n int) {
	took := time.Duration(400+n*137%1900) * time.Millisecond

	r.step(r.root, agent, "Do it.", 0, record.Completed, func(step string) {
		ask := []map[string]any{message("system", "You help the team. Answer in short sentences."), message("user", "Do it.")}
		r.think(step, 0, took, int64(900+n*71%800), 64, ask, "I look at the notes first.")
		r.call(step, 0, 0, "search", `{"query":"notes","limit":20}`, `{"hits":12,"best":"a note of Monday"}`, took/2)
		if n%11 == 4 {
			r.call(step, 0, 1, "fetch_page", `{"url":"https://example.com/a"}`, "", 10*time.Second)
		}
		r.think(step, 1, 2*took, int64(1900+n*53%900), 211,
			append(ask, message("assistant", "I look at the notes first."), message("tool", "12 hits")),
			"The note of Monday says it all. I answer.")
	})
}

// stalePages is a run with a sub-agent, in which a tool gives no answer if it fails.
func (r *story) stalePages(fails bool) {
	state := record.Completed
	if fails {
		state = record.Failed
	}

	r.step(r.root, "triage", "What is asked for?", 0, record.Completed, func(step string) {
		r.think(step, 0, 2*time.Second, 612, 40,
			[]map[string]any{message("system", "You sort requests."), message("user", "Find stale pages, please.")},
			"A question for the researcher.")
	})
	r.step(r.root, "researcher", "Find pages that nobody has changed for two years.", 1, state, func(step string) {
		ask := []map[string]any{
			message("system", "You are a careful researcher. Use the tools."),
			message("user", "Find pages that nobody has changed for two years."),
		}
		r.think(step, 0, 3*time.Second, 1812, 96, ask, "I list the pages, and let **counter** count what is stale.")
		r.call(step, 0, 0, "list_pages", `{"space":"handbook"}`, `{"pages":412}`, time.Second)

		began, sub := r.at(), r.root+"-count"
		r.add(&record.Plan{
			RootPlanID: r.root, CurrentPlanID: sub, ParentPlanID: &r.root, ToolCallID: new("call-0-1"),
			Title: new("Count what is stale"), State: new(record.Running), StartTime: began,
		})
		r.step(sub, "counter", "Count the pages by age.", 0, state, func(counter string) {
			count := []map[string]any{message("system", "You write SQL."), message("user", "Count the pages by age.")}
			r.think(counter, 0, 2*time.Second, 812, 40, count, "I look at the table first.")
			r.call(counter, 0, 0, "describe_table", `{"table":"page"}`,
				`{"columns":["id","title","changed_at"],"rows":9007199254740993}`, 300*time.Millisecond)
			r.think(counter, 1, 4*time.Second, 1204, 88,
				append(count, message("assistant", "I look at the table first."), message("tool", "id, title, changed_at")),
				"Now I count.")

			result := `{"stale":37}`
			if fails {
				result = ""
			}
			r.call(counter, 1, 0, "run_sql",
				`{"sql":"SELECT count(*) FROM page\nWHERE changed_at < now() - interval '2 years'","timeoutMs":10000}`, result,
				10*time.Second)
		})

		r.add(&record.Plan{RootPlanID: r.root, CurrentPlanID: sub, State: new(state), EndTime: r.at()},
			&record.ActTool{
				RootPlanID: r.root, StepID: step, Seq: 0, ToolCallID: "call-0-1", CallIndex: new(int64(1)), Name: new("counter"),
				Parameters: new(`{"request":"Count the pages by age."}`), State: new(state), StartTime: began, EndTime: r.at(),
			})
		r.think(step, 1, 6*time.Second, 4211, 310,
			append(ask, message("assistant", "I list the pages, and let counter count what is stale."),
				message("tool", `{"pages":412}`)),
			"There are 37 stale pages:\n\n| age | pages |\n|---|---|\n| 2 years | 21 |\n| 3 years | 16 |")
	})
}

// hardScene writes a run that is hard to show: a hundred agents with long names, sub-plans forty deep, and at their end
// an error of 4 MiB in one word.
func (s *site) hardScene(now time.Time) (root, deepest string) {
	s.t.Helper()
	root = "hard-" + strings.Repeat("0123456789", 12)
	long := strings.Repeat("averyverylongname", 20)
	r := &story{s: s, root: root, now: now, model: long}
	r.add(&record.Plan{
		RootPlanID: root, CurrentPlanID: root, Title: new("Hard " + long),
		UserRequest: new(strings.Repeat("many words ", 2_000)), State: new(record.Failed), StartTime: r.at(),
		Project: new(long[:60]), ConversationID: new(long[:120]),
	})

	for i := range 100 {
		r.add(&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: fmt.Sprint("agent-", i), StepIndex: new(int64(i)),
			AgentName: new(fmt.Sprint("agent ", i, " ", long)), ModelName: new(long), State: new(record.Completed),
			StartTime: r.at(), EndTime: r.at(),
		})
	}

	plan, id := root, func(depth int) string { return fmt.Sprint("deep-", depth) }
	for depth := range 40 {
		step, sub := "step-"+id(depth), id(depth)
		r.add(&record.AgentExecution{
			RootPlanID: root, PlanID: plan, StepID: step, StepIndex: new(int64(100)), AgentName: new("delegates"),
			State: new(record.Failed), StartTime: r.at(),
		},
			&record.ActTool{
				RootPlanID: root, StepID: step, ToolCallID: sub, Name: new("ask " + long), State: new(record.Failed),
				StartTime: r.at(),
			},
			&record.Plan{
				RootPlanID: root, CurrentPlanID: sub, ParentPlanID: new(plan), ToolCallID: new(sub),
				Title: new("Level " + fmt.Sprint(depth)), State: new(record.Failed), StartTime: r.at(),
			})

		plan = sub
	}

	r.add(&record.AgentExecution{
		RootPlanID: root, PlanID: plan, StepID: "last", AgentName: new(long), State: new(record.Failed), StartTime: r.at(),
		EndTime: r.at(),
	},
		&record.ActTool{RootPlanID: root, StepID: "last", ToolCallID: "x", Name: new("run_sql"), State: new(record.Failed),
			ErrorMessage: new(strings.Repeat("x", 4<<20)), StartTime: r.at(), EndTime: r.at(),
			Parameters: new(`{"` + long + `": "` + strings.Repeat("y", 100_000) + `"}`)})
	r.write()
	return root, "call:last/0/x"
}
