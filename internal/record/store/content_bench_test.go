package store_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// uncut keeps every text whole.
func uncut(c *store.Config) { c.Contents = content.Sizes{Cut: math.MaxInt, Average: 1} }

// defaultSizes cuts texts as servers do.
func defaultSizes(c *store.Config) { c.Contents = content.DefaultSizes }

// turns returns the cycles of a conversation, each of which repeats what was said before.
func turns(root, step string, n, bytes int) (changes []record.Change) {
	said := strings.Builder{}
	for seq := range int64(n) {
		for i := 0; said.Len() < int(seq+1)*bytes; i++ {
			fmt.Fprintf(&said, "In turn %d the model of %s says word %d, which is %x. ", seq, step, i,
				uint64(i*i+1)*uint64(seq+7)*0x9e3779b97f4a7c15)
		}

		changes = append(changes, &record.ThinkAct{
			RootPlanID: root, StepID: step, Seq: seq, ThinkInput: new(said.String()),
			ThinkOutput: new(fmt.Sprint("answer ", seq)),
		})
	}
	return changes
}

// BenchmarkStepOfTurns reads the steps of conversations whose texts are kept once, or whole.
func BenchmarkStepOfTurns(b *testing.B) {
	for _, n := range []int{2, 30, 100} {
		for name, sizes := range map[string]func(*store.Config){"once": defaultSizes, "whole": uncut} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				s := storetest.Open(b, sizes)
				storetest.Write(b, s, turns("r", "s", n, 7_000)...)
				storetest.Exec(b, s, "VACUUM ANALYZE")

				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.StepDetail(b.Context(), "", "s"); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
