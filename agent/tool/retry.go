package tool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// FailureKind says how a call failed.
type FailureKind string

// The kinds of failures after which a call may be made again.
const (
	// OnTool means that the tool says that the call failed. See also [Result.Final].
	OnTool FailureKind = "tool"
	// OnTimeout means that the tool had no result in time, and did not write.
	OnTimeout FailureKind = "timeout"
)

// MaxTries is the most that [Retries.Tries] can be.
const MaxTries = 100

// Retries says how often a call that failed is made again, and after which pauses. In JSON and YAML its fields are
// tries, from, factor, most and on, with times such as "30s".
type Retries struct {
	// Tries is how often the call is made in all if it fails each time. Attempts whose outcome is unknown do not count:
	// those are up to [Policy.OnUnknown].
	Tries int
	// From is the first pause. 0 means a second.
	From time.Duration
	// Factor is by how much a pause is longer than the one before. 0 means 2.
	Factor float64
	// Most bounds the pauses. 0 means a minute, or From if that is longer.
	Most time.Duration
	// On are the failures after which the call is made again. Empty means OnTool.
	On []FailureKind
}

// Again reports whether a call that has failed so many times, the last time in this way, is made again.
func (r *Retries) Again(failed int, last FailureKind) bool {
	return r != nil && failed < r.Tries && slices.Contains(r.complete().On, last)
}

// Pause returns how long to wait before a call that has failed so many times is made again.
func (r *Retries) Pause(failed int) time.Duration {
	all := r.complete()
	pause := float64(all.From) * math.Pow(all.Factor, float64(failed-1))
	return time.Duration(min(pause, float64(all.Most)))
}

// complete returns what is meant, with the defaults.
func (r Retries) complete() Retries {
	r.From, r.Factor = cmp.Or(r.From, time.Second), cmp.Or(r.Factor, 2)
	r.Most = cmp.Or(r.Most, max(time.Minute, r.From))
	if len(r.On) == 0 {
		r.On = []FailureKind{OnTool}
	}
	return r
}

// Check returns what is wrong with it, as "field: why".
func (r Retries) Check() error {
	switch {
	case r.Tries < 1 || r.Tries > MaxTries:
		return fmt.Errorf("tries: want a whole number from 1 to %d", MaxTries)
	case r.From < 0:
		return errors.New("from: want a time such as 1s")
	case r.Most < 0:
		return errors.New("most: want a time such as 1m")
	case r.Factor != 0 && !(r.Factor >= 1 && r.Factor <= 100):
		return errors.New("factor: want a number from 1 to 100")
	}

	if all := r.complete(); all.Most < all.From {
		return fmt.Errorf("most: it is less than the first pause, %s", all.From)
	}
	for _, kind := range r.On {
		if kind != OnTool && kind != OnTimeout {
			return fmt.Errorf("on: %q is not tool or timeout", kind)
		}
	}
	return nil
}

type retriesJSON struct {
	Tries  int           `json:"tries"`
	From   *string       `json:"from,omitempty"`
	Factor float64       `json:"factor,omitempty"`
	Most   *string       `json:"most,omitempty"`
	On     []FailureKind `json:"on,omitempty"`
}

// MarshalJSON writes all fields.
func (r Retries) MarshalJSON() ([]byte, error) {
	all := r.complete()
	return json.Marshal(retriesJSON{
		all.Tries, new(all.From.String()), all.Factor, new(all.Most.String()), all.On,
	})
}

// UnmarshalJSON reads and checks it. The error names the field.
func (r *Retries) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		return fmt.Errorf("retry: want a mapping such as {tries: 3}, not %s", b)
	}
	read, err := readRetries(b)
	if err != nil {
		return fmt.Errorf("retry.%w", err)
	}
	*r = read
	return nil
}

func readRetries(b []byte) (r Retries, err error) {
	var f retriesJSON
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return r, fieldError(err, "a retry")
	}

	r = Retries{Tries: f.Tries, Factor: f.Factor, On: f.On}
	for _, each := range []struct {
		field string
		text  *string
		to    *time.Duration
	}{{"from", f.From, &r.From}, {"most", f.Most, &r.Most}} {
		read, err := readDuration(each.field, each.text)
		if err != nil {
			return r, err
		}
		if read != nil {
			*each.to = *read
		}
	}
	return r, r.Check()
}
