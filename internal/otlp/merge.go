package otlp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
)

// merge makes one span of all that is told about it, the same in any order and
// however often: what has ended wins over what has not, then the later end, then
// what says more. Events that came as log records are added. Spans of other
// traces than the first, by its id, are left out, and so is what has no proper id.
func merge(spans []Span) []*Span {
	trace := ""
	for i := range spans {
		if s := &spans[i]; validID(s.TraceID, 32) && validID(s.SpanID, 16) && (trace == "" || s.TraceID < trace) {
			trace = s.TraceID
		}
	}
	if trace == "" {
		return nil
	}
	byID := make(map[string]int, len(spans))
	out := make([]*Span, 0, len(spans))
	var added map[string][]Event
	for i := range spans {
		s := &spans[i]
		if s.TraceID != trace || !validID(s.SpanID, 16) {
			continue
		}
		if s.Stub {
			if added == nil {
				added = map[string][]Event{}
			}
			added[s.SpanID] = append(added[s.SpanID], s.Events...)
			continue
		}
		if pending, ok := pendingOf(s); ok {
			if !validID(pending.SpanID, 16) {
				continue
			}
			s = &pending
		}
		at, ok := byID[s.SpanID]
		switch {
		case !ok:
			byID[s.SpanID] = len(out)
			out = append(out, s)
		case wins(s, out[at]):
			out[at] = s
		}
	}
	for id, events := range added {
		at, ok := byID[id]
		if !ok {
			continue // its span is still to come
		}
		whole := *out[at]
		whole.Events = addEvents(whole.Events, events)
		out[at] = &whole
	}
	return out
}

// wins tells whether a is what is kept of two tellings of one span. The order is
// total, so it does not matter which came first.
func wins(a, b *Span) bool {
	return cmp.Or(
		cmp.Compare(a.End, b.End), // 0: not ended
		cmp.Compare(len(a.Attributes), len(b.Attributes)),
		cmp.Compare(len(a.Events), len(b.Events)),
		compareWhole(a, b),
	) > 0
}

func compareWhole(a, b *Span) int {
	if reflect.DeepEqual(a, b) {
		return 0
	}
	return bytes.Compare(encoded(a), encoded(b))
}

// encoded gives the JSON of a span or an event. There is none that has none.
func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

// addEvents adds events, in the order of their times, that are not there yet.
func addEvents(have, more []Event) []Event {
	type keyed struct {
		Event
		key string
	}
	seen := make(map[string]bool, len(have)+len(more))
	for _, e := range have {
		seen[string(encoded(e))] = true
	}
	all := make([]keyed, 0, len(more))
	for _, e := range more {
		if key := string(encoded(e)); !seen[key] {
			seen[key] = true
			all = append(all, keyed{e, key})
		}
	}
	slices.SortFunc(all, func(a, b keyed) int { return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.key, b.key)) })
	out := slices.Clip(have)
	for _, k := range all {
		out = append(out, k.Event)
	}
	return out
}
