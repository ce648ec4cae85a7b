package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// Conversation is what several runs take part in, such as the session of an agent. It begins when something is said in
// it. The run itself says whose it is.
type Conversation = runstore.Conversation

// ConversationID returns the conversation that the run belongs to; empty: none.
func (r *Run) ConversationID() string { return optional.Value(r.plan.ConversationID) }

// History returns the last messages of a conversation from before the run, oldest first, with the tool calls
// that have results.
func (r *Run) History(ctx context.Context, conversationID string, messages int) ([]model.Message, error) {
	if conversationID == "" {
		return nil, nil
	}

	of := r.ours(Conversation{ID: conversationID})
	earlier, err := r.engine.store.History(ctx, of, r.run.RootPlanID, r.run.PlanID, messages)
	if err != nil {
		return nil, err
	}

	history := make([]model.Message, len(earlier))
	for i, s := range earlier {
		if s.Message == nil {
			history[i] = model.Message{Role: model.Role(s.Role), Parts: []model.Part{{Text: s.Text}}}
		} else if err := json.Unmarshal(s.Message, &history[i]); err != nil {
			return nil, fmt.Errorf("read a message of conversation %s: %w", conversationID, err)
		}
	}
	return answered(history), nil
}

// answered returns messages without calls that have no results, and without results whose calls are missing:
// a model refuses both.
func answered(history []model.Message) (kept []model.Message) {
	for i, m := range history {
		calls := len(m.Calls())
		results := func(at int) int {
			if at < 0 || at >= len(history) || history[at].Role != model.RoleTool {
				return 0
			}
			return len(history[at].Parts)
		}

		switch {
		case m.Role == model.RoleTool && (i == 0 || len(history[i-1].Calls()) != results(i)), calls > 0 &&
			results(i+1) != calls:
		default:
			kept = append(kept, m)
		}
	}
	return kept
}

// Say puts messages of the run into a conversation, with the next thing that is put on record. They are
// numbered within the run and the conversation: what is there under a number stays.
func (r *Run) Say(c Conversation, number int, messages ...model.Message) {
	stored := make([]runstore.ConversationMessage, len(messages))
	for i, m := range messages {
		stored[i] = runstore.ConversationMessage{Role: string(m.Role), Text: r.redact(m.Text())}
		if len(m.Calls()) > 0 || m.Role == model.RoleTool {
			m.Provider, m.Raw = "", nil // another model may read it
			b, err := json.Marshal(m)   // texts
			if err == nil {
				stored[i].Message = json.RawMessage(r.redact(string(b)))
			}
		}
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.later.messages = append(r.later.messages, runstore.Say(r.ours(c), number, stored...))
}

// ours returns the conversation that an id means in this run: that of who began the tree, in its project.
func (r *Run) ours(c Conversation) Conversation {
	c.Starter, c.Project = r.run.Starter, r.run.Project
	c.UserID = optional.Value(r.plan.UserID)
	return c
}
