package outline_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/record"
)

// TestSlowest: the time of a row is its own, without that of what went on below it. What goes on below at the same time
// counts once; what has no times lets through those below it.
func TestSlowest(t *testing.T) {
	t.Parallel()
	at := func(s int) *time.Time { return new(time.Unix(int64(s), 0)) }
	var g grown
	root := g.plan("root", record.Running, nil)
	root.Record.StartTime = at(0) // until 100

	g.step("a", "root", record.Completed)
	g.steps[0].Record.StartTime, g.steps[0].Record.EndTime = at(10), at(50)
	g.call("a", 0, "x", record.Completed) // the cycle has no times
	g.call("a", 1, "y", record.Completed)
	g.call("a", 2, "z", record.Completed)
	for i, times := range [][2]int{{15, 30}, {20, 35}, {45, 60}} { // the last one ends after its step
		g.calls[i].Record.StartTime, g.calls[i].Record.EndTime = at(times[0]), at(times[1])
	}
	g.step("b", "root", record.Completed) // no times but a start

	o := g.outline()
	rows, took := o.Slowest(*at(100))
	var b strings.Builder
	for _, i := range rows {
		fmt.Fprintf(&b, "%s %v\n", o.Rows[i].At, took[i])
	}
	if got, want := b.String(), "plan:root 50s\nstep:a 15s\ncall:a/0/x 15s\ncall:a/1/y 15s\ncall:a/2/z 15s\n"; got !=
		want {
		t.Errorf("the slowest are\n%swant\n%s", got, want)
	}
}
