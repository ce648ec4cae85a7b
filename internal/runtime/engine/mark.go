package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/record"
)

// maxMarked bounds what a mark has of an input, in bytes. A longer one is known by its hash.
const maxMarked = 16 << 10

// Same puts on record what the code does besides steps, with its input, or compares that with what is on record. number
// tells what the code does so apart, and the step of an index comes next.
func (r *Run) Same(ctx context.Context, number int, what, input string, nextStep int) error {
	begin := what + ": "
	if input = r.redact(input); len(input) > maxMarked {
		sum := sha256.Sum256([]byte(Comparable(input)))
		input = fmt.Sprintf("%s (SHA-256 %x)", tool.Cut(input, maxMarked), sum)
	}

	mark, err := r.mark(ctx, fmt.Sprint("same ", number), nextStep, record.ThoughtAction, begin+input)
	if err != nil || mark == nil {
		return err
	}

	content := optional.Value(mark.Content)
	was, ok := strings.CutPrefix(content, begin)
	switch {
	case ok && Comparable(was) == Comparable(input):
		return nil
	case r.run.Anew && r.before(mark.Time):
		r.replaceMark(mark, begin+input)
		return nil
	}
	return r.mismatch("step:"+r.stepID(nextStep), "on record is: %s; now it is: %s", shortText(content),
		shortText(begin+input))
}

// replaceMark puts another content of a mark on record with the next write.
func (r *Run) replaceMark(mark *record.Thought, content string) {
	next := *mark
	next.Content, next.Time = &content, new(r.now())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteThought(&next)
	r.later.changes = append(r.later.changes, &next)
}

// Version returns which version of a part of the code a run goes on with: the one that is on record; 0 if the record
// passed there without one; else n, which is on record from now on.
func (r *Run) Version(ctx context.Context, name string, n, nextStep int) (int, error) {
	mark, err := r.mark(ctx, "version "+name, nextStep, record.ThoughtDecision, fmt.Sprintf("Version %d of %s.", n, name))
	if err != nil || mark == nil {
		return 0, err
	}
	var version int
	if _, err := fmt.Sscanf(optional.Value(mark.Content), "Version %d of", &version); err != nil {
		return 0, r.mismatch("thought:"+mark.ThoughtID, "the version of %s cannot be read: %v", shortText(name), err)
	}
	return version, nil
}

// mark returns the thought that is on record under a key. If there is none, it adds one with the next write, and
// returns that; but if a step is on record that begins after it, the record passed there without one: then it returns
// nil.
func (r *Run) mark(
	ctx context.Context, key string, nextStep int, t record.ThoughtType, content string,
) (*record.Thought, error) {
	id := derive(markPrefix, r.idsOf(), key)
	r.mu.Lock()
	known, decided := r.marks[id]
	r.mu.Unlock()
	if decided {
		return known, nil
	}

	if mark, decided := playedIn(r.leased).version(id, r.stepID(nextStep)); decided && t == record.ThoughtDecision {
		return mark, nil
	}

	passed, err := r.hasStep(ctx, nextStep)
	if err != nil {
		return nil, err
	}
	if passed { // the same holds for the rest of the run: otherwise it depended on where the run is called again
		r.noteUnmarked(id)
		return nil, nil
	}
	mark := &record.Thought{ThoughtID: id, Type: &t, Content: new(r.redact(content))}
	r.addThought(*mark)
	return mark, nil
}

// hasStep reports whether a step is on record that was begun before the run was claimed, and is not made anew.
func (r *Run) hasStep(ctx context.Context, index int) (bool, error) {
	if r.isNew() {
		return false, nil
	}
	row, err := r.engine.store.Row(ctx, record.Key{
		Kind: record.KindAgentExecution, Root: r.run.RootPlanID, ID: r.stepID(index),
	})
	if errors.Is(err, record.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}

	step := row.(*record.AgentExecution)
	return !r.isAnew(step.Attempt, *step.State, step.StartTime), nil
}
