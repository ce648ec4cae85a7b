package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestProgressOnTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{w: &out, terminal: true}

	p.begin("runs.ndjson", 1000)
	p.at(500, 5)
	fmt.Fprintln(p, "runs.ndjson:3: malformed: no")
	p.at(1000, 10)
	p.begin("stdin", -1)
	p.at(70, 7)
	p.end()

	drawn := out.String()
	for _, want := range []string{"runs.ndjson   0% |", "\rruns.ndjson:3: malformed: no\n", "stdin"} {
		if !strings.Contains(drawn, want) {
			t.Errorf("no %q in %q", want, drawn)
		}
	}
	if last := drawn[strings.LastIndex(strings.TrimRight(drawn, "\r"), "\r")+1:]; strings.TrimSpace(last) != "" {
		t.Errorf("%q is left on the screen", last)
	}
}

func TestProgressWithoutTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newProgress(&out)

	p.begin("runs.ndjson", 1000)
	p.at(500, 5)
	p.reported = p.reported.Add(-reportEvery)
	p.at(800, 1234)
	p.at(900, 1300)
	if time.Since(p.reported) < reportEvery && out.String() != "runs.ndjson: 1,234 records so far\n" {
		t.Errorf("out.String() = %q", out.String())
	}
	p.end()
}
