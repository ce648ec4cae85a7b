package runstore

// ConversationKey returns the key of the row of a conversation.
func ConversationKey(c Conversation) string { return c.key() }
