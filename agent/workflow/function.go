package workflow

import (
	"context"
	"encoding/json"
	"time"
)

// Func is a workflow in Go. It is called with what the workflow is given, as JSON, and the session of the
// run, which may be empty. What it returns, as JSON, is the output of the workflow.
//
// It is called again from its beginning after a crash, and when what a call waited for has come.
// The calls of its facade are on record: those that were made return what they returned, and are not made
// again. They are told apart by their order. So a function makes them one after the other, decides by its
// input and by what they return, and leaves effects to them. It returns when one of them returns an error
// that wraps [ErrInterrupted].
type Func func(ctx context.Context, f Facade, input json.RawMessage, session string) (any, error)

// Facade runs what a workflow is made of: each call is a step of its run.
type Facade interface {
	// RunAgent gives an agent a message and returns how it ended. The error wraps [ErrFailed] if the status
	// is not success.
	RunAgent(ctx context.Context, agent, message string) (AgentResult, error)
	// RunWorkflow runs a simple or a custom workflow. The error wraps [ErrFailed] if its status is not
	// completed.
	RunWorkflow(ctx context.Context, workflow string, input any) (Result, error)
	// CallTool calls a tool with arguments that are a JSON object, and returns its output. The error wraps
	// [ErrFailed] if the tool did not do what was asked, and [ErrUnknown] if nobody can tell whether it did. Of a call of
	// which a person says then that it is done, the output is lost: it is empty. One that they skip wraps ErrFailed.
	CallTool(ctx context.Context, tool string, arguments any) (string, error)
	// Version lets a function change while runs of it are open. It returns n, which is 1 or more, in a run that comes
	// there first; in one that was there before, what it returned then; and 0 if the record of the run passed there
	// without one, because it was made by code that did not ask. A name has one version in a run.
	Version(ctx context.Context, name string, n int) (int, error)
	// Sleep returns after a time, which may be days: no worker holds the run meanwhile. Take the time from the input or
	// from what calls return: one that is computed from the clock differs when the function is called again.
	Sleep(ctx context.Context, d time.Duration) error
	// Event returns the data of the oldest event with a key that the run has not taken: one that was sent within 24 hours
	// before, or the first that is. No worker holds the run meanwhile. After the timeout, if it is not 0, the error wraps
	// [ErrTimedOut].
	Event(ctx context.Context, key string, timeout time.Duration) (json.RawMessage, error)
}
