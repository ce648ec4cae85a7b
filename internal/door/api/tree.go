package api

import (
	"cmp"
	"strings"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/record"
)

// addPlan appends a plan with everything below it.
func addPlan(o *object, p *tree.Plan) {
	r := &p.Record
	o.b = append(o.b, '{')
	o.int("id", p.ID)
	o.fields(views[record.KindPlan], r)
	o.int("currentStepIndex", int64(p.CurrentStepIndex()))
	o.bool("completed", r.State.Terminal())
	o.attempts(p.PastAttempts, r)
	o.value("lastSignOfLife", p.LastSignOfLife)

	o.name("userInputWaitState")
	addWaitState(o, p)
	o.name("parentActToolCall")
	if p.ToolCall != nil {
		addToolCall(o, p.ToolCall)
	} else {
		o.b = append(o.b, "null"...)
	}

	o.text("structureResult", compactText(p.StructureResult))
	if p.Link != "" {
		o.raw("link", `"`+string(p.Link)+`"`)
	} else {
		o.raw("link", "null")
	}

	o.value("figures", wire.FiguresOf(&p.Figures))
	o.value("total", wire.FiguresOf(&p.Total))
	list(o, "agentExecutionSequence", p.Steps, addStepOfTree)
	list(o, "subPlanExecutionRecords", p.SubPlans, addPlan)
	o.bool("placeholder", p.Placeholder)
	o.name("alsoUnder")
	o.b = appendTexts(o.b, p.AlsoUnder)

	o.name("omitted")
	if p.Omitted != nil {
		addOmitted(o, p.Omitted)
	} else {
		o.b = append(o.b, "null"...)
	}
	o.truncated(p.Truncated)
	o.b = append(o.b, '}')
}

func addOmitted(o *object, omitted *tree.Omitted) {
	o.b = append(o.b, '{')
	o.int("plans", omitted.Plans)
	o.name("planIds")
	o.b = appendTexts(o.b, omitted.PlanIDs)
	o.b = append(o.b, '}')
}

// addStepOfTree hides an error that the step recovered from on the way to its result.
func addStepOfTree(o *object, st *tree.Step) {
	r := &st.Record
	if r.ErrorMessage != nil && strings.HasPrefix(*r.ErrorMessage, "System execution error at step") &&
		r.State.Status() == record.StatusFinished && r.Result != nil && *r.Result != "" {
		shown := *st
		shown.Record.ErrorMessage = nil
		st = &shown
	}
	addStep(o, st)
}

// waitView has what the executor contract shows of a wait.
var waitView = viewOf(record.KindWait, []string{
	"rootPlanId", "planId", "stepId", "toolCallId", "title", "state", "decision", "decidedBy", "by", "subject",
	"subjectSha256", "decisionText", "startTime", "endTime", "expiresAt", "forkedFrom",
}, nil)

const defaultWaitTitle = "Awaiting user input."

// addWaitState appends the form that a run waits for, or null.
func addWaitState(o *object, p *tree.Plan) {
	w := p.Wait
	if w == nil {
		o.b = append(o.b, "null"...)
		return
	}

	o.b = append(o.b, '{')
	o.text("planId", &p.Record.RootPlanID)
	o.text("title", cmp.Or(w.Title, new(defaultWaitTitle)))
	o.bool("waiting", true)
	o.fields(waitView, w)
	o.b = append(o.b, '}')
}

// The executor contract has these kinds without some fields: ids that the place in the tree
// says, and the id of a tool call under another name.
var (
	stepView = viewOf(record.KindAgentExecution, []string{"spanId"},
		map[string]string{"maxSteps": "0", "currentStep": "0"})
	cycleView = viewOf(record.KindThinkAct, []string{"rootPlanId", "stepId", "spanId"}, nil)
	// cycleViews are by whether contents come once.
	cycleViews = map[bool]view{false: cycleView, true: cycleView.withPieces()}
	toolView   = viewOf(record.KindActTool, []string{"rootPlanId", "stepId", "seq", "toolCallId", "spanId"}, nil)
)

// addStep appends an agent execution: in a tree with its sub-plans, alone with its cycles.
func addStep(o *object, st *tree.Step) {
	o.b = append(o.b, '{')
	addStepMembers(o, cycleView, st)
}

// addStepOnce appends an agent execution whose cycles refer to contents.
func addStepOnce(o *object, st *tree.Step, contents []content.Content) {
	o.b = append(o.b, '{')
	o.name("contents")
	o.b = append(o.b, '{')
	for _, c := range contents {
		addContent(o, c)
		o.next()
	}
	o.b = append(o.b, '}')
	addStepMembers(o, cycleViews[true], st)
}

// addContent appends a content as a member named by its hash.
func addContent(o *object, c content.Content) {
	o.name(c.Hash.String())
	o.b = append(o.b, '{')
	if c.Pieces != nil {
		o.name("parts")
		o.b = appendHashes(o.b, content.Bytes(c.Pieces))
	} else {
		o.text("body", &c.Body)
	}
	o.b = append(o.b, '}')
}

// addStepMembers appends the members of an agent execution. cycles is the view of its cycles.
func addStepMembers(o *object, cycles view, st *tree.Step) {
	addStepHead(o, st)
	list(o, "thinkActSteps", st.Cycles, func(o *object, c *tree.Cycle) { addCycle(o, cycles, c, st.ID) })
	addStepEnd(o, st)
}

// addStepHead appends what comes before the cycles, and addStepEnd what comes behind them.
func addStepHead(o *object, st *tree.Step) {
	o.int("id", st.ID)
	o.fields(stepView, &st.Record)
	o.attempts(st.PastAttempts, &st.Record)

	status := st.Record.State.Status()
	o.raw("status", `"`+string(status)+`"`)
	o.bool("completed", status == record.StatusFinished)
	o.bool("running", status == record.StatusRunning)
	o.bool("idle", status == record.StatusIdle)
	addRollUps(o, st)
}

func addStepEnd(o *object, st *tree.Step) {
	o.int("subPlanCount", int64(len(st.SubPlans))+st.Omitted)
	list(o, "subPlanExecutionRecords", st.SubPlans, addPlan)
	o.name("alsoUnder")
	o.b = appendTexts(o.b, st.AlsoUnder)
	o.truncated(st.Truncated)
	o.b = append(o.b, '}')
}

// addRollUps appends what sums up the cycles of a step.
func addRollUps(o *object, st *tree.Step) {
	o.int("completedThinkActStepsCount", st.CompletedCycles)
	o.text("latestMethodName", st.LatestToolName)
	o.text("latestMethodArgs", st.LatestToolArgs)
	o.int("latestRoundNumber", st.LatestRound)
	o.value("figures", wire.FiguresOf(&st.Figures))
}

func addCycle(o *object, v view, c *tree.Cycle, stepID int64) {
	var firstCall *record.ActTool
	if len(c.ToolCalls) > 0 {
		firstCall = &c.ToolCalls[0].Record
	}
	addCycleHead(o, v, c, stepID, firstCall)
	list(o, "actToolInfoList", c.ToolCalls, addToolCall)
	addCycleEnd(o, c)
}

// addCycleHead appends what stands before the tool calls of a cycle, the first of which is nil if
// there is none.
func addCycleHead(o *object, v view, c *tree.Cycle, stepID int64, firstCall *record.ActTool) {
	o.b = append(o.b, '{')
	o.int("id", c.ID)
	o.int("parentExecutionId", stepID)
	o.fields(v, &c.Record)
	o.attempts(c.PastAttempts, &c.Record)
	o.raw("status", `"`+string(c.Record.State.Status())+`"`)
	o.bool("actionNeeded", firstCall != nil)

	if firstCall == nil {
		firstCall = new(record.ActTool)
	}
	o.text("toolName", firstCall.Name)
	o.text("toolParameters", firstCall.Parameters)
}

// addCycleEnd appends what stands behind them.
func addCycleEnd(o *object, c *tree.Cycle) {
	o.truncated(c.Truncated)
	o.b = append(o.b, '}')
}

func addToolCall(o *object, t *tree.ToolCall) {
	o.b = append(o.b, '{')
	o.text("id", &t.Record.ToolCallID)
	o.fields(toolView, &t.Record)
	o.attempts(t.PastAttempts, &t.Record)
	o.truncated(t.Truncated)
	o.b = append(o.b, '}')
}

// compactText compacts a text that is JSON, and keeps its order. Any other text stays as it
// is.
func compactText(s *string) *string {
	if s == nil {
		return nil
	}
	return new(string(compacted([]byte(*s))))
}
