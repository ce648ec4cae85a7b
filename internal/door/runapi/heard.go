package runapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// listenerEvent is an event that is sent to the listeners of a run.
type listenerEvent struct {
	name  string
	level int   // from which on
	step  int64 // its number; 0: the run
	kind  string
	data  any
}

// The kinds of the events of a step. That of sources has their number behind it.
const (
	heardStarted   = "s"
	heardReasoning = "r"
	heardSources   = "q"
	heardEnded     = "e"
)

// heardOf returns the events of a run so far, in order.
func heardOf(t *traceJSON) (all []listenerEvent) {
	for i := range t.StepTraces {
		st := &t.StepTraces[i]
		if st.StartTime != nil {
			all = append(all, listenerEvent{"onStepStarted", 0, st.StepNumber, heardStarted, st})
		}
		if st.Reasoning != nil {
			all = append(all, listenerEvent{
				"onReasoningCaptured", 2, st.StepNumber, heardReasoning, map[string]any{
					"stepId": st.StepID, "reasoning": st.Reasoning,
				},
			})
		}
		if n := len(st.Sources); n > 0 {
			all = append(all, listenerEvent{
				"onSourcesDiscovered", 1, st.StepNumber, heardSources + strconv.Itoa(n),
				map[string]any{"stepId": st.StepID, "sources": st.Sources},
			})
		}

		switch {
		case st.State == record.Failed:
			all = append(all, listenerEvent{"onStepFailed", 0, st.StepNumber, heardEnded, st})
		case st.State.Terminal():
			all = append(all, listenerEvent{"onStepCompleted", 0, st.StepNumber, heardEnded, st})
		}
	}

	if t.FinalState.Terminal() {
		all = append(all, listenerEvent{"onExecutionCompleted", 0, 0, heardEnded, t})
	}
	return all
}

// delivered has the parts that a listener was sent, by the numbers of their steps. As a text it is the id of an
// event, such as 1-3.4s.4r: steps 1 to 3 have ended, and of step 4 the start and the reasoning were sent. So a
// listener that comes back with it is sent the rest, by any server.
type delivered map[int64]map[string]bool

// add notes an event, and reports whether it is new. Of a step that has ended nothing is.
func (t delivered) add(step int64, part string) bool {
	if t[step][heardEnded] || t[step][part] {
		return false
	}
	if t[step] == nil || part == heardEnded {
		t[step] = map[string]bool{}
	}
	t[step][part] = true
	return true
}

func (t delivered) String() string {
	var parts []string
	var from, to int64 // the newest steps that have ended, one after the other
	for _, step := range slices.Sorted(maps.Keys(t)) {
		switch {
		case !t[step][heardEnded]:
			for _, part := range slices.Sorted(maps.Keys(t[step])) {
				parts = append(parts, fmt.Sprint(step, part))
			}
		case len(parts) > 0 && to > 0 && step == to+1 && parts[len(parts)-1] == span(from, to):
			to = step
			parts[len(parts)-1] = span(from, to)
		default:
			from, to = step, step
			parts = append(parts, span(from, to))
		}
	}
	return strings.Join(parts, ".")
}

// span is how the id of an event names steps that have ended.
func span(from, to int64) string {
	if from == to {
		return strconv.FormatInt(from, 10)
	}
	return fmt.Sprintf("%d-%d", from, to)
}

// maxDelivered bounds how many steps the id of an event may name.
const maxDelivered = 10_000

var deliveredPart = regexp.MustCompile(`^([0-9]{1,9})(?:-([0-9]{1,9})|([srq][0-9]{0,9}))?$`)

// readDelivered reads the id of an event; without one nothing was delivered.
func readDelivered(id string) (delivered, error) {
	t, wrong := delivered{}, httpd.BadField("Last-Event-ID", "must be the id of an event of this stream")
	if id == "" {
		return t, nil
	}

	for text := range strings.SplitSeq(id, ".") {
		m := deliveredPart.FindStringSubmatch(text)
		if m == nil {
			return nil, wrong
		}

		from, _ := strconv.ParseInt(m[1], 10, 64) // digits
		to, _ := strconv.ParseInt(cmp.Or(m[2], m[1]), 10, 64)
		if to < from || to-from+int64(len(t)) > maxDelivered {
			return nil, wrong
		}
		for step := from; step <= to; step++ {
			t.add(step, cmp.Or(m[3], heardEnded))
		}
	}
	return t, nil
}

// readListenerEvents reads the events of a run so far for all of its listeners, and whether these are the last.
func readListenerEvents(
	ctx context.Context, reader *runstore.Reader, rootPlanID, planID string,
) (all []listenerEvent, last bool, err error) {
	t, err := readTrace(ctx, reader, func(int64) error { return nil }, rootPlanID, planID) // no answer holds it
	if err != nil {
		return nil, false, err
	}
	return heardOf(&t), t.FinalState.Terminal(), nil
}
