package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBashCompletion runs the script in bash.
func TestBashCompletion(t *testing.T) {
	t.Parallel()
	script := must(t, "completion", "bash")
	for _, tt := range []struct {
		words []string // after the program's name
		want  string
	}{
		{
			[]string{""}, "serve work run runs agents tools models stop pause resume retry again fork try say answer event schedule migrate " +
				"ready key show list " +
				"search tail unknown mcp delete export import psql verify price config demo completion version",
		},
		{[]string{"s"}, "serve stop say schedule show search"},
		{[]string{"nothing"}, ""},
		{[]string{"migrate", ""}, "up down status"},
		{[]string{"show", "--s"}, "--search --server --step"},
		{[]string{"--log-level", "debug", "ex"}, "export"},
		{[]string{"--log-level=debug", "ex"}, "export"},
		{[]string{"migrate", "status", "--j"}, "--json"},
		{[]string{"list", "--state", "F"}, "FAILED"},
		{[]string{"list", "--state", "=", "F"}, "FAILED"}, // bash makes = a word of its own
		{[]string{"list", "--json", "--state", "C"}, "COMPLETED CANCELLED"},
		{[]string{"completion", "z"}, "zsh"},
		{[]string{"list", "--u"}, "--until --user"},
		{[]string{"delete", "--y"}, "--yes"},
		{[]string{"show", ""}, ""},
		{[]string{"run", "--orch"}, "--orchestrate"},
		{[]string{"runs", "--state", "W"}, "WAITING"},
		{[]string{"answer", "plan-1", "--decision", "re"}, "reject retry"},
	} {
		test := script + `
			COMP_WORDS=("$0" "$@") COMP_CWORD=$#
			_actlog
			echo "${COMPREPLY[*]}"`

		out, err := exec.CommandContext(t.Context(), "bash",
			append([]string{"-c", test, program0(t)}, tt.words...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", tt.words, err, out)
		}
		if diff := cmp.Diff(tt.want+"\n", string(out)); diff != "" {
			t.Errorf("tt.words = %q (-want +got):\n%s", tt.words, diff)
		}
	}
}

// TestComplete runs the command that the scripts of all shells run.
func TestComplete(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		words []string
		want  string
	}{
		{[]string{"import", "x"}, ":files\n"},
		{[]string{"export", "p", "-o", ""}, ":files\n"},
		{[]string{"list", "--state=P"}, "--state=PENDING\n--state=PAUSED\n"},
		{[]string{"list", "--nothing=P"}, ""},
		{[]string{"sh"}, "show\tShow a plan as a tree, or a step with its cycles.\n"},
		{nil, ""},
	} {
		if got := must(t, append([]string{"complete", "--"}, tt.words...)...); got != tt.want {
			t.Errorf("%q: %q", tt.words, got)
		}
	}

	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out := must(t, "completion", shell); !strings.Contains(out, "complete -- ") {
			t.Errorf("%s: %s", shell, out)
		}
	}
	if code, _, stderr := actlog(t, "completion", "tcsh"); code != exitUsage || !strings.Contains(stderr, "fish") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
