package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// figure is one measurement.
type figure struct {
	Group string `json:"group"`
	Name  string `json:"name"`
	Unit  string `json:"unit,omitempty"`
	Ours  *value `json:"ours"`
	// Baseline is the value that ours is compared with, or nil.
	Baseline     *value `json:"beside,omitempty"`
	BaselineName string `json:"besideName,omitempty"`
	// Ratio is ours divided by the baseline, computed turn by turn.
	Ratio *value `json:"ratio,omitempty"`
	// Target applies to the ratio or, if there is none, to ours. It may be nil.
	Target *target `json:"target,omitempty"`
	OK     *bool   `json:"ok,omitempty"`
	Note   string  `json:"note,omitempty"`
}

// value is the result of several repeats.
type value struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

func valueOf(repeats []float64) *value {
	if len(repeats) == 0 {
		return nil
	}
	s := slices.Sorted(slices.Values(repeats))
	n := len(s)
	return &value{Median: (s[n/2] + s[(n-1)/2]) / 2, Least: s[0], Most: s[n-1]}
}

// target is a bound that the value should keep.
type target struct {
	AtLeast float64 `json:"atLeast,omitempty"`
	AtMost  float64 `json:"atMost,omitempty"`
}

func atLeast(v float64) *target { return &target{AtLeast: v} }
func atMost(v float64) *target  { return &target{AtMost: v} }

func (t target) kept(v float64) bool {
	return v >= t.AtLeast && (t.AtMost == 0 || v <= t.AtMost)
}

func (t target) String() string {
	if t.AtMost != 0 {
		return "<= " + digits(t.AtMost)
	}
	return ">= " + digits(t.AtLeast)
}

// against returns a figure that compares ours with a baseline, both measured by turns.
func against(name, unit string, ours, baseline []float64, baselineName string, t *target) figure {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i] / baseline[i]
	}

	f := figure{
		Name: name, Unit: unit, Ours: valueOf(ours), Baseline: valueOf(baseline), BaselineName: baselineName,
		Ratio:  valueOf(ratios),
		Target: t,
	}
	return f.judged(f.Ratio)
}

// alone returns a figure without a comparison.
func alone(name, unit string, ours []float64, t *target) figure {
	f := figure{Name: name, Unit: unit, Ours: valueOf(ours), Target: t}
	return f.judged(f.Ours)
}

func (f figure) judged(v *value) figure {
	if f.Target != nil {
		f.OK = new(f.Target.kept(v.Median))
	}
	return f
}

func (f figure) noted(format string, args ...any) figure {
	f.Note = fmt.Sprintf(format, args...)
	return f
}

// report is the result of a run.
type report struct {
	Machine machine  `json:"machine"`
	Scale   float64  `json:"scale"`
	Repeats int      `json:"repeats"`
	Figures []figure `json:"figures"`
}

// table prints the figures: the median, the least and the most of the repeats.
func (r report) table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tours\tbeside\tratio\ttarget\t")
	for _, f := range r.Figures {
		bound, verdict := "-", ""
		if f.Target != nil {
			bound = f.Target.String()
		}
		if f.OK != nil {
			verdict = map[bool]string{true: "ok", false: "short"}[*f.OK]
		}

		baseline := "-"
		if f.Baseline != nil {
			baseline = f.Baseline.show(f.Unit) + ", " + f.BaselineName
		}
		fmt.Fprintf(w, "%s: %s\t%s\t%s\t%s\t%s\t%s\n", f.Group, f.Name, f.Ours.show(f.Unit), baseline, f.Ratio.show(""),
			bound,
			verdict)
	}

	if err := w.Flush(); err != nil {
		return err
	}

	for _, f := range r.Figures {
		if f.Note != "" {
			fmt.Fprintf(out, "%s: %s: %s\n", f.Group, f.Name, f.Note)
		}
	}
	_, err := fmt.Fprintf(out, "%s; scale %v, %d repeats: median (least to most)\n", r.Machine, r.Scale, r.Repeats)
	return err
}

func (v *value) show(unit string) string {
	if v == nil {
		return "-"
	}

	s := digits(v.Median)
	if unit != "" {
		s += " " + unit
	}
	if v.Least != v.Most {
		s += " (" + digits(v.Least) + " to " + digits(v.Most) + ")"
	}
	return s
}

// digits formats a number with three significant digits.
func digits(v float64) string {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return fmt.Sprint(v)
	}

	places := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	if places <= 0 {
		return fmt.Sprintf("%.0f", v)
	}
	s := fmt.Sprintf("%.*f", min(places, 6), v)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// byTurns measures ours and the baseline by turns, so that other work on the machine affects both. The
// first turn is a warm-up and does not count. baseline may be nil.
func (b *bench) byTurns(
	ctx context.Context, ours, baseline func(context.Context) (float64, error),
) (oursValues, baselineValues []float64, err error) {
	for turn := range b.repeats + 1 {
		for _, s := range []struct {
			name    string
			measure func(context.Context) (float64, error)
			values  *[]float64
		}{{sideOurs, ours, &oursValues}, {sideBaseline, baseline, &baselineValues}} {
			if s.measure == nil {
				continue
			}

			var v float64
			onSide(ctx, s.name, func(ctx context.Context) { v, err = s.measure(ctx) })
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", s.name, err)
			}
			if turn > 0 {
				*s.values = append(*s.values, v)
			}
		}
	}

	return oursValues, baselineValues, nil
}

// The sides of a comparison. A CPU profile has them as labels.
const (
	sideOurs     = "ours"
	sideBaseline = "beside"
)

func onSide(ctx context.Context, side string, f func(context.Context)) {
	pprof.Do(ctx, pprof.Labels("side", side), f)
}

// concurrently runs f for 0 to n-1 at the same time.
func concurrently(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}
