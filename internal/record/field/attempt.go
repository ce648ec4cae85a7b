package field

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
	"unicode/utf8"

	"github.com/actlog/actlog/record"
)

// Earlier attempts are kept in their row as a JSON list of objects, in their order. An object
// has the number of the attempt, the Scoped fields that are set, by name, and under revs their
// revisions, by name. Equal times have equal texts, and these sort as the times do.
// actlog.merge_attempts writes the same.
const (
	numberMember = "attempt"
	revsMember   = "revs"
	timeFormat   = "2006-01-02T15:04:05.000000Z"
)

// PastJSON returns the earlier attempts as they are kept. ok is false if there are none.
func (r *Row) PastJSON() (text string, ok bool) {
	if len(r.Past) == 0 {
		return "", false
	}

	all := make([]map[string]any, len(r.Past))
	number := attemptField(r.Change.Kind())
	fields := Fields(r.Change.Kind())
	for i, p := range r.Past {
		members, revs := map[string]any{numberMember: attempt(number, p.Change)}, map[string]int64{}
		for _, f := range fields {
			v := f.In(p.Change)
			if !f.Scoped || v.IsZero() {
				continue
			}

			if t, ok := v.Interface().(*time.Time); ok {
				members[f.Name] = t.UTC().Format(timeFormat)
			} else {
				members[f.Name] = v.Elem().String()
			}
			if f.Rev > 0 && p.rev(f) != NoRevision {
				revs[f.Name] = p.rev(f)
			}
		}

		if len(revs) > 0 {
			members[revsMember] = revs
		}
		all[i] = members
	}

	b, _ := json.Marshal(all) // texts and numbers
	return string(b), true
}

// ParsePast returns the earlier attempts of a row of a kind from what PastJSON returned. Members
// that it does not know are left out.
func ParsePast(k record.Kind, raw []byte) ([]*Row, error) {
	if len(raw) == 0 {
		return nil, nil
	}

	var all []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}

	past := make([]*Row, len(all))
	fields := Fields(k)
	for i, members := range all {
		p := &Row{Change: record.New(k)}
		var revs map[string]int64
		if raw, ok := members[revsMember]; ok {
			if err := json.Unmarshal(raw, &revs); err != nil {
				return nil, fmt.Errorf("read revisions of an attempt: %w", err)
			}
		}

		for _, f := range fields {
			raw, ok := members[f.Name]
			if !ok || !f.Scoped && f.Rule != Attempt {
				continue
			}

			v := reflect.New(f.In(p.Change).Type().Elem())
			if err := json.Unmarshal(raw, v.Interface()); err != nil {
				return nil, fmt.Errorf("read %s of an attempt: %w", f.Name, err)
			}
			f.In(p.Change).Set(v)
			if rev, ok := revs[f.Name]; ok {
				if p.Revs == nil {
					p.Revs = noRevisions(k)
				}
				p.Revs[f.Rev-1] = rev
			}
		}
		past[i] = p
	}
	return past, nil
}

// AttemptOf returns how the attempt went that a row is at.
func AttemptOf(c record.Change) record.Attempt {
	a := record.Attempt{Number: 1, State: record.InitialState(c.Kind()), Truncated: []string{}}
	var number *int64
	var state *record.State
	switch c := c.(type) {
	case *record.Plan:
		number, state = c.Attempt, c.State
		a.EndTime = c.EndTime
		a.ErrorMessage, a.ErrorKind = c.ErrorMessage, c.ErrorKind
	case *record.AgentExecution:
		number, state = c.Attempt, c.State
		a.StartTime, a.EndTime = c.StartTime, c.EndTime
		a.ErrorMessage, a.ErrorKind = c.ErrorMessage, c.ErrorKind
	case *record.ThinkAct:
		number, state = c.Attempt, c.State
		a.ErrorMessage, a.ErrorKind = c.ErrorMessage, c.ErrorKind
		a.StartTime, a.EndTime = c.ThinkStartTime, c.ThinkEndTime
		if a.StartTime == nil {
			a.StartTime = c.ActStartTime
		}
		if a.EndTime == nil || c.ActEndTime != nil && c.ActEndTime.After(*a.EndTime) {
			a.EndTime = c.ActEndTime
		}
	case *record.ActTool:
		number, state = c.Attempt, c.State
		a.StartTime, a.EndTime = c.StartTime, c.EndTime
		a.ErrorMessage, a.ErrorKind = c.ErrorMessage, c.ErrorKind
	}

	if number != nil {
		a.Number = *number
	}
	if state != nil {
		a.State = *state
	}

	if s := a.ErrorMessage; s != nil && len(*s) > record.MaxAttemptTextBytes-utf8.UTFMax { // see full
		a.ErrorMessage, a.Truncated = new(Shorten(*s, record.MaxAttemptTextBytes)), append(a.Truncated, "errorMessage")
	}
	return a
}

// PastAttempts returns the earlier attempts of a row of a kind, in their order, from what
// PastJSON returned.
func PastAttempts(k record.Kind, raw []byte) ([]record.Attempt, error) {
	past, err := ParsePast(k, raw)
	if err != nil || past == nil {
		return nil, err
	}

	all := make([]record.Attempt, len(past))
	for i, p := range past {
		all[i] = AttemptOf(p.Change)
	}
	return all, nil
}
