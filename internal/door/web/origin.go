package web

import (
	"errors"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/view/chat"
	"github.com/actlog/actlog/record"
)

// What may be read of the cycles before a cycle to find out where its messages are from, in bytes: as it is kept, as
// whole prompts, and what of these may be parsed. Together that takes about 0.2 s.
const (
	maxEarlier = 8 << 20
	maxPrompts = 128 << 20
	maxParsed  = 2 << 20
)

// errManyMessages means that there is more.
var errManyMessages = errors.New("the cycles before have too much to read")

// unknownOrigin is in place of the number of a cycle.
const unknownOrigin = -1

// origins returns for each message that is known from the cycle before in which cycle of the step it stood first: in
// the prompt, or in the answer. If a message stands in a prompt several times, the second is from the first cycle that
// had two of it, and so on. found is false if there is too much to read: then no origin is known.
func (s *Server) origins(
	c echo.Context, r *record.ThinkAct, asked []chat.Message, known []bool,
) (from []int64, found bool, err error) {
	from = make([]int64, len(asked))
	wanted := map[chat.Key][]int{} // the places of equal messages
	for i := range asked {
		if from[i] = unknownOrigin; known[i] {
			key := asked[i].Key()
			wanted[key] = append(wanted[key], i)
		}
	}
	if len(wanted) == 0 {
		return from, true, nil
	}

	answer, size := httpd.AnswerTo(c), int64(0)
	reader := s.store.Within(func(n int64) error {
		if size += n; size > maxEarlier {
			return errManyMessages
		}
		return answer.Take(n)
	})

	var prompts chat.Memory
	whole, parsed := 0, 0 // of prompts, of answers
	err = reader.EarlierCycles(c.Request().Context(), r.RootPlanID, r.StepID, r.Seq, func(earlier *record.ThinkAct) error {
		if whole += len(optional.Value(earlier.ThinkInput)); whole > maxPrompts {
			return errManyMessages
		}
		had := prompts.Keys(optional.Value(earlier.ThinkInput))
		if parsed += len(optional.Value(earlier.ThinkOutput)) + len(earlier.Message); parsed+prompts.Parsed > maxParsed {
			return errManyMessages
		}

		reply := replyOf(earlier)
		for i := range reply {
			had = append(had, reply[i].Key())
		}

		count := map[chat.Key]int{}
		for _, key := range had {
			n := count[key]
			count[key]++
			if places := wanted[key]; n < len(places) && from[places[n]] == unknownOrigin {
				from[places[n]] = earlier.Seq
			}
		}
		return nil
	})
	if errors.Is(err, errManyMessages) {
		for i := range from {
			from[i] = unknownOrigin
		}
		return from, false, nil
	}
	return from, true, err
}
