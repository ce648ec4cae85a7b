package engine

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/record"
)

// wholeRequest is what a model was asked, from what its cycles keep of that.
type wholeRequest struct {
	next  int64           // the cycle to come
	asked []model.Message // in the last cycle
	known []model.Message // with the answer of the last cycle that has one: what the next one goes on from
	chars int64           // of known
}

// add takes the next cycle. What it keeps is all of its request, or what follows what was known before: whichever comes
// closer to the length of the request. They differ by all that was known, so what was redacted since does not matter.
func (w *wholeRequest) add(c *record.ThinkAct) error {
	w.next = c.Seq + 1
	if c.ThinkInput == nil {
		return nil
	}
	var fresh []model.Message
	if err := json.Unmarshal([]byte(*c.ThinkInput), &fresh); err != nil {
		return fmt.Errorf("read what cycle %s/%d was asked: %w", c.StepID, c.Seq, errors.Join(errUnreadable, err))
	}

	n, whole := charsOf(fresh), optional.Value(c.InputCharCount)
	w.asked = fresh
	if len(w.known) > 0 && distance(w.chars+n, whole) < distance(n, whole) {
		w.asked = append(w.known[:len(w.known):len(w.known)], fresh...)
	}
	if c.Message == nil { // the next request goes on from the last one that was answered
		return nil
	}

	answer, err := RecordedAnswer(c)
	if err != nil {
		return err
	}
	w.known = Append(w.asked[:len(w.asked):len(w.asked)], answer.Message)
	w.chars = charsOf(w.known)
	return nil
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

var errUnreadable = errors.New("it is no list of messages")
