package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// prompts returns the prompts of a step by the number of their cycle.
func prompts(cycles []*tree.Cycle) map[int64]string {
	all := map[int64]string{}
	for _, c := range cycles {
		if c.Record.ThinkInput != nil {
			all[c.Record.Seq] = *c.Record.ThinkInput
		}
	}
	return all
}

// wanted is prompts of changes.
func wanted(changes []record.Change) map[int64]string {
	all := map[int64]string{}
	for _, c := range changes {
		if c, ok := c.(*record.ThinkAct); ok && c.ThinkInput != nil {
			all[c.Seq] = *c.ThinkInput
		}
	}
	return all
}

// checkPrompts compares all prompts of a step byte for byte.
func checkPrompts(t testing.TB, s *store.Store, step string, want []record.Change) {
	t.Helper()
	if diff := cmp.Diff(wanted(want), prompts(storetest.StepDetail(t, s, step).Cycles)); diff != "" {
		t.Errorf("prompts of %s (-written +read):\n%s", step, diff)
	}
}

// checkNothingDamaged checks that every text can be put together.
func checkNothingDamaged(t testing.TB, s *store.Store) {
	t.Helper()
	if err := upkeep.Verify(t.Context(), s, func(d upkeep.Damage) error {
		t.Errorf("damaged: %+v", d)
		return nil
	}, func(int) {}); err != nil {
		t.Error(err)
	}
}

// taker keeps the cycles of a step.
type taker struct{ cycles []*tree.Cycle }

func (*taker) TakeStep(*tree.Step) error         { return nil }
func (k *taker) TakeCycle(c *tree.Cycle) error   { k.cycles = append(k.cycles, c); return nil }
func (*taker) TakeToolCall(*tree.ToolCall) error { return nil }

// TestTextsAreKeptOnce checks that a conversation takes the room of what is new in it, that every read returns
// its texts whole, and that they are gone with their tree.
func TestTextsAreKeptOnce(t *testing.T) {
	t.Parallel()
	for name, sizes := range map[string]content.Sizes{"default": content.DefaultSizes, "everything": storetest.CutAll} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.Open(t, func(c *store.Config) { c.Contents = sizes })
			changes := turns("r", "s", 20, 5_000)
			for _, c := range changes {
				storetest.Write(t, s, c)
			}
			if kept := storetest.Query[int](t, s, "SELECT sum(octet_length(body)) FROM actlog.content"); kept > 20*5_000*3/2 {
				t.Errorf("%d bytes are kept of 20 turns of 5,000", kept)
			}
			checkPrompts(t, s, "s", changes)

			var streamed taker
			if err := s.StepRows(t.Context(), "", "s", &streamed); err != nil {
				t.Fatal(err)
			}

			last := changes[19].(*record.ThinkAct)
			whole := *last.ThinkInput
			one, err := s.Row(t.Context(), last.Key())
			if err != nil {
				t.Fatal(err)
			}
			detail, err := s.Detail(t.Context(), last.Key())
			if err != nil {
				t.Fatal(err)
			}

			filter := store.RowFilter{Kinds: []record.Kind{record.KindThinkAct}}
			var rows []store.Row
			for len(filter.Kinds) > 0 {
				page, err := s.Rows(t.Context(), "r", &filter)
				if err != nil {
					t.Fatal(err)
				}
				rows = append(rows, page...)
			}

			for name, got := range map[string]string{
				"StepRows": *streamed.cycles[19].Record.ThinkInput,
				"Row":      *one.(*record.ThinkAct).ThinkInput,
				"Detail":   *detail.Record.(*record.ThinkAct).ThinkInput,
				"Rows":     *rows[19].Record.(*record.ThinkAct).ThinkInput,
				"export":   wanted(exported(t, s, "r"))[19],
				"view":     storetest.Query[string](t, s, "SELECT think_input FROM actlog.think_act_text WHERE seq = 19"),
				"before":   *detail.Before.ThinkInput + whole[len(*changes[18].(*record.ThinkAct).ThinkInput):],
			} {
				if got != whole {
					t.Errorf("%s returns %d bytes, want %d", name, len(got), len(whole))
				}
			}

			checkNothingDamaged(t, s)
			if err := s.DeletePlan(t.Context(), "r"); err != nil {
				t.Fatal(err)
			}
			if left := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.content"); left > 0 {
				t.Errorf("%d contents are left of a deleted tree", left)
			}
		})
	}
}

// TestManyContents streams a step of more contents than may be held.
func TestManyContents(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, defaultSizes)
	var changes []record.Change
	for seq := range int64(4) {
		changes = append(changes, &record.ThinkAct{
			RootPlanID: "r", StepID: "s", Seq: seq, ThinkInput: new(unlike(int(seq), 3<<20)),
		})
	}
	storetest.Write(t, s, changes...)

	var streamed taker
	if err := s.StepRows(t.Context(), "", "s", &streamed); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted(changes), prompts(streamed.cycles)); diff != "" {
		t.Errorf("(-written +streamed): %.1000s", diff)
	}
}

// unlike returns a text of so many bytes that has nothing in common with others.
func unlike(seed, bytes int) string {
	var b strings.Builder
	for x := uint64(seed)*0x9e3779b97f4a7c15 + 1; b.Len() < bytes; x = x*6364136223846793005 + 1442695040888963407 {
		fmt.Fprintf(&b, "%x ", x)
	}
	return b.String()[:bytes]
}

// TestTextThatLooksLikeAMark checks that a text which looks like the mark of another one stays what it is.
func TestTextThatLooksLikeAMark(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, defaultSizes)
	long := unlike(1, 20_000)
	fake := content.Mark(long)
	changes := []record.Change{
		&record.ThinkAct{RootPlanID: "r", StepID: "s", Seq: 0, ThinkInput: &long},
		&record.ThinkAct{RootPlanID: "r", StepID: "s", Seq: 1, ThinkInput: &fake},
	}

	storetest.Write(t, s, changes...)
	checkPrompts(t, s, "s", changes)

	changes[0].(*record.ThinkAct).ThinkInput = &fake // in place of the long one
	storetest.Write(t, s, changes...)
	checkPrompts(t, s, "s", changes)
}

// TestServerOfTheReleaseBefore checks the text of a server that does not know of parts: it stands beside those
// of the text before.
func TestServerOfTheReleaseBefore(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	c := &record.ThinkAct{RootPlanID: "r", StepID: "s", Seq: 0, ThinkInput: new("the text of the new server")}
	storetest.Write(t, s, c)

	storetest.Exec(t, s, "UPDATE actlog.think_act_record SET think_input = 'of the old one'")
	c.ThinkInput = new("of the old one")
	checkPrompts(t, s, "s", []record.Change{c})
	if got := wanted(exported(t, s, "r"))[0]; got != "of the old one" {
		t.Errorf("exported: %q", got)
	}
	if got := storetest.Query[string](t, s, "SELECT think_input FROM actlog.think_act_text"); got != "of the old one" {
		t.Errorf("the view has %q", got)
	}

	storetest.Write(t, s, &record.ThinkAct{RootPlanID: "r", StepID: "s", Seq: 0, ThinkInput: new("again of the new one")})
	c.ThinkInput = new("again of the new one")
	checkPrompts(t, s, "s", []record.Change{c})
}

// TestMissingContent checks that a text says what is missing of it, that the rest is there, and that the
// damage is found.
func TestMissingContent(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	changes := turns("r", "s", 3, 2_000)
	storetest.Write(t, s, changes...)
	check := func(want []upkeep.Damage) {
		t.Helper()
		var damaged []upkeep.Damage
		if err := upkeep.Verify(t.Context(), s, func(d upkeep.Damage) error {
			damaged = append(damaged, d)
			return nil
		}, func(int) {}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, damaged); diff != "" {
			t.Errorf("damage (-want +found):\n%s", diff)
		}
	}

	check(nil)

	// A piece of the last turn, which only a page names.
	hash := storetest.Query[string](t, s, `DELETE FROM actlog.content WHERE hash = (
		SELECT p.hash FROM actlog.think_act_record AS c, unnest(c.think_input_parts) AS u (hash), actlog.content AS page, unnest(page.parts) AS p (hash)
		WHERE c.seq = 2 AND page.hash = u.hash
			AND NOT EXISTS (SELECT FROM actlog.content AS o WHERE o.parts @> ARRAY[p.hash] AND o.hash <> page.hash)
			AND NOT EXISTS (SELECT FROM actlog.think_act_record AS o WHERE o.seq < 2 AND o.think_input_parts @> ARRAY[u.hash])
			AND NOT EXISTS (SELECT FROM actlog.think_act_record AS o WHERE o.think_input_parts @> ARRAY[p.hash])
		ORDER BY p.hash LIMIT 1) RETURNING encode(hash, 'hex')`)
	check([]upkeep.Damage{{RootPlanID: "r", StepID: "s", Seq: 2, Content: hash, Missing: true}})

	note := "[a part of this text is missing: " + hash + "]"
	read := prompts(storetest.StepDetail(t, s, "s").Cycles)[2]
	view := storetest.Query[string](t, s, "SELECT think_input FROM actlog.think_act_text WHERE seq = 2")
	before, after, found := strings.Cut(read, note)
	if whole := wanted(changes)[2]; !found || read != view || !strings.HasPrefix(whole, before) ||
		!strings.HasSuffix(whole, after) {
		t.Errorf("read %d bytes, with the note: %t; the view has %d", len(read), found, len(view))
	}
	checkPrompts(t, s, "s", []record.Change{changes[0], changes[1], &record.ThinkAct{Seq: 2, ThinkInput: &read}})

	// If the text is written again, it is whole again.
	storetest.Write(t, storetest.OpenURL(t, s.DB().Config().ConnString()), changes[2])
	check(nil)
	storetest.Exec(t, s, "UPDATE actlog.content SET body = body || '!' WHERE encode(hash, 'hex') = '"+hash+"'")
	check([]upkeep.Damage{{RootPlanID: "r", StepID: "s", Seq: 2, Content: hash}})
}

// TestContentsBehindTheBack takes contents away while a server remembers them, in every way there is. What is
// written afterwards has to be whole.
func TestContentsBehindTheBack(t *testing.T) {
	t.Parallel()
	again := &record.Plan{RootPlanID: "r", CurrentPlanID: "r", State: new(record.Completed)}
	deleted := func(sql string) func(s, other *store.Store) error {
		return func(s, _ *store.Store) error {
			_, err := s.DB().Exec(t.Context(), sql)
			return err
		}
	}

	for name, takeAway := range map[string]func(s, other *store.Store) error{
		"the tree is deleted":             func(s, _ *store.Store) error { return s.DeletePlan(t.Context(), "r") },
		"another server deletes the tree": func(_, other *store.Store) error { return other.DeletePlan(t.Context(), "r") },
		"another server deletes the tree and begins it again": func(_, other *store.Store) error {
			if err := other.DeletePlan(t.Context(), "r"); err != nil {
				return err
			}
			_, err := other.Write(t.Context(), []record.Change{again})
			return err
		},
		"the contents are deleted": deleted("DELETE FROM actlog.content"),
		"the pages are deleted":    deleted("DELETE FROM actlog.content WHERE parts IS NOT NULL"),
		"the period is dropped": func(s, other *store.Store) error {
			if _, err := other.Write(t.Context(), []record.Change{again}); err != nil {
				return err
			}

			storetest.Age(t, s, storetest.OldMonday, "r")
			u := storetest.Upkeep(t, other, upkeep.Config{DetailDays: 30})
			storetest.Until(t, "the period is dropped", func() bool {
				return u.Run(t.Context()) == nil &&
					storetest.Query[bool](t, s, "SELECT to_regclass('actlog.content_p20260105') IS NULL")
			})
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, write := range map[string]func(s *store.Store, c record.Change) error{
				"written": func(s *store.Store, c record.Change) error {
					_, err := s.Write(t.Context(), []record.Change{c})
					return err
				},
				"copied": func(s *store.Store, c record.Change) error {
					_, err := store.CopyNew(s).Write(t.Context(), []record.Change{c})
					return err
				},
				"in a transaction": func(s *store.Store, c record.Change) error {
					return s.InTx(t.Context(), func(ctx context.Context, tx *store.Tx) error {
						_, err := tx.Write(ctx, []record.Change{c})
						return err
					})
				},
			} {
				t.Run(how, func(t *testing.T) {
					t.Parallel()
					db := pgtest.Fresh(t)
					s, other := storetest.OpenURL(t, db.URL), storetest.OpenURL(t, db.URL)
					changes := turns("r", "s", 6, 2_000)
					storetest.Write(t, s, changes[:3]...)

					for _, do := range []func() error{
						func() error { return write(s, changes[3]) }, // by now it is known where the tree is
						func() error { return takeAway(s, other) },
						func() error { return write(s, changes[4]) },
						func() error { return write(s, changes[5]) },
					} {
						if err := do(); err != nil {
							t.Fatal(err)
						}
					}

					got := prompts(storetest.StepDetail(t, other, "s").Cycles)
					for _, c := range changes[4:] {
						if c := c.(*record.ThinkAct); got[c.Seq] != *c.ThinkInput {
							t.Errorf("cycle %d is not what was written: %.200q", c.Seq, got[c.Seq])
						}
					}
				})
			}
		})
	}
}

// TestNewPagesOfOldPieces lets another server delete a tree and write all but the last turns of it again. A page
// of the next turn is new then, and names pieces that the first server remembers and that are not on record.
func TestNewPagesOfOldPieces(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s, other := storetest.OpenURL(t, db.URL), storetest.OpenURL(t, db.URL)
	for n := 20; n < 60; n++ {
		root, step := fmt.Sprint("r", n), fmt.Sprint("s", n)
		changes := turns(root, step, n+1, 130)
		storetest.Write(t, s, changes[:n-1]...)
		storetest.Write(t, s, changes[n-1])
		if err := other.DeletePlan(t.Context(), root); err != nil {
			t.Fatal(err)
		}

		storetest.Write(t, other, changes[n-3])
		storetest.Write(t, s, changes[n])
		checkPrompts(t, other, step, []record.Change{changes[n-3], changes[n]})
	}
	checkNothingDamaged(t, s)
}

// TestTwoServersShareTexts lets two servers write the turns of the same steps at once, while a third deletes
// trees again and again. No text that was acknowledged after the last deletion is damaged.
func TestTwoServersShareTexts(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	servers := []*store.Store{
		storetest.OpenURL(t, db.URL), store.AlwaysAdd(storetest.OpenURL(t, db.URL)),
		store.CopyNew(storetest.OpenURL(t, db.URL)),
	}
	deleter := storetest.OpenURL(t, db.URL)

	const trees, perTree = 4, 25
	all := make([][]record.Change, trees)
	for n := range all {
		all[n] = turns(fmt.Sprint("r", n), fmt.Sprint("s", n), perTree, 1_500)
	}

	var writing sync.WaitGroup
	for i, s := range servers {
		writing.Go(func() {
			for turn := range perTree {
				for n := range all {
					storetest.Write(t, s, all[n][(turn+i*7)%perTree])
				}
			}
		})
	}

	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	for n, going := 0, true; going; n++ {
		select {
		case <-done:
			going = false
		case <-time.After(20 * time.Millisecond):
			if err := deleter.DeletePlan(t.Context(), fmt.Sprint("r", n%trees)); err != nil &&
				!errors.Is(err, record.ErrNotFound) {
				t.Error(err)
			}
		}
	}

	checkNothingDamaged(t, deleter)
	for n := range all {
		for _, s := range slices.Concat(servers, servers) {
			storetest.Write(t, s, all[n]...)
		}
		checkPrompts(t, deleter, fmt.Sprint("s", n), all[n])
	}
	checkNothingDamaged(t, deleter)
}
