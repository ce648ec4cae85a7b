package apitest

import (
	"fmt"
	"maps"
)

// Records, as clients write them. more has members besides the key.

func rec(kind string, key Obj, more []Obj) Obj {
	out := Obj{"kind": kind}
	maps.Copy(out, key)
	for _, m := range more {
		maps.Copy(out, m)
	}
	return out
}

// Plan is a root plan.
func Plan(id string, more ...Obj) Obj {
	return rec("plan", Obj{"rootPlanId": id, "currentPlanId": id}, more)
}

// SubPlan is a plan that a tool call of parent started.
func SubPlan(root, id, parent, toolCallID string, more ...Obj) Obj {
	return rec("plan", Obj{"rootPlanId": root, "currentPlanId": id, "parentPlanId": parent, "toolCallId": toolCallID},
		more)
}

// Step is an agent execution.
func Step(root, planID, id string, more ...Obj) Obj {
	return rec("agentExecution", Obj{"rootPlanId": root, "planId": planID, "stepId": id}, more)
}

// Cycle is a think-act cycle.
func Cycle(root, stepID string, seq int, more ...Obj) Obj {
	return rec("thinkAct", Obj{"rootPlanId": root, "stepId": stepID, "seq": seq}, more)
}

// Tool is a tool call.
func Tool(root, stepID string, seq int, id string, more ...Obj) Obj {
	return rec("actTool", Obj{"rootPlanId": root, "stepId": stepID, "seq": seq, "toolCallId": id}, more)
}

// Wait is a wait for a human.
func Wait(root, planID, id string, more ...Obj) Obj {
	return rec("wait", Obj{"rootPlanId": root, "planId": planID, "waitId": id}, more)
}

// Thought is an entry of the reasoning log.
func Thought(root, planID, id string, more ...Obj) Obj {
	return rec("thought", Obj{"rootPlanId": root, "planId": planID, "thoughtId": id}, more)
}

// Artifact is something that a plan produced.
func Artifact(root, planID, name string, more ...Obj) Obj {
	return rec("artifact", Obj{"rootPlanId": root, "planId": planID, "name": name}, more)
}

// Source is something that an agent relied on.
func Source(root, planID, id string, more ...Obj) Obj {
	return rec("source", Obj{"rootPlanId": root, "planId": planID, "sourceId": id}, more)
}

// State is the member state.
func State(s string) Obj { return Obj{"state": s} }

// At is a time of the day that tests use.
func At(second int) string {
	return fmt.Sprintf("2026-11-20T12:%02d:%02dZ", second/60, second%60)
}
