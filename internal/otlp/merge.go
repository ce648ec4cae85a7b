package otlp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
)

// merge returns one span for each id, the same in any order of the input and however often a span
// occurs in it. Of several versions of a span it keeps one, see supersedes. Events that came as log
// records are added to a copy of their span. Spans without valid ids are left out, and so are those
// of other traces than the one with the least id.
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
		if pending, ok := pendingSpan(s); ok {
			if !validID(pending.SpanID, 16) {
				continue
			}
			s = &pending
		}
		j, ok := byID[s.SpanID]
		switch {
		case !ok:
			byID[s.SpanID] = len(out)
			out = append(out, s)
		case supersedes(s, out[j]):
			out[j] = s
		}
	}
	for id, events := range added {
		if i, ok := byID[id]; ok { // else its span may still arrive
			s := *out[i]
			s.Events = addEvents(s.Events, events)
			out[i] = &s
		}
	}
	return out
}

// supersedes reports whether a is kept of two versions of one span: one that has ended, else the one
// that ended later, else the one with more attributes or events. The order is total, so it does not
// matter which came first.
func supersedes(a, b *Span) bool {
	order := cmp.Or(
		cmp.Compare(a.End, b.End), // 0: not ended
		cmp.Compare(len(a.Attributes), len(b.Attributes)),
		cmp.Compare(len(a.Events), len(b.Events)),
	)
	if order == 0 && !reflect.DeepEqual(a, b) {
		order = bytes.Compare(encoded(a), encoded(b))
	}
	return order > 0
}

// encoded returns the JSON of a span or an event, nil if an attribute is not valid JSON.
func encoded(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

// addEvents returns events with those of more that they lack, in the order of their times. It does
// not change the array behind events.
func addEvents(events, more []Event) []Event {
	type keyed struct {
		Event
		key string
	}
	seen := make(map[string]bool, len(events)+len(more))
	for _, e := range events {
		seen[string(encoded(e))] = true
	}
	added := make([]keyed, 0, len(more))
	for _, e := range more {
		if key := string(encoded(e)); !seen[key] {
			seen[key] = true
			added = append(added, keyed{e, key})
		}
	}
	slices.SortFunc(added, func(a, b keyed) int { return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.key, b.key)) })
	out := slices.Clip(events)
	for _, k := range added {
		out = append(out, k.Event)
	}
	return out
}
