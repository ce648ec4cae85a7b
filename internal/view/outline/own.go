package outline

import (
	"cmp"
	"slices"
	"time"
)

// TimesAt returns when a row began and ended; what has not ended goes on until now, unless it was left behind. Each may
// be nil.
func (r *Row) TimesAt(now time.Time) (start, end *time.Time) {
	start, end = r.Times()
	if start != nil && end == nil && !r.Left && !r.State().Terminal() {
		end = &now
	}
	return start, end
}

type interval struct{ from, to time.Time }

// Slowest returns the rows that took longest themselves, the slowest first, and how long: their time without that in
// which something below them went on. Rows whose times are not known, or that took none, are not among them, nor are
// copies, which went on in another run.
func (o *Outline) Slowest(now time.Time) (rows []int, took map[int]time.Duration) {
	took = map[int]time.Duration{}
	below := make([][]interval, len(o.Rows)) // what went on under each row
	for i := len(o.Rows) - 1; i >= 0; i-- {  // what is under a row comes before it
		r := &o.Rows[i]
		under := union(below[i])
		below[i] = nil

		if start, end := r.TimesAt(now); start != nil && end != nil && end.After(*start) && r.ForkedFrom() == nil {
			if own := end.Sub(*start) - within(under, *start, *end); own > 0 {
				rows = append(rows, i)
				took[i] = own
			}
			under = append(under, interval{*start, *end})
		}
		if r.Parent >= 0 {
			below[r.Parent] = append(below[r.Parent], under...)
		}
	}

	slices.Reverse(rows)
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(took[b], took[a]) })
	return rows, took
}

// union returns intervals as those that do not touch each other, in their order.
func union(all []interval) (out []interval) {
	slices.SortFunc(all, func(a, b interval) int { return a.from.Compare(b.from) })
	for _, next := range all {
		if last := len(out) - 1; last >= 0 && !next.from.After(out[last].to) {
			if next.to.After(out[last].to) {
				out[last].to = next.to
			}
			continue
		}
		out = append(out, next)
	}
	return out
}

// within returns how much of a time intervals cover that do not touch each other.
func within(all []interval, from, to time.Time) (d time.Duration) {
	for _, each := range all {
		start, end := each.from, each.to
		if start.Before(from) {
			start = from
		}
		if end.After(to) {
			end = to
		}
		d += max(0, end.Sub(start))
	}
	return d
}
