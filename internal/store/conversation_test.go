package store_test

import (
	"slices"
	"testing"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/storetest"
)

// S4: conversations are told apart by all of project, starter and id, whatever is in these, and nobody's id is the key of another.
func TestKeysOfConversations(t *testing.T) {
	t.Parallel()
	apart := []store.Conversation{
		{ID: "c"}, {ID: "c", Starter: "alice"}, {ID: "c", Starter: "bob"}, {ID: "c", Project: "web"}, {ID: "c", Starter: "alice", Project: "web"},
		{ID: "ec", Starter: "alic"}, {ID: "", Starter: "alicec"}, {ID: "c", Starter: "eweb", Project: "alic"}, {ID: "1:c", Starter: "alice"},
	}
	for _, c := range slices.Clone(apart) {
		apart = append(apart, store.Conversation{ID: store.ConversationKey(c)}) // in other words: somebody names the key
	}
	seen := map[string]store.Conversation{}
	for _, c := range apart {
		key := store.ConversationKey(c)
		if other, twice := seen[key]; twice && other != c {
			t.Errorf("%+v and %+v are both %s", c, other, key)
		}
		seen[key] = c
	}
	same := []store.Conversation{{ID: "c", Starter: "alice"}, {ID: "c", Starter: "alice", Project: "default", UserID: "u", AgentName: "a"}}
	if store.ConversationKey(same[0]) != store.ConversationKey(same[1]) {
		t.Error("the default project is another one")
	}
	if key := store.ConversationKey(store.Conversation{ID: "c"}); key != "c" {
		t.Errorf("servers of the previous release look for c, not for %s", key)
	}
}

// TestServersOfThePreviousReleaseWrite checks that its statements work on this schema, and what comes of them.
func TestServersOfThePreviousReleaseWrite(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for range 2 {
		storetest.Exec(t, s, `INSERT INTO actlog.conversation AS c (conversation_id, user_id, agent_name, workflow_name, base_id) VALUES ('c', 'u', 'a', NULL, NULL)
			ON CONFLICT (conversation_id) DO UPDATE SET updated_at = now(), agent_name = COALESCE(c.agent_name, excluded.agent_name)`)
	}
	storetest.Exec(t, s, `INSERT INTO actlog.conversation_message (conversation_id, plan_id, position, role, content) VALUES ('c', 'p', 0, 'user', 'Hello.')`)
	found, err := s.Session(t.Context(), "c", store.SessionFilter{}, "")
	if err != nil || found.Key != "c" || found.Starter != "" || found.Project != "default" || found.Messages != 1 {
		t.Errorf("%+v %v", found, err)
	}
	if _, err := s.Session(t.Context(), "c", store.SessionFilter{Starter: new("alice")}, "alice"); err == nil {
		t.Error("alice finds what is nobody's")
	}
}
