package tests

import (
	"bufio"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// coverage is how much of the code the tests reach.
type coverage struct {
	Percent float64       `json:"percent"`
	Of      string        `json:"of"`              // statements or lines
	Files   []fileCovered `json:"files,omitempty"` // the least covered ones first
	More    int           `json:"moreFiles,omitempty"`
}

type fileCovered struct {
	File    string  `json:"file"`
	Percent float64 `json:"percent"`
}

// The files into which programs write coverage, in the folder that they are given.
const (
	goProfile     = "cover.out"
	coberturaFile = "coverage.xml"
	jestSummary   = "coverage/coverage-summary.json"
)

const (
	maxCovered     = 30      // files in a report
	maxCoveredName = 200     // bytes
	maxBlocks      = 500_000 // parts of Go files
)

type share struct{ part, whole float64 }

func (s share) percent() float64 {
	if s.whole <= 0 {
		return 100
	}
	return math.Round(1000*min(max(s.part/s.whole, 0), 1)) / 10
}

// summarize returns the coverage of files by their names.
func summarize(of string, files map[string]share) *coverage {
	c := &coverage{Of: of}
	var all share
	for name, each := range files {
		all.part, all.whole = all.part+each.part, all.whole+each.whole
		c.Files = append(c.Files,
			fileCovered{oneLine(strings.ToValidUTF8(name[:min(len(name), maxCoveredName)], "")), each.percent()})
	}

	c.Percent = all.percent()
	slices.SortFunc(c.Files, func(a, b fileCovered) int {
		return cmp.Or(cmp.Compare(a.Percent, b.Percent), cmp.Compare(a.File, b.File))
	})
	if more := len(c.Files) - maxCovered; more > 0 {
		c.Files, c.More = c.Files[:maxCovered], more
	}
	return c
}

// readGoProfile reads a profile of go test: lines such as "a/a.go:5.31,6.14 1 1". A part of a file may be there
// several times.
func readGoProfile(r io.Reader) (*coverage, error) {
	type block struct {
		file       string
		statements float64
		reached    bool
	}

	blocks := map[string]block{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		at, numbers, ok := strings.Cut(lines.Text(), " ")
		statements, times, both := strings.Cut(numbers, " ")
		colon := strings.LastIndexByte(at, ':')
		n, err := strconv.Atoi(statements)
		if !ok || !both || colon < 0 || err != nil || n < 0 || len(blocks) == maxBlocks {
			continue // such as the first one
		}
		blocks[at] = block{at[:colon], float64(n), blocks[at].reached || times != "0"}
	}
	if len(blocks) == 0 {
		return nil, cmp.Or(lines.Err(), errors.New("no coverage"))
	}

	files := map[string]share{}
	for _, b := range blocks {
		s := files[b.file]
		s.whole += b.statements
		if b.reached {
			s.part += b.statements
		}
		files[b.file] = s
	}
	return summarize("statements", files), lines.Err()
}

// readCobertura reads the report of coverage.py and others.
func readCobertura(r io.Reader) (*coverage, error) {
	d := xml.NewDecoder(r)
	files := map[string]share{}
	file := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) && len(files) > 0 {
			return summarize("lines", files), nil
		}
		if err != nil {
			return nil, err
		}

		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch start.Name.Local {
		case "class":
			file = attribute(start, "filename")
		case "line":
			s := files[file]
			s.whole++
			if hits := attribute(start, "hits"); hits != "" && hits != "0" {
				s.part++
			}
			files[file] = s
		}
	}
}

func attribute(of xml.StartElement, name string) string {
	for _, each := range of.Attr {
		if each.Name.Local == name {
			return each.Value
		}
	}
	return ""
}

// readJestSummary reads the summary of Istanbul about files in the folder dir.
func readJestSummary(r io.Reader, dir string) (*coverage, error) {
	var summary map[string]struct {
		Lines struct{ Total, Covered float64 }
	}
	if err := json.NewDecoder(r).Decode(&summary); err != nil {
		return nil, err
	}

	files := map[string]share{}
	for name, each := range summary {
		if name != "total" {
			files[below(dir, name)] = share{each.Lines.Covered, each.Lines.Total}
		}
	}
	return summarize("lines", files), nil
}
