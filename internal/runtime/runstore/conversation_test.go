package runstore_test

import (
	"slices"
	"testing"

	"github.com/actlog/actlog/internal/runtime/runstore"
)

// S4: conversations are told apart by all of project, starter and id, whatever is in these, and nobody's id is the key
// of another.
func TestKeysOfConversations(t *testing.T) {
	t.Parallel()
	apart := []runstore.Conversation{
		{ID: "c"}, {ID: "c", Starter: "alice"}, {ID: "c", Starter: "bob"}, {ID: "c", Project: "web"},
		{ID: "c", Starter: "alice", Project: "web"},
		{ID: "ec", Starter: "alic"}, {ID: "", Starter: "alicec"}, {ID: "c", Starter: "eweb", Project: "alic"},
		{ID: "1:c", Starter: "alice"},
	}
	for _, c := range slices.Clone(apart) {
		// in other words: somebody names the key
		apart = append(apart, runstore.Conversation{ID: runstore.ConversationKey(c)})
	}

	seen := map[string]runstore.Conversation{}
	for _, c := range apart {
		key := runstore.ConversationKey(c)
		if other, twice := seen[key]; twice && other != c {
			t.Errorf("%+v and %+v are both %s", c, other, key)
		}
		seen[key] = c
	}

	same := []runstore.Conversation{
		{ID: "c", Starter: "alice"}, {ID: "c", Starter: "alice", Project: "default", UserID: "u", AgentName: "a"},
	}
	if runstore.ConversationKey(same[0]) != runstore.ConversationKey(same[1]) {
		t.Error("the default project is another one")
	}
	if key := runstore.ConversationKey(runstore.Conversation{ID: "c"}); key != "c" {
		t.Errorf("the key of nobody's conversation is %s, want c", key)
	}
}
