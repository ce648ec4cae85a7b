package chat_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/view/chat"
)

func keysOf(s string) []chat.Key {
	keys := []chat.Key{}
	for _, m := range chat.ParseMessages(s) {
		keys = append(keys, m.Key())
	}
	return keys
}

// someElements are elements of lists: messages in several forms, and what is none, or not JSON.
var someElements = []string{
	`{"role":"system","content":"You are brief, exact and polite; the time is 12:00:01 in the morning, and that is all there is to say of it, here or there."}`,
	`{"role":"system","content":"You are brief, exact and polite; the time is 12:00:02 in the morning, and that is all there is to say of it, here or there."}`,
	`{"role":"user","content":[{"type":"text","text":"How many pages are there, and which of them are older than a year?"}]}`,
	`{"role":"user","content":[{"type":"text","text":"How many pages are there, and which of them are older than a year?"}]} `,
	`{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"look","arguments":"{\"pages\":\"all\",\"older\":365}"}}]}`,
	`{"role":"tool","tool_call_id":"c1","content":"[{\"page\":1},{\"page\":2}], which is all that there is to be found here"}`,
	`{"role":"user","content":"x"}`, `{}`, `null`, `"text"`, `7`, `["user","hello"]`,
	`[{"role":"user","content":"in a list"}]`,
	`{"type":"text","text":"a part that belongs to whatever stands before it in a list of parts"}`,
	`{"type":"reasoning","text":"hm, that is a part that belongs to whatever stands before it"}`,
	`{"lc":1,"type":"constructor","id":["langchain","HumanMessage"],"kwargs":{"content":"written by LangChain, as a message of its own"}}`,
	`{"messages":[{"role":"user","content":"a message in an object in a list, which is long enough"}]}`,
	`{"role":"user","content":"not closed, but long enough to be known again if it were right`,
	`{"role":"user",,"content":"wrong, but long enough to be known again if it were right"}`,
}

// TestMemory: a memory reads in each text what Read does, whatever it has read before.
func TestMemory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var m chat.Memory
		for range rapid.IntRange(1, 6).Draw(rt, "texts") {
			list := strings.Join(rapid.SliceOfN(rapid.SampledFrom(someElements), 0, 6).Draw(rt, "elements"),
				rapid.SampledFrom([]string{",", ", ", ",\n\t"}).Draw(rt, "between"))
			form := rapid.SampledFrom([]string{
				"[%s]", " [ %s ]\n", "[%s", "[%s]]", "%s", `{"messages":[%s]}`,
				`{"model":"m","messages": [%s], "tools":[{"name":"t"}]}`,
				`{"contents":[%s],"messages":[{"role":"user","content":"more"}]}`,
				`{"kwargs":{"messages":[%s]}}`, `{"role":"user","content":[%s]}`, `{"messages":[%s],"messages":[]}`,
				`{"messages":[%s]`, `{"type":"human","data":{},"messages":[%[1]s]}`, "[[%s]]",
			}).Draw(rt, "form")

			s := fmt.Sprintf(form, list)
			if diff := cmp.Diff(keysOf(s), append([]chat.Key{}, m.Keys(s)...)); diff != "" {
				rt.Fatalf("%s: %s", s, diff)
			}
		}
	})
}

// TestMemoryParsesWhatIsNew: of a conversation, of one whose front changes, and of one that begins again with a
// summary.
func TestMemoryParsesWhatIsNew(t *testing.T) {
	t.Parallel()
	message := func(i int) string {
		return fmt.Sprintf(`{"role":"user","content":"%d %s"}`, i, strings.Repeat("word ", 1_000))
	}
	for name, prompt := range map[string]func(n int) []string{
		"growing":        func(n int) []string { return nil },
		"changing front": func(n int) []string { return []string{fmt.Sprintf(`{"role":"system","content":"It is %d."}`, n)} },
	} {
		for _, form := range []string{"[%s]", `{"model":"m","messages":[%s]}`} {
			var m chat.Memory
			size := 0
			for n := range 50 {
				all := prompt(n)
				for i := range n + 1 {
					if n < 25 || i > 20 { // a summary takes their place
						all = append(all, message(i))
					}
				}

				s := fmt.Sprintf(form, strings.Join(all, ", "))
				size += len(s)
				if got, want := m.Keys(s), keysOf(s); !cmp.Equal(got, want) {
					t.Fatalf("%s: text %d has other keys", name, n)
				}
			}

			if once := 50 * len(message(10)); m.Parsed > once*11/10 {
				t.Errorf("%s %s: %d bytes of %d were parsed, %d are new", name, form, m.Parsed, size, once)
			}
		}
	}

	var m chat.Memory // of more messages than are read, the rest is one
	many := "[" + strings.Repeat(`{"role":"user","content":"again"},`, 1_500) + message(1) + "]"
	for range 2 {
		if !cmp.Equal(m.Keys(many), keysOf(many)) {
			t.Error("many messages are read in another way")
		}
	}
}
