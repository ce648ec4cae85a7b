package plan

import (
	"context"

	"github.com/actlog/actlog/record"
)

// maxHistory is how many observations the model is told.
const maxHistory = 5

// iterate asks for one operation at a time, until the model says that the task is done.
func (w *work) iterate(ctx context.Context) (string, error) {
	var history []observation
	most := *w.task.Constraints.MaxIterations
	for i := 1; ; i++ {
		if i > most {
			w.truncated = stoppedAfter("max_iterations", most)
			break
		}
		answer, err := w.ask(ctx, i, decidePrompt(w.task.Role, w.offered), historyPrompt(w.task, history[max(len(history)-maxHistory, 0):]))
		if err != nil {
			return "", err
		}
		d, err := readDecision(answer)
		if err != nil {
			return "", err
		}
		w.think(record.ThoughtDecision, i, decided(d), nil)
		if d.Done || d.Step == nil {
			break
		}
		o, err := w.operate(ctx, i, *d.Step)
		if err != nil {
			return "", err
		}
		history = append(history, o)
		if !o.success && *w.task.Constraints.AbortOnError {
			return "", abort("Iteration", i, o.error)
		}
		if w.full() {
			w.truncated = stoppedAfter("max_operations", len(history))
			break
		}
	}
	return w.conclude(ctx, len(history)+1)
}
