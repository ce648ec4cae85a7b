package runstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// Conversation is what several runs of one starter in one project take part in. One that an agent or a workflow is
// named of is a session. The same id of another starter, or in another project, is another conversation.
type Conversation struct {
	ID           string
	Starter      string // who began its runs; may be empty
	Project      string // of its runs; empty: the default one
	UserID       string
	AgentName    string
	WorkflowName string
	BaseID       string // the session of the workflow, of a session of one of its steps
}

// keyPrefix begins the keys of conversations that are told apart by more than their ids.
const keyPrefix = "conversation:"

// key returns the key of the conversation's row: a hash of whose it is and of its id, so that nobody finds that of
// somebody else by the id. The conversation of nobody in the default project has its id as the key.
func (c Conversation) key() string {
	project := cmp.Or(c.Project, DefaultProject)
	if c.Starter == "" && project == DefaultProject && !strings.HasPrefix(c.ID, keyPrefix) {
		return c.ID
	}

	h := sha256.New()
	for _, part := range []string{project, c.Starter, c.ID} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return keyPrefix + hex.EncodeToString(h.Sum(nil))
}

// SessionFilter narrows sessions. Empty fields do not narrow them.
type SessionFilter struct {
	// Starter is whose sessions they are; nil: anybody's.
	Starter         *string
	Project         string
	Agent, Workflow string
}

// Session is a conversation as it stands.
type Session struct {
	Conversation
	Key                  string // of its row: the id, unless it belongs to somebody
	CreatedAt, UpdatedAt time.Time
	Messages             int64
}

// ConversationMessage is a message of a conversation.
type ConversationMessage struct {
	Role    string          // user, assistant or tool
	Text    string          // of the message
	Message json.RawMessage // the message with its tool calls or their results; nil: it has none
}

// PlacedMessage is a message with its place in a conversation.
type PlacedMessage struct {
	ConversationMessage
	PlanID    string
	CreatedAt time.Time
}

// Say adds messages of the run to a conversation. The messages of a run are numbered: one that is there
// is not added again.
func Say(c Conversation, first int, said ...ConversationMessage) RunOp {
	roles, texts := make([]string, len(said)), make([]string, len(said))
	messages := make([]string, len(said))
	for i, each := range said {
		roles[i], messages[i] = each.Role, string(each.Message)
		texts[i] = strings.ReplaceAll(strings.ToValidUTF8(each.Text, "\uFFFD"), "\x00", "\uFFFD")
	}

	return RunOp{queue: func(q *pgx.Batch, l Lease) {
		key, given := c.key(), &c.ID
		if key == c.ID {
			given = nil
		}

		q.Queue(db.ConversationAdd, key, given, c.Starter, cmp.Or(c.Project, DefaultProject), optional.Pointer(c.UserID),
			optional.Pointer(c.AgentName), optional.Pointer(c.WorkflowName), optional.Pointer(c.BaseID))
		q.Queue(db.ConversationSay, key, l.PlanID, first, roles, texts, messages)
	}}
}

// History returns the last messages of a conversation from before a run, oldest first.
func (s *Store) History(
	ctx context.Context, c Conversation, rootPlanID, planID string, messages int,
) ([]ConversationMessage, error) {
	rows, err := read(ctx, s.Reader.DB(), queries.ConversationHistory, db.ConversationHistoryParams{
		ConversationID: c.key(), RootPlanID: rootPlanID, PlanID: planID, Messages: int32(messages),
	})
	if err != nil {
		return nil, fmt.Errorf("read conversation %s: %w", c.ID, err)
	}

	slices.Reverse(rows)
	return all(rows, func(r db.ConversationHistoryRow) ConversationMessage {
		return ConversationMessage{Role: r.Role, Text: r.Content, Message: r.Message}
	}), nil
}

// Session returns the session of an id. If several starters have one, it is that of asker, else the last used one. The
// error wraps [record.ErrNotFound] if there is none.
func (s *Store) Session(ctx context.Context, id string, f SessionFilter, asker string) (*Session, error) {
	row, err := read(ctx, s.Reader.DB(), queries.SessionOne, db.SessionOneParams{
		ConversationID: id, Starter: f.Starter, Project: optional.Pointer(f.Project), Asker: asker,
	})
	if err != nil {
		return nil, fmt.Errorf("read session %s: %w", id, err)
	}
	return new(sessionOf(db.SessionListRow(row))), nil
}

// Messages returns a page of the messages of a session, by its key, oldest first.
func (s *Store) Messages(ctx context.Context, key string, limit, offset int) ([]PlacedMessage, error) {
	rows, err := read(ctx, s.Reader.DB(), queries.ConversationMessages, db.ConversationMessagesParams{
		ConversationID: key, Messages: int32(limit), Skipped: int32(offset),
	})
	if err != nil {
		return nil, fmt.Errorf("read session %s: %w", key, err)
	}

	return all(rows, func(r db.ConversationMessagesRow) PlacedMessage {
		return PlacedMessage{ConversationMessage{Role: r.Role, Text: r.Content, Message: r.Message}, r.PlanID, r.CreatedAt}
	}), nil
}

// Sessions returns a page of the sessions of agents and workflows, the last used first, and how many there are on all
// pages.
func (s *Store) Sessions(
	ctx context.Context, f SessionFilter, limit, offset int,
) (page []Session, total int64, err error) {
	agent, workflow := optional.Pointer(f.Agent), optional.Pointer(f.Workflow)
	project := optional.Pointer(f.Project)
	rows, err := read(ctx, s.Reader.DB(), queries.SessionList, db.SessionListParams{
		Starter: f.Starter, Project: project, AgentName: agent, WorkflowName: workflow,
		Page: int32(limit), Skipped: int32(offset),
	})

	if err == nil {
		total, err = read(ctx, s.Reader.DB(), queries.SessionCount, db.SessionCountParams{
			Starter: f.Starter, Project: project, AgentName: agent, WorkflowName: workflow,
		})
	}
	if err != nil {
		return nil, 0, fmt.Errorf("list sessions: %w", err)
	}
	return all(rows, sessionOf), total, nil
}

func sessionOf(r db.SessionListRow) Session {
	return Session{
		Conversation: Conversation{
			ID: r.ConversationID, Starter: r.Starter, Project: r.Project, UserID: optional.Value(r.UserID),
			AgentName: optional.Value(r.AgentName), WorkflowName: optional.Value(r.WorkflowName),
			BaseID: optional.Value(r.BaseID),
		},
		Key: r.Key, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Messages: r.Messages,
	}
}

// DeleteSession deletes a session by its key, with those of its steps. The runs stay on record. The error wraps
// [record.ErrNotFound] if it was deleted meanwhile.
func (s *Store) DeleteSession(ctx context.Context, key string) error {
	n, err := queries.SessionDelete(ctx, s.DB(), key)
	if err == nil && n == 0 {
		err = record.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("delete session %s: %w", key, pg.Translate(err))
	}
	return nil
}

// CleanUpSessions deletes the sessions that were not used for so many days, and all but the most that were
// used last. Those of steps go with that of their workflow. It returns how many were deleted.
func (s *Store) CleanUpSessions(ctx context.Context, days, most int) (deleted int64, err error) {
	deleted, err = queries.SessionCleanup(ctx, s.DB(), db.SessionCleanupParams{Days: int32(days), Most: int32(most)})
	if err != nil {
		return 0, fmt.Errorf("clean up sessions: %w", pg.Translate(err))
	}
	return deleted, nil
}
