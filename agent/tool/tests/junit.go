package tests

import (
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// testCase is a test in a report of JUnit's form.
type testCase struct {
	Name    string    `xml:"name,attr"`
	Class   string    `xml:"classname,attr"`
	File    string    `xml:"file,attr"`
	Line    string    `xml:"line,attr"`
	Time    string    `xml:"time,attr"`
	Failure *badCase  `xml:"failure"`
	Error   *badCase  `xml:"error"`
	Skipped *struct{} `xml:"skipped"`
}

type badCase struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// maxDepth bounds how deep suites are in each other in a report.
const maxDepth = 50

// readJUnit adds what a report says. What was read before an error stays: a program that was killed leaves half a
// report.
func (o *outcome) readJUnit(r io.Reader) error {
	d := xml.NewDecoder(r)
	// invalid UTF-8 is an error of its own
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }

	for depth := 0; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}

		switch t := token.(type) {
		case xml.EndElement: // of a suite: DecodeElement has read the end of a test case
			depth--

		case xml.StartElement:
			if t.Name.Local != "testcase" {
				if depth++; depth > maxDepth {
					return errors.New("too deep")
				}
				continue
			}

			var c testCase
			if err := d.DecodeElement(&c, &t); err != nil {
				return err
			}
			o.addCase(c)
		}
	}
}

func (o *outcome) addCase(c testCase) {
	switch bad := cmp.Or(c.Failure, c.Error); {
	case bad != nil:
		o.add("failed")
		o.fail(c.failure(*bad))
	case c.Skipped != nil:
		o.add("skipped")
	default:
		o.add("passed")
	}
}

func (c testCase) failure(bad badCase) failure {
	seconds, _ := strconv.ParseFloat(c.Time, 64)
	f := failure{
		Name: c.Name, Suite: c.Class, File: c.File, Message: cmp.Or(bad.Message, bad.Text), DurationMs: milliseconds(seconds),
	}
	if strings.HasSuffix(c.File, ".py") {
		f.Name, f.Suite = c.node(), ""
		f.Line = c.pythonLine(bad)
		return f
	}

	f.Line, _ = strconv.Atoi(c.Line)
	if at := c.frame(bad.Text); at != nil {
		f.Name, f.Suite = c.Class+"#"+c.Name, "" // as Maven takes it
		f.File = at[1]
		f.Line, _ = strconv.Atoi(at[2])
	}
	return f
}

// node returns the name of a test as pytest has it, such as tests/test_a.py::TestX::test_y.
func (c testCase) node() string {
	module := strings.ReplaceAll(strings.TrimSuffix(c.File, ".py"), "/", ".")
	if c.Name == module { // the file itself
		return c.File
	}
	class := strings.TrimPrefix(strings.TrimPrefix(c.Class, module), ".")
	return strings.Join(strings.FieldsFunc(c.File+"\x00"+strings.ReplaceAll(class, ".", "\x00")+"\x00"+c.Name,
		func(r rune) bool { return r == 0 }), "::")
}

// pythonPlace is a line of a traceback, such as "tests/test_a.py:13: ".
var pythonPlace = regexp.MustCompile(`(?m)^(?:.*/)?([^\s:/]+\.py):(\d+)(?::|$)`)

// pythonLine returns the line of the file of the test that failed: the last one that a traceback names. Else it is
// where the test begins.
func (c testCase) pythonLine(bad badCase) int {
	line := 0
	for _, place := range pythonPlace.FindAllStringSubmatch(bad.Text, -1) {
		if place[1] == path.Base(c.File) {
			line, _ = strconv.Atoi(place[2])
		}
	}

	if begin, err := strconv.Atoi(c.Line); line == 0 && err == nil {
		line = begin + 1 // pytest counts from 0
	}
	return line
}

// javaFrame is a line of a stack of Java, such as "at com.example.ShopTest.wrong(ShopTest.java:16)".
var javaFrame = regexp.MustCompile(`(?m)^\s*at ([\w.$/]+)\(([\w$]+\.(?:java|kt|groovy|scala)):(\d+)\)`)

// frame returns the file and the line of the class of the test in a stack: the deepest one.
func (c testCase) frame(stack string) []string {
	for _, frame := range javaFrame.FindAllStringSubmatch(stack, -1) {
		if strings.HasPrefix(frame[1], c.Class+".") {
			return []string{frame[0], frame[2], frame[3]}
		}
	}
	return nil
}
