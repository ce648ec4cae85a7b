package record

import "time"

// SteeringMessage is what a person or a program said to a run at work, as the cycle has it that read it.
type SteeringMessage struct {
	MessageID string    `json:"messageId"`
	Text      string    `json:"text"`
	By        *string   `json:"by"` // nil: not known
	CreatedAt time.Time `json:"createdAt"`
}
