package tests

import (
	"encoding/json"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// jestReport is what Jest writes, and Vitest.
type jestReport struct {
	Files []struct {
		Name    string `json:"name"`
		Status  string `json:"status"`
		Message string `json:"message"`
		Tests   []struct {
			Name     string    `json:"fullName"`
			Status   string    `json:"status"`
			Duration float64   `json:"duration"` // milliseconds
			Messages []string  `json:"failureMessages"`
			Location *struct { // where the test begins
				Line int `json:"line"`
			} `json:"location"`
		} `json:"assertionResults"`
	} `json:"testResults"`
}

// readJest adds what a report says about tests in the folder dir.
func (o *outcome) readJest(r io.Reader, dir string) error {
	var report jestReport
	if err := json.NewDecoder(r).Decode(&report); err != nil {
		return err
	}

	for _, file := range report.Files {
		at := below(dir, file.Name)
		if len(file.Tests) == 0 && file.Status == "failed" { // it cannot be loaded
			o.add("failed")
			o.fail(failure{Name: at, File: at, Message: file.Message})
		}

		for _, test := range file.Tests {
			switch test.Status {
			case "passed":
				o.add("passed")

			case "failed":
				o.add("failed")
				f := failure{Name: test.Name, File: at, Message: strings.Join(test.Messages, "\n"),
					DurationMs: milliseconds(test.Duration / 1000)}
				if f.Line = scriptLine(f.Message, file.Name); f.Line == 0 && test.Location != nil {
					f.Line = test.Location.Line
				}
				f.Message = beforeStack(f.Message)
				o.fail(f)

			default:
				o.add("skipped")
			}
		}
	}
	return nil
}

// scriptFrame is a line of a stack of JavaScript.
var scriptFrame = regexp.MustCompile(`(?m)^\s+at (?:.* \()?(?:file://)?([^\n]+?):(\d+):\d+\)?$`)

// scriptLine returns the line of a file that a stack names first.
func scriptLine(stack, file string) int {
	for _, frame := range scriptFrame.FindAllStringSubmatch(stack, -1) {
		if frame[1] == file {
			line, _ := strconv.Atoi(frame[2])
			return line
		}
	}
	return 0
}

// beforeStack returns a message without the lines of the program's own stack at its end.
func beforeStack(message string) string {
	if at := scriptFrame.FindStringIndex(message); at != nil && at[0] > 0 {
		return message[:at[0]]
	}
	return message
}
