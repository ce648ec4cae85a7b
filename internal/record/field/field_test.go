package field_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestPlacesOfFields checks that no field moves within the stored revisions of a row. A new
// field comes after the others of its kind.
func TestPlacesOfFields(t *testing.T) {
	t.Parallel()
	const golden = "testdata/fields.golden"
	places := map[record.Kind][]string{}
	var text strings.Builder
	for _, kind := range record.Kinds {
		lines := make([]string, field.Revisions(kind))
		for _, f := range field.Fields(kind) {
			if f.Rev == 0 {
				continue
			}
			if lines[f.Rev-1] != "" {
				t.Errorf("%s has two fields at place %d", kind, f.Rev)
			}
			lines[f.Rev-1] = fmt.Sprintf("%s %d %s", kind, f.Rev, f.Name)
		}

		places[kind] = lines
		text.WriteString(strings.Join(lines, "\n") + "\n")
	}

	if *update {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}

	for line := range strings.Lines(string(want)) {
		line = strings.TrimSpace(line)
		kind, _, _ := strings.Cut(line, " ")
		if !slices.Contains(places[record.Kind(kind)], line) {
			t.Errorf("%q has moved: its stored revisions would count for another field", line)
		}
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("if a field was added, run with -update (-golden +now):\n%s", diff)
	}
}

// TestStatementsCanNameEveryField checks that no kind has more than MaxFields fields.
func TestStatementsCanNameEveryField(t *testing.T) {
	t.Parallel()
	for _, kind := range record.Kinds {
		if n := len(field.Fields(kind)); n > field.MaxFields {
			t.Errorf("%s has %d fields", kind, n)
		}
	}
}
