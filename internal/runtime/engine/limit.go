package engine

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Limits bound a run and all below it. 0 means no limit.
type Limits struct {
	Rounds    int64   `json:"rounds,omitempty"`    // think-act cycles
	ToolCalls int64   `json:"toolCalls,omitempty"` // of the run alone, as are the rounds
	Tokens    int64   `json:"tokens,omitempty"`    // in and out
	CostUSD   float64 `json:"costUsd,omitempty"`
	Seconds   float64 `json:"seconds,omitempty"` // of work: not while it waits for people, or is paused or queued
}

// runLimits are the limits of a run as they are kept with it.
type runLimits struct {
	Limits
	// MaxSteps is how many rounds the agent of the run has, in place of those of its definition, because a retry raised
	// them; 0: none did.
	MaxSteps int `json:"maxSteps,omitempty"`
}

func readLimits(kept json.RawMessage) (l runLimits, err error) {
	if kept != nil {
		err = json.Unmarshal(kept, &l)
	}
	return l, err
}

// The error kinds of runs that reached a limit.
const (
	LimitRounds    = "limit_rounds"
	LimitToolCalls = "limit_tool_calls"
	LimitTokens    = "limit_tokens"
	LimitCost      = "limit_cost"
	LimitTime      = "limit_time"
	// LimitCostUnknown is of runs with a limit of cost whose model has no price.
	LimitCostUnknown = "limit_cost_unknown"
)

const maxSeconds = 10 * 365 * 24 * 3600

func (l *Limits) check() error {
	if l == nil {
		return nil
	}

	for _, f := range []struct {
		name  string
		value float64
		most  float64
	}{
		{"rounds", float64(l.Rounds), math.MaxInt32}, {"toolCalls", float64(l.ToolCalls), math.MaxInt32},
		{"tokens", float64(l.Tokens), record.MaxCount},
		{"costUsd", l.CostUSD, record.MaxCount}, {"seconds", l.Seconds, maxSeconds},
	} {
		if math.IsNaN(f.value) || f.value < 0 || f.value > f.most {
			return BadInput("limits."+f.name, fmt.Sprintf("must be from 0 to %.0f", f.most))
		}
	}
	return nil
}

// least returns the lower of both in each limit. Either may be nil.
func (l *Limits) least(o *Limits) *Limits {
	if l == nil {
		l = &Limits{}
	}
	if o == nil {
		o = &Limits{}
	}

	return &Limits{
		Rounds: lower(l.Rounds, o.Rounds), ToolCalls: lower(l.ToolCalls, o.ToolCalls), Tokens: lower(l.Tokens, o.Tokens),
		CostUSD: lower(l.CostUSD, o.CostUSD), Seconds: lower(l.Seconds, o.Seconds),
	}
}

// lower returns the lower of two limits, of which 0 is none.
func lower[T int64 | float64](a, b T) T {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func (l *Limits) none() bool { return l == nil || *l == Limits{} }

func (l *Limits) json() json.RawMessage { return runLimits{Limits: *l}.json() }

// json returns the limits as they are kept; nil: there are none.
func (l runLimits) json() json.RawMessage {
	if l == (runLimits{}) {
		return nil
	}
	b, _ := json.Marshal(l) // numbers
	return b
}

// costUnknown is the failure of a run whose limit of cost cannot be kept.
func costUnknown(model string) error {
	return Fail(LimitCostUnknown, "The run has a limit of cost, and model %s has no price. See actlog price set, or "+
		"allow it in the configuration (unpriced).", model)
}

// reached returns the failure of a run that has used so much, or nil.
func (l *Limits) reached(rounds, calls int64, used runstore.Used) error {
	over := func(kind, what string, limit any) error {
		return Fail(kind, "The run has reached its limit of %v %s.", limit, what)
	}

	switch {
	case l.none():
		return nil
	case l.Rounds > 0 && rounds > l.Rounds:
		return over(LimitRounds, "rounds", l.Rounds)
	case l.ToolCalls > 0 && calls > l.ToolCalls:
		return over(LimitToolCalls, "tool calls", l.ToolCalls)
	case l.Tokens > 0 && used.Tokens >= l.Tokens:
		return over(LimitTokens, "tokens", l.Tokens)
	case l.CostUSD > 0 && used.UnpricedBelow != "":
		return Fail(LimitCostUnknown, "%s", used.UnpricedBelow)
	case l.CostUSD > 0 && used.UnpricedModel != "":
		return costUnknown(used.UnpricedModel)
	case l.CostUSD > 0 && used.CostUSD >= l.CostUSD:
		return over(LimitCost, "US dollars", l.CostUSD)
	}
	return nil
}
