package model

import (
	"cmp"
	"math"
	"time"
)

// Backoff is how long to wait between tries: From at first, Factor times as long each time, and Most at most.
type Backoff struct {
	From   time.Duration
	Factor float64
	Most   time.Duration
}

// After returns the pause after so many tries in vain, from 1.
func (b Backoff) After(tries int) time.Duration {
	pause := float64(b.From) * math.Pow(b.Factor, float64(max(tries, 1)-1))
	return time.Duration(min(pause, float64(b.Most)))
}

// or returns the backoff with the values of another where it has none.
func (b Backoff) or(other Backoff) Backoff {
	return Backoff{cmp.Or(b.From, other.From), cmp.Or(b.Factor, other.Factor), cmp.Or(b.Most, other.Most)}
}

// Patience says how runs bear with a model that fails. Errors may pass, see [Error.Retryable]. Where it is zero, the
// default holds.
type Patience struct {
	// Tries is how often a run asks in a row, with pauses by Retry, before it lets go of its worker and waits until
	// the model is back. Default 8, and 2 s, 4 s and so on up to 60 s.
	Tries int
	Retry Backoff
	// Probe has the pauses after which one of the runs that wait asks whether the model is back. Default 5 s, 10 s and
	// so on up to 30 s.
	Probe Backoff
	// GiveUpAfter is how long a run waits, from its first request that failed, before it fails. Default 24 h.
	GiveUpAfter time.Duration
	// Fallback are the models, by the names under which the runtime knows them, that answer in place of this one: each
	// after the one before it has failed in all tries, or once with an error that does not pass, see [Error.FallsBack].
	// Their own fallbacks do not count. A run waits or fails if none of them answers.
	Fallback []string
}

var defaultPatience = Patience{
	Tries: 8, Retry: Backoff{2 * time.Second, 2, time.Minute}, Probe: Backoff{5 * time.Second, 2, 30 * time.Second},
	GiveUpAfter: 24 * time.Hour,
}

// WithPatience returns m, with which runs are as patient as p says.
func WithPatience(m Model, p Patience) Model { return &patient{m, p} }

type patient struct {
	Model
	patience Patience
}

// PatienceWith returns the patience of runs with a model.
func PatienceWith(m Model) Patience {
	var of Patience
	if p, ok := m.(*patient); ok {
		of = p.patience
	}
	return Patience{
		Tries: cmp.Or(of.Tries, defaultPatience.Tries), Retry: of.Retry.or(defaultPatience.Retry),
		Probe: of.Probe.or(defaultPatience.Probe), GiveUpAfter: cmp.Or(of.GiveUpAfter, defaultPatience.GiveUpAfter),
		Fallback: of.Fallback,
	}
}
