package store

import (
	"context"
	"fmt"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/pg"
)

// Said is what was said in a conversation.
type Said struct {
	ByUser bool // else by the assistant
	Text   string
}

// History returns the last messages of a conversation from before a run, oldest first.
func (s *Store) History(ctx context.Context, conversationID, rootPlanID, planID string, messages int) ([]Said, error) {
	rows, err := pg.Read(ctx, s.Reader.db, func() ([]db.ConversationHistoryRow, error) {
		return s.queries.ConversationHistory(ctx, s.Reader.db, db.ConversationHistoryParams{
			ConversationID: conversationID, RootPlanID: rootPlanID, PlanID: planID, Messages: int32(messages),
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read conversation %s: %w", conversationID, err)
	}
	said := make([]Said, len(rows))
	for i, r := range rows {
		said[len(rows)-1-i] = Said{ByUser: r.Role == "user", Text: r.Content}
	}
	return said, nil
}
