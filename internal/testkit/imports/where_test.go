package imports

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestWhereIs checks that docs/development.md leads to lines that exist.
func TestWhereIs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/development.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Where is ...\n")
	section, _, _ = strings.Cut(section, "\n## ")

	rows := regexp.MustCompile("(?m)^\\| (.+) \\| `([^`]+)` \\| `([^`]+)` \\|$").FindAllStringSubmatch(section, -1)
	if len(rows) != 10 {
		t.Errorf("the table has %d rows, want 10", len(rows))
	}
	for _, row := range rows {
		text, err := os.ReadFile("../../../" + row[2])
		if err != nil || !strings.Contains(string(text), row[3]) {
			t.Errorf("%s: %s has no %q: %v", row[1], row[2], row[3], err)
		}
	}
}
