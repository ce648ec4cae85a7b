package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
)

// drawing draws a tree as it grows, on a terminal, over the tree before. It is safe for concurrent use.
type drawing struct {
	w io.Writer

	mu            sync.Mutex
	plan          *planView // that was drawn; nil: none yet, or the last one
	shown         string
	lines         int // of shown
	width, height int // of the terminal at that time
}

// watch draws the tree again whenever the terminal has changed its size. The returned function
// stops that.
func (d *drawing) watch() (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	if len(sizeSignals) > 0 { // without a name, all signals would be meant
		signal.Notify(signals, sizeSignals...)
	}

	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-signals:
				d.resized()
			}
		}
	})

	return func() {
		signal.Stop(signals)
		close(done)
		watch.Wait()
	}
}

func (d *drawing) resized() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.plan != nil {
		d.width = 0
		d.drawLocked(d.plan, false)
	}
}

// draw draws a tree. The last drawing has all its lines, even if it is higher than the terminal.
func (d *drawing) draw(p *planView, last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drawLocked(p, last)
	if d.plan = p; last {
		d.plan = nil
	}
}

func (d *drawing) drawLocked(p *planView, last bool) {
	var b bytes.Buffer
	v := &view{w: terminal.Coloured(&b), colour: hasColour(d.w), now: time.Now()}
	v.plan(p)
	d.replace(b.String(), v.lines, last)
}

// replace draws over what the terminal shows.
func (d *drawing) replace(drawn string, lines int, last bool) {
	width, height := d.size()
	if !last && lines >= height {
		drawn, lines = bottom(drawn, height-1), height-1 // the cursor cannot return to lines above the screen
	}

	var fitted strings.Builder
	for line := range strings.Lines(drawn) {
		fitted.WriteString(fit(strings.TrimSuffix(line, "\n"), width) + "\n")
	}
	drawn = fitted.String()

	clearing := strings.Repeat("\x1b[1A\x1b[2K", d.lines)
	switch {
	case d.lines > 0 && (width != d.width || height != d.height):
		clearing = "\x1b[H\x1b[2J" // the terminal may have wrapped the lines, so nobody knows how many there are
	case drawn == d.shown:
		return
	}

	// Wrapping is off, in case the terminal finds a character wider than it is.
	fmt.Fprintf(d.w, "%s\x1b[?7l%s\x1b[?7h", clearing, drawn)
	d.shown, d.lines = drawn, lines
	d.width, d.height = width, height
}

func (d *drawing) size() (width, height int) {
	if f, ok := d.w.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 1 {
			return width, height
		}
	}
	return 80, 24
}

func bottom(s string, lines int) string {
	all := strings.SplitAfter(strings.TrimSuffix(s, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "") + "\n"
}
