package tests

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// event is a line of go test -json.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

// Bounds of what is kept of tests that have not ended.
const (
	maxLine     = 1 << 20  // bytes of a line
	maxKept     = 8 << 10  // bytes of the output of a test
	maxRunning  = 2000     // tests
	maxPackages = 10_000   // tests and packages in which some failed
	maxModule   = 64 << 10 // bytes of go.mod
)

// goEvents reads the lines of go test -json as they are written, and passes on what go test would have written
// without -json: of tests that pass nothing, unless verbose.
type goEvents struct {
	outcome
	out     io.Writer
	verbose bool
	dir     string // of the module
	module  string

	line   []byte
	skip   bool // the line is too long
	texts  map[[2]string]*bytes.Buffer
	failed map[[2]string]bool // tests of which a test below failed, and packages of which a test failed
}

func newGoEvents(out io.Writer, dir string, verbose bool) *goEvents {
	return &goEvents{
		out: out, verbose: verbose, dir: dir, module: moduleOf(dir), texts: map[[2]string]*bytes.Buffer{},
		failed: map[[2]string]bool{},
	}
}

// Write implements [io.Writer].
func (g *goEvents) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		if g.skip = g.skip || len(g.line)+len(line) > maxLine; g.skip {
			g.line = nil
		} else {
			g.line = append(g.line, line...)
		}

		if !ended {
			return n, nil
		}
		g.end("\n")
		b = rest
	}
}

// end reads the line that was written, which ends so.
func (g *goEvents) end(with string) {
	line, skipped := g.line, g.skip
	g.line, g.skip = nil, false
	if skipped {
		return
	}

	var e event
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &e) != nil || e.Action == "" {
		g.pass(string(line) + with)
		return
	}
	g.event(e)
}

func (g *goEvents) pass(text string) { _, _ = io.WriteString(g.out, text) } // to memory

func (g *goEvents) event(e event) {
	key := [2]string{e.Package, e.Test}
	switch e.Action {
	case "output":
		g.output(key, e.Output)
	case "build-output":
		packageOf, _, _ := strings.Cut(e.ImportPath, " ")
		g.keep([2]string{packageOf, ""}, e.Output)
		g.pass(e.Output)

	case "pass", "skip":
		if e.Test != "" {
			g.add(map[string]string{"pass": "passed", "skip": "skipped"}[e.Action])
		}
		delete(g.texts, key)
	case "fail":
		g.failure(key, e.Elapsed)
	}
}

// output keeps what a test writes until it is known how the test ends, and passes on what a package writes.
func (g *goEvents) output(key [2]string, text string) {
	if key[1] == "" || g.verbose {
		g.pass(text)
	}

	if framing.MatchString(text) {
		if key[1] != "" && strings.Contains(text, "--- FAIL") && !g.verbose {
			g.pass(text)
		}
		return
	}
	g.keep(key, text)
}

// framing are lines that go test writes itself.
var framing = regexp.MustCompile(
	`^\s*(=== (RUN|PAUSE|CONT|NAME)|--- (FAIL|PASS|SKIP):|FAIL\b|PASS\b|ok\s|coverage:|exit status )`,
)

func (g *goEvents) keep(key [2]string, text string) {
	kept := g.texts[key]
	if kept == nil {
		if len(g.texts) == maxRunning {
			return
		}
		kept = &bytes.Buffer{}
		g.texts[key] = kept
	}
	kept.WriteString(text[:min(len(text), maxKept-kept.Len())])
}

// failure notes that a test, or a package, failed. One that failed only because of what is in it is left out of the
// list.
func (g *goEvents) failure(key [2]string, seconds float64) {
	text := ""
	if kept := g.texts[key]; kept != nil {
		text = kept.String()
	}
	delete(g.texts, key)
	inner := g.failed[key]
	delete(g.failed, key)
	if key[1] != "" && len(g.failed) < maxPackages {
		g.failed[[2]string{key[0], ""}] = true
		if above := strings.LastIndexByte(key[1], '/'); above > 0 {
			g.failed[[2]string{key[0], key[1][:above]}] = true
		}
	}

	if key[1] != "" {
		g.add("failed")
		if !g.verbose {
			g.pass(text)
		}
	}

	f := failure{Name: key[1], Suite: key[0], Message: text, DurationMs: milliseconds(seconds)}
	f.File, f.Line = g.place(key[0], text)
	if inner && (key[1] == "" || f.Line == 0) {
		return
	}
	if key[1] == "" { // it cannot be built, or ended before its tests did
		f.Name = key[0]
		f.Suite = ""
		g.add("failed")
	}
	g.fail(f)
}

var (
	goPlace  = regexp.MustCompile(`(?m)^\s*([\w./-]+\.go):(\d+):`)
	goFrame  = regexp.MustCompile(`(?m)^\t(.*_test\.go):(\d+) \+0x`)
	goModule = regexp.MustCompile(`(?m)^module\s+(\S+)`)
)

// place returns the file and the line that the output of a failed test names: the last one, as what is logged is in
// front of it, and of a panic the first one of a test.
func (g *goEvents) place(packageName, text string) (file string, line int) {
	if frame := goFrame.FindStringSubmatch(text); frame != nil {
		line, _ = strconv.Atoi(frame[2])
		return below(g.dir, frame[1]), line
	}

	all := goPlace.FindAllStringSubmatch(text, -1)
	if all == nil {
		return "", 0
	}

	last := all[len(all)-1]
	line, _ = strconv.Atoi(last[2])
	if strings.Contains(last[1], "/") { // of the compiler
		return below(g.dir, last[1]), line
	}
	if inside, ok := strings.CutPrefix(packageName+"/", g.module+"/"); ok && g.module != "" {
		return path.Join(inside, last[1]), line
	}
	return last[1], line
}

// moduleOf returns the path of the Go module in a folder, or "".
func moduleOf(dir string) string {
	file, err := os.OpenInRoot(dir, "go.mod")
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}

	text, err := io.ReadAll(io.LimitReader(file, maxModule))
	if err != nil {
		return ""
	}
	if found := goModule.FindSubmatch(text); found != nil {
		return string(bytes.Trim(found[1], `"`))
	}
	return ""
}

func isVerbose(command []string) bool {
	return slices.ContainsFunc(command, func(each string) bool {
		return slices.Contains([]string{"-v", "-v=true", "-test.v"}, each)
	})
}
