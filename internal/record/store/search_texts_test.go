package store_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// searchTexts searches texts, in pages, and returns all hits.
func searchTexts(t testing.TB, s *store.Store, search store.TextSearch) (all []store.TextHit, pages int) {
	t.Helper()
	if search.Most == 0 {
		search.Most = 100
	}
	if search.Time == 0 {
		search.Time = time.Minute
	}

	for {
		found, err := s.SearchTexts(t.Context(), search)
		if err != nil {
			t.Fatal(err)
		}
		if pages++; len(found.Hits) > search.Most || found.Incomplete && len(found.Hits) == search.Most || pages > 10_000 {
			t.Fatalf("page %d has %d hits, incomplete: %v", pages, len(found.Hits), found.Incomplete)
		}

		all = append(all, found.Hits...)
		if search.From = found.Next; found.Next == nil {
			return all, pages
		}
	}
}

// hitTexts says what was found: run, kind, key, field and the snippet.
func hitTexts(hits []store.TextHit) string {
	var b strings.Builder
	for _, h := range hits {
		key := strings.Trim(fmt.Sprintf("%s/%d/%s", h.Key.Parent, h.Key.Seq, h.Key.ID), "/")
		fmt.Fprintf(&b, "%s %s %s of %s %s: %s: %s[%s]%s\n", h.Run.RootPlanID, h.Key.Kind, key, h.PlanID, h.StepID, h.Field,
			h.Before, h.Match, h.After)
	}
	return strings.ReplaceAll(b.String(), "a\u0308", "ä")
}

// cutNothing keeps all texts whole in their rows.
func cutNothing(c *store.Config) { c.Contents = content.DefaultSizes; c.Contents.Cut = 1 << 30 }

// began is when runs of these tests began, some minutes after another.
func began(minutes int) *time.Time {
	return new(time.Date(2026, 3, 3, 12, minutes, 0, 0, time.UTC))
}

// TestSearchTexts: the texts of all kinds of all runs are searched, newest run first; and an answer goes on where the
// one before it ended.
func TestSearchTexts(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*store.Config){"cut": func(*store.Config) {}, "whole": cutNothing} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.Open(t, cut)
			const long = "This is what the user and the agent have said so far, and it is repeated in each prompt of the " +
				"conversation. "
			prompt := func(said string) *string { return new(`[{"role":"user","content":"` + long + said + `"}]`) }

			storetest.Write(t, s, []record.Change{
				&record.Plan{RootPlanID: "old", CurrentPlanID: "old", StartTime: began(0), Title: new("Find NÄDEL")},
				&record.Plan{
					RootPlanID: "new", CurrentPlanID: "new", StartTime: began(9), UserRequest: new("a na\u0308del 2"),
					Project: new("p2"),
				},
				&record.Plan{
					RootPlanID: "mid", CurrentPlanID: "mid", StartTime: began(5), Title: new("Find nädel 1"),
					Metadata: []byte(`{"a":"n\u00e4del 3"}`), Tags: []string{"t"}, State: new(record.Failed),
				},
				&record.AgentExecution{
					RootPlanID: "mid", PlanID: "mid", StepID: "s", AgentName: new("nädel-agent"), Result: new("none"),
				},
				&record.ThinkAct{
					RootPlanID: "mid", StepID: "s", Seq: 0, ThinkInput: prompt("x"), ThinkOutput: new("I look for a nädel."),
					State: new(record.Failed), ErrorMessage: new("nädel: timeout"), Attempt: new(int64(1)),
				},
				&record.ThinkAct{
					RootPlanID: "mid", StepID: "s", Seq: 1, ThinkInput: prompt(`x I look for a n\u00e4del.`), ThinkOutput: new("none"),
				},
				&record.ThinkAct{
					RootPlanID: "mid", StepID: "s", Seq: 2, ThinkInput: prompt(`x I look for a n\u00e4del. It is here.`),
					ThinkOutput: new("none"),
				},
				&record.ActTool{
					RootPlanID: "mid", StepID: "s", Seq: 0, ToolCallID: "c", Name: new("look"), Parameters: new(`{"what":"nädel"}`),
					Result: new("nothing\nnädel\there"),
				},
				&record.Plan{
					RootPlanID: "mid", CurrentPlanID: "sub", ParentPlanID: new("mid"), ToolCallID: new("c"), Summary: new("sub nädel"),
				},
				&record.Wait{RootPlanID: "mid", PlanID: "mid", WaitID: "w", Title: new("Is it a Nädel?")},
				&record.Thought{
					RootPlanID: "mid", PlanID: "mid", ThoughtID: "t1", StepID: new("s"), Content: new("the nädel is near"),
				},
				&record.Thought{RootPlanID: "mid", PlanID: "mid", ThoughtID: "t2", Content: new("no needle")},
				&record.Artifact{RootPlanID: "mid", PlanID: "mid", Name: "a", Value: []byte(`["Nädel"]`)},
				&record.Source{RootPlanID: "mid", PlanID: "mid", SourceID: "src", Snippet: new("1 nädel")},
			}...)
			storetest.Write(t, s, &record.ThinkAct{
				RootPlanID: "mid", StepID: "s", Seq: 0, Attempt: new(int64(2)), State: new(record.Completed),
			})

			const want = `new plan 0/new of new : userRequest: a [nädel] 2
mid plan 0/mid of mid : title: Find [nädel] 1
mid plan 0/mid of mid : metadata: {"a":"[nädel] 3"}
mid plan 0/sub of sub : summary: sub [nädel]
mid agentExecution 0/s of mid s: agentName: [nädel]-agent
mid thinkAct s/0 of mid s: thinkOutput: I look for a [nädel].
mid thinkAct s/0 of mid s: attempts: [nädel]: timeout
mid thinkAct s/1 of mid s: thinkInput: …d so far, and it is repeated in each prompt of the conversation. x I look for a [nädel]."}]
mid actTool s/0/c of mid s: parameters: {"what":"[nädel]"}
mid actTool s/0/c of mid s: result: nothing [nädel] here
mid thought mid/0/t1 of mid s: content: the [nädel] is near
mid artifact mid/0/a of mid : value: ["[Nädel]"]
mid source mid/0/src of mid : snippet: 1 [nädel]
mid wait mid/0/w of mid : title: Is it a [Nädel]?
old plan 0/old of old : title: Find [NÄDEL]
`

			if hits, _ := searchTexts(t, s, store.TextSearch{Text: "nädel"}); hitTexts(hits) != want {
				t.Errorf("found\n%s, want\n%s", hitTexts(hits), want)
			}

			// However small the pages, and however little time there is, they have the same hits.
			for _, search := range []store.TextSearch{{Most: 1}, {Most: 2}, {Most: 2, Time: -1}, {Most: 100, Time: -1}} {
				search.Text = "nädel"
				if hits, pages := searchTexts(t, s, search); hitTexts(hits) != want || pages < 2 {
					t.Errorf("in %d pages of %d, in %v: found\n%s", pages, search.Most, search.Time, hitTexts(hits))
				}
			}

			for _, row := range []struct {
				search store.TextSearch
				want   string
			}{
				{store.TextSearch{Text: "absent"}, ""},
				{store.TextSearch{Text: "nädel", Filter: store.PlanFilter{Project: "p2"}}, "new"},
				{
					store.TextSearch{Text: "nädel", Filter: store.PlanFilter{Tag: "t"}, Kinds: []record.Kind{record.KindSource}},
					"mid",
				},
				{
					store.TextSearch{
						Text: "nädel", Filter: store.PlanFilter{State: record.Failed, Agent: "nädel-agent"},
						Kinds: []record.Kind{record.KindWait},
					}, "mid",
				},
				{store.TextSearch{Text: "nädel", Filter: store.PlanFilter{Since: began(6)}}, "new"},
				{store.TextSearch{Text: "nädel", Filter: store.PlanFilter{Until: began(5)}}, "old"},
				{store.TextSearch{Text: "nädel", Environment: "other"}, ""},
			} {
				hits, _ := searchTexts(t, s, row.search)
				var runs []string
				for _, h := range hits {
					runs = append(runs, h.Run.RootPlanID)
				}
				if got := strings.Join(runs, " "); got != row.want {
					t.Errorf("%+v: %s, want %s", row.search, got, row.want)
				}
			}

			var invalid *record.InvalidError
			if _, err := s.SearchTexts(t.Context(), store.TextSearch{Text: " "}); !errors.As(err, &invalid) ||
				invalid.Field != "q" {
				t.Errorf("nothing to look for: %v", err)
			}
			full := errors.New("full")
			if _, err := s.Within(func(int64) error {
				return full
			}).SearchTexts(t.Context(), store.TextSearch{Text: "del", Most: 1, Time: time.Minute}); !errors.Is(err, full) {
				t.Errorf("without room: %v", err)
			}
		})
	}
}

// TestSearchTextsRare: a text is found in whatever says it, also if most runs do not, and are ruled out.
func TestSearchTextsRare(t *testing.T) {
	t.Parallel()
	const says = "Where is pick-4711?"
	filler := strings.Repeat("This is what was said so far, and it is repeated. ", 200)
	said := map[string]func(root string) record.Change{
		"plan": func(root string) record.Change {
			return &record.Plan{RootPlanID: root, CurrentPlanID: root, Summary: new(says)}
		},
		"step": func(root string) record.Change {
			return &record.AgentExecution{RootPlanID: root, PlanID: root, StepID: "s", Result: new(says)}
		},
		"cycle": func(root string) record.Change {
			return &record.ThinkAct{RootPlanID: root, StepID: "s", Seq: 3, ThinkOutput: new(says)}
		},
		"prompt": func(root string) record.Change {
			return &record.ThinkAct{RootPlanID: root, StepID: "s", ThinkInput: new(filler + says)}
		},
		"call": func(root string) record.Change {
			return &record.ActTool{RootPlanID: root, StepID: "s", ToolCallID: "c", Result: new(says)}
		},
		"attempt": func(root string) record.Change {
			return &record.ActTool{
				RootPlanID: root, StepID: "s", ToolCallID: "c", ErrorMessage: new(says), Attempt: new(int64(1)),
				State: new(record.Failed),
			}
		},
		"escaped": func(root string) record.Change {
			return &record.ActTool{RootPlanID: root, StepID: "s", ToolCallID: "c", Result: new(`"pick\u002d4711"`)}
		},
		"thought": func(root string) record.Change {
			return &record.Thought{RootPlanID: root, PlanID: root, ThoughtID: "t", Content: new("Where is Pic\u212a-4711?")}
		},
		"artifact": func(root string) record.Change {
			return &record.Artifact{RootPlanID: root, PlanID: root, Name: "a", Value: []byte(`["pİck-4711"]`)}
		},
		"source": func(root string) record.Change {
			return &record.Source{RootPlanID: root, PlanID: root, SourceID: "s", Snippet: new(says)}
		},
		"wait": func(root string) record.Change {
			return &record.Wait{RootPlanID: root, PlanID: root, WaitID: "w", Title: new(says)}
		},
	}
	names := slices.Sorted(maps.Keys(said))

	for name, cut := range map[string]func(*store.Config){"cut": func(*store.Config) {}, "whole": cutNothing} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.Open(t, cut)
			minute := 0

			miss := func(n int) {
				for range n {
					minute++
					root := fmt.Sprint("miss-", minute)
					storetest.Write(t, s,
						&record.Plan{RootPlanID: root, CurrentPlanID: root, StartTime: began(minute)},
						&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: "s", Result: new("pick-4712")},
						&record.ThinkAct{RootPlanID: root, StepID: "s", ThinkInput: new(filler), ThinkOutput: new("pick 4711")})
				}
			}

			for _, name := range names {
				miss(6)
				minute++
				storetest.Write(t, s, &record.Plan{RootPlanID: name, CurrentPlanID: name, StartTime: began(minute)})
				storetest.Write(t, s, said[name](name))
			}

			storetest.Write(t, s, &record.ActTool{
				RootPlanID: "attempt", StepID: "s", ToolCallID: "c", Attempt: new(int64(2)), State: new(record.Completed),
			})
			miss(6)

			want := slices.Clone(names)
			slices.Reverse(want) // newest run first
			for _, search := range []store.TextSearch{
				{}, {Most: 1}, {Most: 3, PerRun: 1}, {Time: -1}, {Time: time.Millisecond},
			} {
				search.Text = "pick-4711"
				hits, _ := searchTexts(t, s, search)
				var got []string
				for _, h := range hits {
					got = append(got, h.Run.RootPlanID)
				}
				if !slices.Equal(got, want) {
					t.Errorf("pages of %d, in %v: found in %v, want %v", search.Most, search.Time, got, want)
				}
			}
		})
	}
}

// TestSearchTextsWhileRunsCome: a search goes on where it ended, whatever runs come and change meanwhile. Each text
// comes once.
func TestSearchTextsWhileRunsCome(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	write := func(root string, minutes int) {
		storetest.Write(t, s, &record.Plan{
			RootPlanID: root, CurrentPlanID: root, StartTime: began(minutes), Title: new("needle of " + root),
		},
			&record.ThinkAct{RootPlanID: root, StepID: "s", Seq: 0, ThinkOutput: new("needle 0")},
			&record.ThinkAct{RootPlanID: root, StepID: "s", Seq: 1, ThinkOutput: new("needle 1")})
	}

	var want []string
	for i := range 6 {
		root := fmt.Sprint("run", 9-i)
		write(root, 9-i)
		want = append(want, root+" title", root+" thinkOutput", root+" thinkOutput")
	}

	var got []string
	for search, n := (store.TextSearch{Text: "needle", Most: 2, Time: time.Minute}), 0; ; n++ {
		found, err := s.SearchTexts(t.Context(), search)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range found.Hits {
			got = append(got, h.Run.RootPlanID+" "+h.Field)
		}
		if search.From = found.Next; found.Next == nil {
			break
		}

		write(fmt.Sprint("newer", n), 20+n)
		if last := found.Hits[len(found.Hits)-1]; last.Key.Kind == record.KindThinkAct { // before the place
			storetest.Write(t, s, &record.ThinkAct{
				RootPlanID: last.Run.RootPlanID, StepID: "a", Seq: 0, ThinkOutput: new("needle"),
			})
		}
		if n == 1 {
			if err := s.DeletePlan(t.Context(), "run6"); err != nil {
				t.Fatal(err)
			}
			want = slices.DeleteFunc(want, func(hit string) bool { return strings.HasPrefix(hit, "run6") })
		}
	}

	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// TestSearchTextsForms: whatever Postgres rules out, it rules out nothing that has the text.
func TestSearchTextsForms(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what a search finds")
	t.Parallel()
	s := storetest.Open(t)
	texts := []string{
		"The Kelvin sign: \u212aelvin", "the İstanbul of I\u0307stanbul", `a \u0041pple, \\u0042anana`, `a \u005cu0043herry`,
		`{"said":"he said \"come here\" twice"}`,
		`{"x":"{\"y\":\"deep \\\"quote\\\" here\"}"}`, `gr\u00fc\u00dfe`, "grüße", "na\u0308gel", "CAF\u00c9",
		"tab\tand\n\nline", `a lone \`, `\ud83d\ude00 smile`, `half \ud83d pair`, `nul \u0000 char`,
		"数据库 error", `\u6570\u636e\u5e93`, strings.Repeat("deadbeef0123456789", 40),
		strings.Repeat("x", 300) + "needle-in-a-word" + strings.Repeat("y", 300),
		strings.Repeat("ab", 100) + `\u0041pricot` + strings.Repeat("zz", 100), `path\to\nowhere`, `\\n newline`,
		"100% of n_del",
		`order-\u003471\u0031`, "the ORDER-4711 of", strings.Repeat(`\u003c\u0061\u002d12`, 40),
		strings.Repeat(`\n`, 60) + "line-5001" + strings.Repeat(`\\`, 60), "\u212aey_77-\u212a",
	}

	var changes []record.Change
	for i, text := range texts {
		changes = append(changes, &record.ThinkAct{
			RootPlanID: fmt.Sprintf("r%02d", i), StepID: "s", Seq: 0,
			ThinkInput: new("a prompt with some words before it: " + text + " and some after it"),
		},
			&record.ActTool{RootPlanID: fmt.Sprintf("r%02d", i), StepID: "s", Seq: 0, ToolCallID: "c", Result: &text})
	}
	storetest.Write(t, s, changes...)

	check := func(needle string) {
		t.Helper()
		hits, _ := searchTexts(t, s, store.TextSearch{Text: needle})
		var got, want []string
		for _, h := range hits {
			got = append(got, h.Run.RootPlanID+h.Field)
		}

		for _, c := range changes { // as the search in one run, which reads everything
			found, _, err := s.SearchTree(t.Context(), store.TreeSearch{
				RootPlanID: c.Key().Root, Keys: []record.Key{c.Key()}, Text: needle, Most: 10, Time: time.Minute,
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range found {
				want = append(want, c.Key().Root+h.Field)
			}
		}

		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q is found in %v, want %v", needle, got, want)
		}
	}

	for _, text := range texts {
		runes := []rune(text)
		for _, n := range []int{3, 20} {
			for at := 0; at+n <= len(runes) && at < 40; at += 1 + n/2 {
				if needle := string(runes[at : at+n]); strings.TrimSpace(needle) != "" {
					check(needle)
				}
			}
		}
	}

	for _, needle := range []string{"kelvin", "istanbul", "apple", "banana", "cherry", `said "come here"`,
		`deep "quote" here`, "grüße", "nägel", "café", "and line", "smile", "数据", "d0123", "in-a-word", "apricot",
		"word" + strings.Repeat("y", 20), "before it: the",
		"order-4711", "-471", "<a-12<a-12", "a-12", "12<a", "line-5001", "key_77-k"} {
		check(needle)
	}
}

// TestSearchedFields: the index of a kind has all its words.
func TestSearchedFields(t *testing.T) {
	t.Parallel()
	for _, kind := range []record.Kind{record.KindThinkAct, record.KindActTool} {
		for _, f := range field.Worded(kind) {
			table := map[record.Kind]string{record.KindThinkAct: "think_act_record", record.KindActTool: "act_tool_info"}[kind]
			if !strings.Contains(store.SearchedTables[table], f.Column) {
				t.Errorf("%s is not indexed", f.Name)
			}
		}
	}
}
