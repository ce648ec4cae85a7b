package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/view/words"
)

type verifyCmd struct {
	databaseFlags
	JSON bool `help:"Print what is damaged as JSON, one cycle per line."`
}

func (*verifyCmd) Help() string {
	return `Long prompts are kept in parts, which the prompts of a run share. This command reads all parts and checks that each one that
a prompt needs is there, and that it is what its hash says. It prints the cycles whose prompts are damaged, and ends with 1 if
there are any. It changes nothing, and servers may go on meanwhile.`
}

type damageView struct {
	RootPlanID string `json:"rootPlanId"`
	StepID     string `json:"stepId"`
	Seq        int64  `json:"seq"`
	Content    string `json:"content"`
	Missing    bool   `json:"missing"`
}

func (c *verifyCmd) Run(ctx context.Context, e *env) error {
	return withStore(ctx, c.databaseFlags, e, func(s *store.Store) error {
		damaged, runs := int64(0), int64(0)
		out := json.NewEncoder(e.stdout)
		err := upkeep.Verify(ctx, s, func(d upkeep.Damage) error {
			damaged++
			if c.JSON {
				return out.Encode(damageView(d))
			}

			problem := "is not what its hash says"
			if d.Missing {
				problem = "is missing"
			}
			_, err := fmt.Fprintf(e.stdout, "plan %s, step %s, cycle %d: content %s of the prompt %s\n",
				words.Clean(d.RootPlanID), words.Clean(d.StepID), d.Seq+1, d.Content, problem)
			return err
		}, func(n int) { runs = int64(n) })
		if err != nil {
			return err
		}

		fmt.Fprintf(e.stderr, "%s runs checked\n", words.Grouped(runs))
		if damaged > 0 {
			return errors.New(words.Grouped(damaged) + " prompts are damaged")
		}
		return nil
	})
}
