package plan

import (
	"encoding/json"
	"time"

	"github.com/actlog/actlog/record"
)

// Result is what came of a task, as its record has it. No list is nil, however the run ended.
type Result struct {
	Success    bool       `json:"success"`
	Operations Operations `json:"operations"`
	// Artifacts are what the operations produced, by name.
	Artifacts map[string]json.RawMessage `json:"artifacts"`
	// AuditTrail is always empty.
	AuditTrail   []struct{} `json:"audit_trail"`
	ReasoningLog Thoughts   `json:"reasoning_log"`
	// Error says why the work did not come to its end; nil: it did. What failed on the way is in Operations.
	Error *string `json:"error"`
}

// Operation is one that was made, or refused.
type Operation struct {
	Tool      string          `json:"tool_name"` // such as files
	Operation string          `json:"operation"` // such as read_file
	Success   bool            `json:"success"`
	Params    json.RawMessage `json:"params"` // JSON
	Result    *string         `json:"result"` // nil: it failed
	Error     *string         `json:"error"`  // nil: it succeeded
	Timestamp *time.Time      `json:"timestamp"`
	// DurationMS is nil for an operation that was refused.
	DurationMS *int64 `json:"duration_ms"`
}

// Thought is an entry of the reasoning log.
type Thought struct {
	AgentID           *string             `json:"agent_id"`
	Role              *string             `json:"role"`
	Iteration         *int64              `json:"iteration"` // 0: before the first operation; -1: a fatal error
	Type              *record.ThoughtType `json:"thought_type"`
	Content           *string             `json:"content"`
	RelatedOperations []string            `json:"related_operations"`
	Confidence        *float64            `json:"confidence"` // from 0 to 1; nil: not given
	Timestamp         *time.Time          `json:"timestamp"`
}

// Operations are operations in the order in which they were made. Their number is their count.
type Operations []Operation

// ByTool returns those of a tool.
func (o Operations) ByTool(name string) Operations {
	return only(o, func(each *Operation) bool { return each.Tool == name })
}

// ByOperation returns those of an operation, of any tool.
func (o Operations) ByOperation(name string) Operations {
	return only(o, func(each *Operation) bool { return each.Operation == name })
}

// BySuccess returns those that succeeded, or those that failed.
func (o Operations) BySuccess(success bool) Operations {
	return only(o, func(each *Operation) bool { return each.Success == success })
}

// Thoughts are entries of a reasoning log, in order. Their number is their count.
type Thoughts []Thought

// ByType returns those of a type.
func (t Thoughts) ByType(kind record.ThoughtType) Thoughts {
	return only(t, func(each *Thought) bool { return each.Type != nil && *each.Type == kind })
}

// ByIteration returns those of an iteration.
func (t Thoughts) ByIteration(iteration int64) Thoughts {
	return only(t, func(each *Thought) bool { return each.Iteration != nil && *each.Iteration == iteration })
}

// Last returns the last n; all, if there are fewer.
func (t Thoughts) Last(n int) Thoughts { return t[len(t)-min(max(n, 0), len(t)):] }

// only returns what a list has that is wanted. It is never nil.
func only[S ~[]E, E any](all S, want func(*E) bool) S {
	some := S{}
	for i := range all {
		if want(&all[i]) {
			some = append(some, all[i])
		}
	}
	return some
}
