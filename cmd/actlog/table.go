package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
)

// pipeWidth is how many columns lines may take where that is not known: in a pipe, or in a file.
const pipeWidth = 100

// widthOf returns how many columns a line may take that is written to w.
func widthOf(w io.Writer) int {
	if f, ok := terminal.Raw(w).(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return pipeWidth
}

type column struct {
	head string
	// share is how much the column has of what the others leave, if the table would be too wide; 0: it is never cut.
	share int
	// optional: the column is left out if all of its cells are empty.
	optional bool
}

// table is a list whose lines fit a terminal: columns that may be cut share what is left by the others.
type table struct {
	columns []column
	rows    [][]string
}

// add adds a row, with a cell for each column.
func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// leastColumn is how narrow a column may become that is cut.
const leastColumn = 7

// gap is what stands between two columns.
const gap = "  "

// write writes the table, in lines of at most so many columns of a terminal if that is possible.
func (t *table) write(w io.Writer, width int) error {
	widths := t.widths(width)
	line := func(cells []string) error {
		var b strings.Builder
		for i, cell := range cells {
			if widths[i] == 0 {
				continue
			}
			cell = fit(cell, widths[i])
			b.WriteString(cell + strings.Repeat(" ", widths[i]-columns(cell)) + gap)
		}
		_, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
		return err
	}

	heads := make([]string, len(t.columns))
	for i, c := range t.columns {
		heads[i] = c.head
	}
	for _, cells := range append([][]string{heads}, t.rows...) {
		if err := line(cells); err != nil {
			return err
		}
	}
	return nil
}

// widths returns how wide each column is; 0: it is left out.
func (t *table) widths(width int) []int {
	widths, total := make([]int, len(t.columns)), 0
	for i, c := range t.columns {
		widest := 0
		for _, cells := range t.rows {
			widest = max(widest, columns(cells[i]))
		}
		if widest > 0 || !c.optional {
			widths[i] = max(widest, columns(c.head))
			total += widths[i] + len(gap)
		}
	}

	for total -= len(gap); total > width; total-- {
		cut := -1
		for i, c := range t.columns {
			if c.share > 0 && widths[i] > leastColumn && (cut < 0 || widths[i]*t.columns[cut].share > widths[cut]*c.share) {
				cut = i
			}
		}
		if cut < 0 {
			break
		}
		widths[cut]--
	}
	return widths
}
