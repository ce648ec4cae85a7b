package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows how far something is: as a bar where there is a terminal, else as
// a line from time to time. What is written to it stands above the bar.
type progress struct {
	w        io.Writer
	terminal bool
	name     string
	bar      *progressbar.ProgressBar // nil: none is shown
	told     time.Time                // when the last line was
}

// tellEvery is how often a line tells of progress.
const tellEvery = 10 * time.Second

func newProgress(w io.Writer) *progress { return &progress{w: w, terminal: isTerminal(w)} }

// begin starts on something of a size in bytes; -1: it is not known.
func (p *progress) begin(name string, size int64) {
	p.end()
	p.name, p.told = name, time.Now()
	if p.terminal {
		p.bar = progressbar.NewOptions64(size,
			progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(clean(name)), progressbar.OptionShowBytes(true),
			progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionSetRenderBlankState(true), progressbar.OptionSetPredictTime(size > 0))
	}
}

// at tells how many bytes, and how many records, are done.
func (p *progress) at(bytes, records int64) {
	switch {
	case p.bar != nil:
		_ = p.bar.Set64(bytes) // a bar that cannot be drawn holds nothing up
	case time.Since(p.told) >= tellEvery:
		p.told = time.Now()
		fmt.Fprintf(p.w, "%s: %s so far\n", p.name, plural(records, "record"))
	}
}

// Write implements [io.Writer].
func (p *progress) Write(b []byte) (int, error) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	return p.w.Write(b)
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Exit()
		_ = p.bar.Clear()
		p.bar = nil
	}
}
