package tool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/actlog/actlog/agent/limit"
)

// OnUnknown says what happens to a call whose outcome is unknown, for example after a crash.
type OnUnknown string

// What can happen to a call whose outcome is unknown.
const (
	// Report tells the model that the outcome is unknown and must be verified. It is the default.
	Report OnUnknown = "report"
	// Retry makes the call again with the same id.
	Retry OnUnknown = "retry"
	// Ask lets a human decide.
	Ask OnUnknown = "ask"
)

// Policy says how a tool may be called. In JSON and YAML its fields are onUnknown, approval, writes,
// exclusive, timeout, waitTimeout and retry, with times such as "30s". approval is true, false or {notStarter: true}.
type Policy struct {
	// OnUnknown is what happens if the outcome of a call is unknown. Empty means Report.
	OnUnknown OnUnknown
	// Approval means that a human approves each call before it is made.
	Approval bool
	// NotStarter means that who started the run may not approve a call: somebody else has to, and both must be known to
	// the server, or to the program. It counts only with Approval.
	NotStarter bool
	// Writes means that calls change something outside the run.
	Writes bool
	// Exclusive means that no other call of the same cycle runs at the same time.
	Exclusive bool
	// Timeout bounds a call, without the time that humans take to answer. 0 means none.
	Timeout time.Duration
	// WaitTimeout bounds the wait for an approval or an answer. 0 means the default of the caller, else that it has no
	// end.
	WaitTimeout time.Duration
	// Retry says how often a call that failed is made again; nil: never. OnUnknown is about those of which nobody can say
	// whether they failed.
	Retry *Retries
}

// Rule changes the policies of the tools whose names match a pattern. Fields that are nil leave the
// policy as it is. In JSON and YAML it is a policy with the additional fields tools, maxConcurrent and maxPerMinute.
type Rule struct {
	Tools       string // a pattern as in [Match]
	OnUnknown   *OnUnknown
	Approval    *bool
	NotStarter  *bool
	Writes      *bool
	Exclusive   *bool
	Timeout     *time.Duration
	WaitTimeout *time.Duration
	Retry       *Retries
	// Limits bound the calls of all tools that the rule is the first to match, together.
	Limits limit.Limits
}

// MaxLimit is the most that a limit of a rule can be.
const MaxLimit = 100_000

// set returns a policy with the fields of the rule.
func (r Rule) set(p Policy) Policy {
	replace(&p.OnUnknown, r.OnUnknown)
	replace(&p.Approval, r.Approval)
	replace(&p.NotStarter, r.NotStarter)
	replace(&p.Writes, r.Writes)
	replace(&p.Exclusive, r.Exclusive)
	replace(&p.Timeout, r.Timeout)
	replace(&p.WaitTimeout, r.WaitTimeout)

	p.Retry = cmp.Or(r.Retry, p.Retry)
	return p
}

func replace[T any](value, by *T) {
	if by != nil {
		*value = *by
	}
}

// policyJSON is a policy or a rule as JSON. Each field is read on its own, so that errors can name it.
type policyJSON struct {
	Tools       *string    `json:"tools,omitempty"`
	OnUnknown   *OnUnknown `json:"onUnknown,omitempty"`
	Approval    *approval  `json:"approval,omitempty"`
	Writes      *bool      `json:"writes,omitempty"`
	Exclusive   *bool      `json:"exclusive,omitempty"`
	Timeout     *string    `json:"timeout,omitempty"`
	WaitTimeout *string    `json:"waitTimeout,omitempty"`
	Retry       *Retries   `json:"retry,omitempty"`

	MaxConcurrent *int `json:"maxConcurrent,omitempty"`
	MaxPerMinute  *int `json:"maxPerMinute,omitempty"`
}

// approval is whether a call needs one, and whose it may not be: true, false or {"notStarter": true}.
type approval struct{ needed, notStarter *bool }

// approvalOf returns an approval; nil: nothing is said about it. NotStarter counts only with an approval.
func approvalOf(needed, notStarter *bool) *approval {
	switch {
	case needed == nil && notStarter == nil:
		return nil
	case needed != nil && !*needed:
		notStarter = nil
	}
	return &approval{needed, notStarter}
}

func (a approval) MarshalJSON() ([]byte, error) {
	if a.notStarter == nil {
		return json.Marshal(a.needed)
	}
	return json.Marshal(map[string]*bool{"notStarter": a.notStarter})
}

func (a *approval) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &a.needed) == nil && a.needed != nil {
		return nil
	}

	var who struct {
		NotStarter *bool `json:"notStarter"`
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if d.Decode(&who) != nil || who.NotStarter == nil {
		return fmt.Errorf("approval: %s is not true, false or {notStarter: true}", b)
	}

	a.needed, a.notStarter = new(true), who.NotStarter
	return nil
}

// MarshalJSON writes the fields that are set.
func (p Policy) MarshalJSON() ([]byte, error) {
	return json.Marshal(p.rule().json(nil))
}

// rule returns a rule that says what the policy says. NotStarter counts only with Approval.
func (p Policy) rule() Rule {
	return Rule{
		OnUnknown: unlessZero(p.OnUnknown), Approval: unlessZero(p.Approval),
		NotStarter: unlessZero(p.Approval && p.NotStarter), Writes: unlessZero(p.Writes), Exclusive: unlessZero(p.Exclusive),
		Timeout: unlessZero(p.Timeout), WaitTimeout: unlessZero(p.WaitTimeout), Retry: p.Retry,
	}
}

func unlessZero[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// MarshalYAML writes the same fields as MarshalJSON.
func (p Policy) MarshalYAML() (any, error) {
	b, err := p.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	return fields, json.Unmarshal(b, &fields)
}

// UnmarshalJSON reads a policy. It refuses fields and values that a policy does not have, by name.
func (p *Policy) UnmarshalJSON(b []byte) error {
	r, err := readRule(b)
	if err != nil {
		return err
	}
	if field := r.beyondPolicy(); field != "" {
		return fmt.Errorf("%s: a policy has no such field, only a rule has", field)
	}
	*p = r.set(Policy{})
	return nil
}

// beyondPolicy returns a field of the rule that no policy has; empty: none is set.
func (r Rule) beyondPolicy() string {
	switch {
	case r.Tools != "":
		return "tools"
	case r.Limits.Concurrent != 0:
		return "maxConcurrent"
	case r.Limits.PerMinute != 0:
		return "maxPerMinute"
	}
	return ""
}

// UnmarshalYAML reads the same fields as UnmarshalJSON.
func (p *Policy) UnmarshalYAML(unmarshal func(any) error) error {
	b, err := jsonOfYAML(unmarshal)
	if err != nil {
		return err
	}
	return p.UnmarshalJSON(b)
}

// UnmarshalJSON reads a rule. It refuses fields and values that a rule does not have, by name.
func (r *Rule) UnmarshalJSON(b []byte) error {
	read, err := readRule(b)
	if err != nil {
		return err
	}
	if read.Tools == "" {
		return errors.New("tools: required, for example files.*")
	}
	*r = read
	return nil
}

// MarshalJSON writes the fields that are set.
func (r Rule) MarshalJSON() ([]byte, error) {
	return json.Marshal(r.json(&r.Tools))
}

func (r Rule) json(tools *string) policyJSON {
	text := func(d *time.Duration) *string {
		if d == nil {
			return nil
		}
		return new(d.String())
	}

	return policyJSON{
		Tools: tools, OnUnknown: r.OnUnknown, Approval: approvalOf(r.Approval, r.NotStarter), Writes: r.Writes,
		Exclusive: r.Exclusive, Timeout: text(r.Timeout), WaitTimeout: text(r.WaitTimeout), Retry: r.Retry,
		MaxConcurrent: unlessZero(r.Limits.Concurrent), MaxPerMinute: unlessZero(r.Limits.PerMinute),
	}
}

// UnmarshalYAML reads the same fields as UnmarshalJSON.
func (r *Rule) UnmarshalYAML(unmarshal func(any) error) error {
	b, err := jsonOfYAML(unmarshal)
	if err != nil {
		return err
	}
	return r.UnmarshalJSON(b)
}

func jsonOfYAML(unmarshal func(any) error) ([]byte, error) {
	var fields map[string]any
	if err := unmarshal(&fields); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

func readRule(b []byte) (r Rule, err error) {
	var f policyJSON
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return r, fieldError(err, "a policy")
	}

	r = Rule{OnUnknown: f.OnUnknown, Writes: f.Writes, Exclusive: f.Exclusive, Retry: f.Retry}
	if f.Approval != nil {
		r.Approval, r.NotStarter = f.Approval.needed, f.Approval.notStarter
	}
	if f.Tools != nil {
		r.Tools = *f.Tools
		if err := CheckPattern(r.Tools); err != nil {
			return r, fmt.Errorf("tools: %w", err)
		}
	}

	if f.OnUnknown != nil && !slices.Contains([]OnUnknown{Report, Retry, Ask}, *f.OnUnknown) {
		return r, fmt.Errorf("onUnknown: %q is not report, retry or ask", *f.OnUnknown)
	}
	for _, each := range []struct {
		field string
		most  *int
		to    *int
	}{{"maxConcurrent", f.MaxConcurrent, &r.Limits.Concurrent}, {"maxPerMinute", f.MaxPerMinute, &r.Limits.PerMinute}} {
		if each.most == nil {
			continue
		}
		if *each.most < 1 || *each.most > MaxLimit {
			return r, fmt.Errorf("%s: want a whole number from 1 to %d", each.field, MaxLimit)
		}
		*each.to = *each.most
	}

	if r.Timeout, err = readDuration("timeout", f.Timeout); err != nil {
		return r, err
	}
	r.WaitTimeout, err = readDuration("waitTimeout", f.WaitTimeout)
	return r, err
}
