package otlp

import (
	"cmp"
	"strings"
)

// The names by which programs tell frameworks what conversation a run belongs to, and for which user it is, as
// nameKey writes them, and their order. Any spelling counts: thread_id, threadId.
var (
	conversationNames = ordered("session_id", "conversation_id", "thread_id", "chat_id", "group_id")
	userNames         = ordered("user_id", "end_user_id", "trace_user_id")
)

// metadataPrefixes begin the attributes in which conventions pass on what the program said about a run. Some write it
// into one attribute instead, as JSON: its name is the prefix without its last dot.
var metadataPrefixes = []string{
	"metadata.", "langsmith.metadata.", "traceloop.association.properties.", "ai.telemetry.metadata.",
	"langfuse.trace.metadata.", "langfuse.observation.metadata.", "lmnr.association.properties.",
}

// readParties finds the conversation and the user, if no convention has said them: in what the program said about the
// run, in attributes that it may set itself, and in log records.
func (f *Facts) readParties(s *Span) {
	if f.Conversation != "" && f.User != "" {
		return
	}

	conversation := party{to: &f.Conversation, names: conversationNames, best: len(conversationNames)}
	user := party{to: &f.User, names: userNames, best: len(userNames)}
	for _, prefix := range metadataPrefixes {
		for _, a := range s.Attributes.WithPrefix(prefix) {
			conversation.read(a.Key[len(prefix):], a.Value)
			user.read(a.Key[len(prefix):], a.Value)
		}
		for name, value := range members(s.Attributes.Get(strings.TrimSuffix(prefix, "."))) {
			v := memberValue(value)
			conversation.read(name, v)
			user.read(name, v)
		}
	}
	conversation.set()
	user.set()

	f.readOwnParties(s.Attributes, f.Class != Unclassified)
	for i := range s.Events {
		f.readOwnParties(s.Events[i].Attributes, true)
	}
}

// readOwnParties reads the attributes of a span or a log record by which the program itself says for whom it is.
func (f *Facts) readOwnParties(a Attributes, ofAgents bool) {
	fill(&f.Conversation, a, "gen_ai.conversation.id", "session.id", "conversation.id", "session_id", "sessionId",
		"conversation_id", "conversationId")
	for _, key := range []string{"thread.id", "thread_id", "threadId"} {
		f.Conversation = cmp.Or(f.Conversation, a.Text(key)) // those of an operating system are numbers
	}
	if ofAgents {
		fill(&f.Conversation, a, "chat_id", "group_id")
	}
	fill(&f.User, a, "user.id", "enduser.id", "user_id", "userId", "enduser_id")
}

// party is a conversation or a user that is looked for: the best of its names wins, then the first.
type party struct {
	to    *string
	names map[string]int
	best  int
	text  string
}

func (p *party) read(name string, v Value) {
	if i, ok := p.names[nameKey(name)]; ok && i < p.best && v.Text != "" && (v.Type == String || v.Type == Number) {
		p.best, p.text = i, v.Text
	}
}

func (p *party) set() {
	if *p.to == "" {
		*p.to = p.text
	}
}

// memberValue returns a member of a JSON object as the value of an attribute.
func memberValue(raw string) Value {
	switch c := raw[0]; {
	case c == '"':
		return Value{Type: String, Text: text(raw)}
	case c == '-' || c >= '0' && c <= '9':
		return Value{Type: Number, Text: raw}
	}
	return Value{Type: JSON, Text: raw}
}
