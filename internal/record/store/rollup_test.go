package store_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// P2: roll-ups are those of all cycles and calls, whatever is written in whatever order: if each write
// adds what it changes, and if it sums up all, among few steps and among many.
func TestRollUps(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what the schema and rows of before become")
	t.Parallel()
	for name, tune := range map[string]func(*store.Store){
		"added": func(s *store.Store) { store.AlwaysAdd(s) }, "few": func(*store.Store) {}, "many": store.WriteWhole,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.New(t).URL
			s, other := storetest.OpenURL(t, url), storetest.OpenURL(t, url)
			tune(s)
			tune(other)
			storetest.Upkeep(t, s, upkeep.Config{}) // adds partitions

			rapid.Check(t, func(rt *rapid.T) {
				u := testTree{record.NewPlanID()}
				for range rapid.IntRange(1, 12).Draw(rt, "writes") {
					var changes []record.Change
					for range rapid.IntRange(1, 4).Draw(rt, "changes") {
						changes = append(changes, drawChange(rt, u))
					}
					storetest.Write(t, rapid.SampledFrom([]*store.Store{s, s, other}).Draw(rt, "by"), changes...)
					checkRollUpsOf(t, s, u.root)
				}
			})
		})
	}
}
