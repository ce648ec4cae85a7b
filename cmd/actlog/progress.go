package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/view/words"
)

// progress shows how far an import is: on a terminal as a bar, elsewhere as a line from time
// to time. What is written to it appears above the bar.
type progress struct {
	w        io.Writer
	terminal bool
	name     string
	bar      *progressbar.ProgressBar // nil: none is shown
	reported time.Time                // when the last line was written
}

// reportEvery is the least time between two lines.
const reportEvery = 10 * time.Second

func newProgress(w io.Writer) *progress { return &progress{w: w, terminal: isTerminal(w)} }

// begin starts a file of a size in bytes; -1: unknown.
func (p *progress) begin(name string, size int64) {
	p.end()
	p.name, p.reported = name, time.Now()
	if p.terminal {
		p.bar = progressbar.NewOptions64(size,
			progressbar.OptionSetWriter(terminal.Raw(p.w)), progressbar.OptionSetDescription(terminal.Line(name)),
			progressbar.OptionShowBytes(true),
			progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionSetRenderBlankState(true),
			progressbar.OptionSetPredictTime(size > 0))
	}
}

// at reports how many bytes and records are done.
func (p *progress) at(bytes, records int64) {
	switch {
	case p.bar != nil:
		_ = p.bar.Set64(bytes) // the import does not depend on the bar
	case time.Since(p.reported) >= reportEvery:
		p.reported = time.Now()
		fmt.Fprintf(p.w, "%s: %s so far\n", terminal.Line(p.name), words.Plural(records, "record"))
	}
}

func (p *progress) Write(b []byte) (int, error) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	return p.w.Write(b)
}

// end removes the bar.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Exit()
		_ = p.bar.Clear()
		p.bar = nil
	}
}
