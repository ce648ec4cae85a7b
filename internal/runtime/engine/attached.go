package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/record"
)

// Thought adds a thought to the next write, and to the log. number names it within the run; a thought that is on record
// stays as it is, and a retry that comes to another one adds that. Each is later than the one before.
func (r *Run) Thought(number int, t record.Thought) {
	if t.Content != nil {
		t.Content = new(r.redact(*t.Content))
	}
	t.ThoughtID = derive("thought-", r.idsOf(), number)
	if r.retried() && r.saysOther(&t) {
		t.ThoughtID = derive("thought-", r.idsOf(), number, *r.plan.Attempt)
	}
	r.addThought(t)
}

// saysOther reports whether a thought is on record under the id of one, and says something else.
func (r *Run) saysOther(t *record.Thought) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.thoughts[t.ThoughtID]
	return ok && known != hash([]byte(optional.Value(t.Content)))
}

// addThought adds a thought, unless it is on record.
func (r *Run) addThought(t record.Thought) {
	t.RootPlanID, t.PlanID = r.run.RootPlanID, r.run.PlanID
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.thoughts[t.ThoughtID]; known {
		return
	}

	if t.Time == nil {
		t.Time = new(later(r.now(), r.thoughtAt))
	}
	r.noteThought(&t)
	r.later.changes = append(r.later.changes, &t)
	r.log.Info(fmt.Sprintf("[%s] %s: %s", optional.Value(t.AgentID), strings.ToUpper(string(*t.Type)),
		tool.Cut(optional.Value(t.Content), maxThoughtLogged)))
}

// maxThoughtLogged bounds what the log says of a thought, in bytes.
const maxThoughtLogged = 2 << 10

// eachAttached reads all records of a kind that are attached to the plan of the run.
func (r *Run) eachAttached(ctx context.Context, kind record.Kind, take func(record.Change)) error {
	return r.engine.store.EachAttached(ctx, kind, r.run.RootPlanID, r.run.PlanID, take)
}

// Artifacts returns the names of the artifacts that are on record, in order.
func (r *Run) Artifacts(ctx context.Context) (names []string, err error) {
	if err := r.Save(); err != nil {
		return nil, err
	}
	err = r.eachAttached(ctx, record.KindArtifact, func(c record.Change) {
		names = append(names, c.(*record.Artifact).Name)
	})
	return names, err
}

// Metadata adds metadata of the plan to the next write.
func (r *Run) Metadata(m json.RawMessage) {
	r.addLater(&record.Plan{RootPlanID: r.run.RootPlanID, CurrentPlanID: r.run.PlanID, Metadata: m})
}

// Title adds another title of the plan to the next write.
func (r *Run) Title(title string) {
	r.addLater(&record.Plan{
		RootPlanID: r.run.RootPlanID, CurrentPlanID: r.run.PlanID, Title: optional.Pointer(r.redact(title)),
	})
}

// Artifact adds something that the run produced to the next write, by its name.
func (r *Run) Artifact(a tool.Artifact) { r.addLater(r.artifact(nil, nil, a)) }

// artifact returns something that a run produced, or a tool call of it, known by its name.
func (r *Run) artifact(stepID, toolCallID *string, a tool.Artifact) record.Change {
	row := newArtifact(r.parts, r.run.RootPlanID, r.run.PlanID, a)
	row.StepID, row.ToolCallID = stepID, toolCallID
	return row
}

// source returns a source of a tool call.
func (r *Run) source(stepID, toolCallID string, number int, s tool.Source) record.Change {
	c := &record.Source{
		RootPlanID: r.run.RootPlanID, PlanID: r.run.PlanID, SourceID: derive("source-", toolCallID, number), StepID: &stepID,
		ToolCallID: &toolCallID,
		URI:        optional.Pointer(r.redact(s.URI)), Snippet: optional.Pointer(r.redact(s.Snippet)),
		Description: optional.Pointer(r.redact(s.Description)),
	}

	if s.Type != "" {
		c.Type = &s.Type
	}
	if s.LineStart > 0 {
		c.LineStart, c.LineEnd = new(int64(s.LineStart)), new(int64(max(s.LineEnd, s.LineStart)))
	}
	if s.Score > 0 {
		c.RelevanceScore = new(min(s.Score, 1))
	}
	return c
}
