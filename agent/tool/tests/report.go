package tests

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/internal/command"
)

// report is what a tool returns as JSON, and the artifact test_results.
type report struct {
	Command     []string  `json:"command"`
	Passed      bool      `json:"passed"`
	ExitCode    int       `json:"exitCode"`         // -1 if a signal ended the command
	Counts      *counts   `json:"counts,omitempty"` // if they are known
	FailedTests []failure `json:"failedTests,omitempty"`
	MoreFailed  int       `json:"moreFailed,omitempty"` // failed tests that are left out
	Coverage    *coverage `json:"coverage,omitempty"`
	Output      string    `json:"output"` // the end of it
}

type failure struct {
	Name       string `json:"name"` // as the program takes it, where that is known
	Suite      string `json:"suite,omitempty"`
	File       string `json:"file,omitempty"`
	Line       int    `json:"line,omitempty"`
	Message    string `json:"message,omitempty"`
	DurationMs int64  `json:"durationMs,omitempty"`
}

// Bounds of a report, in bytes, and of its failed tests.
const (
	maxReported    = 8 << 10
	maxFailures    = 50
	maxMessage     = 2 << 10
	minMessage     = 256 // to which messages are cut before tests are left out
	maxName        = 500
	maxReportJSON  = tool.MaxText - 4<<10
	maxFailureText = 20 << 10
)

type outcome struct {
	counts   counts
	failures []failure
	more     int
}

// add notes a test by the word for how it ended.
func (o *outcome) add(how string) { o.counts.add(how, 1) }

func (o *outcome) fail(f failure) {
	if len(o.failures) == maxFailures {
		o.more++
		return
	}

	for _, text := range []*string{&f.Name, &f.Suite, &f.File} {
		*text = tool.Cut(oneLine(*text), maxName)
	}
	f.Message = tool.Cut(strings.TrimSpace(plainText(f.Message)), maxMessage)
	o.failures = append(o.failures, f)
}

func (o *outcome) any() bool { return o != nil && (o.counts != counts{} || len(o.failures) > 0) }

func milliseconds(seconds float64) int64 {
	if seconds > 0 && seconds < float64(time.Duration(1<<62)/time.Second) {
		return int64(seconds * 1000)
	}
	return 0
}

// encode returns the report as JSON: if it is too long, with shorter messages, and then with fewer failed tests.
func (r *report) encode() (json.RawMessage, error) {
	for limit := maxMessage; ; {
		data, err := json.Marshal(r)
		if err != nil || len(data) <= maxReportJSON || len(r.FailedTests) == 0 {
			return data, err
		}

		if limit > minMessage {
			limit /= 2
			for i := range r.FailedTests {
				r.FailedTests[i].Message = tool.Cut(r.FailedTests[i].Message, limit)
			}
			continue
		}
		half := len(r.FailedTests) / 2
		r.MoreFailed += len(r.FailedTests) - half
		r.FailedTests = r.FailedTests[:half]
	}
}

func (r *report) result(output string) (tool.Result, error) {
	data, err := r.encode()
	summary := r.summary()
	text := summary + ".\n"
	if failed := r.failedText(); failed != "" {
		text += failed + "\n"
		output = command.End(output, tool.MaxText-len(text)-1<<10)
	}
	return tool.Result{
		Text: text + output, Failed: !r.Passed, Summary: summary, Data: data,
		Artifacts: []tool.Artifact{{Name: "test_results", Type: "tests", Value: data}},
	}, err
}

func (r *report) failedText() string {
	var text strings.Builder
	shown := 0
	for _, f := range r.FailedTests {
		if text.Len() > maxFailureText {
			break
		}
		text.WriteString(f.String())
		shown++
	}

	if left := len(r.FailedTests) - shown + r.MoreFailed; left > 0 {
		fmt.Fprintf(&text, "... (%d more failed)\n", left)
	}
	return text.String()
}

func (f failure) String() string {
	text := "FAILED " + f.Name
	if f.Suite != "" {
		text += " in " + f.Suite
	}

	switch {
	case f.File != "" && f.Line > 0:
		text += fmt.Sprintf(" (%s:%d)", f.File, f.Line)
	case f.File != "":
		text += fmt.Sprintf(" (%s)", f.File)
	}

	if f.Message != "" {
		text += "\n    " + strings.ReplaceAll(f.Message, "\n", "\n    ")
	}
	return text + "\n"
}

func (r *report) summary() string {
	var text string
	switch c := r.Counts; {
	case c == nil && r.Passed:
		text = "Tests passed"
	case c == nil:
		text = fmt.Sprintf("Tests failed (exit code %d)", r.ExitCode)
	case r.Passed:
		text = c.String()
	default:
		text = fmt.Sprintf("Tests failed (exit code %d): %s", r.ExitCode, c)
	}

	if r.Coverage != nil {
		text += fmt.Sprintf(", %.1f%% of the %s covered", r.Coverage.Percent, r.Coverage.Of)
	}
	return text
}
