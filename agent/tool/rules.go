package tool

import (
	"strings"

	"github.com/actlog/actlog/agent/limit"
)

// Rules are in order: the first one that matches a tool's name applies, the others do not.
type Rules []Rule

// Policy returns the policy of a tool of the program itself by the rules. own is the policy of its Spec.
func (rules Rules) Policy(name string, own Policy) Policy {
	return rules.Of(Spec{Name: name, Policy: own})
}

// Of returns the policy of a tool by the rules.
//
// An untrusted server chooses the names of its tools, so a rule makes the policy of one looser only if it is
// meant for that server: its pattern begins with "<server>-", or is "*". Any rule makes it stricter.
//
// A tool of a server that does not write by a rule needs no approval, unless the rule or the server says
// otherwise.
func (rules Rules) Of(s Spec) Policy {
	for _, r := range rules {
		if Match(r.Tools, s.Name) {
			return r.apply(s)
		}
	}
	return s.Policy
}

// Limits returns the limits of the calls of a tool, and the tools with which it shares them; no limits: there are none.
// Any rule limits the tools of an untrusted server.
func (rules Rules) Limits(name string) (tools string, limits limit.Limits) {
	for _, r := range rules {
		if Match(r.Tools, name) {
			return r.Tools, r.Limits
		}
	}
	return "", limit.Limits{}
}

func (r Rule) apply(s Spec) Policy {
	if s.Untrusted && !r.names(s.Server) {
		r = r.stricter()
	}

	p := r.set(s.Policy)
	readOnly := r.Writes != nil && !*r.Writes
	if s.Server != "" && readOnly && r.Approval == nil {
		p.Approval = s.Destructive
	}
	return p
}

// names reports whether the rule is meant for the tools of a server, however these are called.
func (r Rule) names(server string) bool {
	return r.Tools == "*" || strings.HasPrefix(r.Tools, CleanName(server)+"-")
}

// stricter returns the rule without what makes a policy looser.
func (r Rule) stricter() Rule {
	if r.Approval != nil && !*r.Approval {
		r.Approval = nil
	}
	if r.Writes != nil && !*r.Writes {
		r.Writes = nil
	}

	if r.OnUnknown != nil && *r.OnUnknown == Retry {
		r.OnUnknown = nil
	}
	if r.Retry != nil && r.Retry.Tries > 1 {
		r.Retry = nil
	}
	return r
}
