package engine

import (
	"encoding/json"

	"github.com/actlog/actlog/internal/record/optional"
)

// asked is what is kept of a request that is not on record otherwise.
type asked struct {
	Name           string `json:"name,omitzero"`
	ConversationID string `json:"conversationId,omitzero"`
	Limits         Limits `json:"limits,omitzero"`
}

// askedOf returns that as JSON; nil: there is nothing.
func askedOf(r Request) json.RawMessage {
	a := asked{r.Name, r.ConversationID, optional.Value(r.Limits)}
	if a == (asked{}) {
		return nil
	}
	b, _ := json.Marshal(a) // texts and numbers
	return b
}
