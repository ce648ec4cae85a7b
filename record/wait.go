package record

import (
	"encoding/json"
	"time"
)

// Wait is a run that waits for a human: the question, the answer, and how long it took.
// FormInputs is a list of string maps. The answer to a form stands in them, as their value.
type Wait struct {
	RootPlanID      string          `record:"rootPlanId,key"`
	PlanID          string          `record:"planId,key"`
	WaitID          string          `record:"waitId,key"`
	Rev             *int64          `record:"rev,revision"`
	StepID          *string         `record:"stepId,id"`
	ToolCallID      *string         `record:"toolCallId,id"`
	Type            *WaitType       `record:"type,enum"`
	Title           *string         `record:"title,text"`
	FormDescription *string         `record:"formDescription,text"`
	FormInputs      json.RawMessage `record:"formInputs,stringMaps"`
	State           *State          `record:"state,state,column=told_state,shown=state"`
	Decision        *string         `record:"decision,text"`
	DecidedBy       *string         `record:"decidedBy,name"`
	StartTime       *time.Time      `record:"startTime,least"`
	EndTime         *time.Time      `record:"endTime,greatest"`
	ExpiresAt       *time.Time      `record:"expiresAt"`
	// Subject is what the human decides on: an object, such as the name and the parameters of a tool
	// call. SubjectSHA256 is the hash of exactly that, in hex digits, so that nothing else is done.
	Subject       json.RawMessage `record:"subject,object"`
	SubjectSHA256 *string         `record:"subjectSha256,id"`
	// DecisionText is what the human added to the decision.
	DecisionText *string `record:"decisionText,text"`
	// By is who decided, as they said themselves. DecidedBy is who that was, as the server or the program knows them.
	By *string `record:"by,name,column=claimed_by"`

	// ForkedFrom is the wait of another run that this one is a copy of, as wait:WAIT; nil: it is none. A copy
	// counts in no figure.
	ForkedFrom *string `record:"forkedFrom,address"`
}

// WaitType is what a human is asked for.
type WaitType string

// The wait types.
const (
	WaitUserInput        WaitType = "USER_INPUT"
	WaitPlanValidation   WaitType = "PLAN_VALIDATION"
	WaitActionValidation WaitType = "ACTION_VALIDATION"
)

// Kind implements [Change].
func (w *Wait) Kind() Kind { return KindWait }

// Key implements [Change].
func (w *Wait) Key() Key {
	return Key{Kind: KindWait, Root: w.RootPlanID, Parent: w.PlanID, ID: w.WaitID}
}

// Revision implements [Change].
func (w *Wait) Revision() *int64 { return w.Rev }
