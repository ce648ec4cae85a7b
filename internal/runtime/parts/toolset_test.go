package parts_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/config"
)

// TestToolsetThatIsNotLinked checks that a program without a heavy toolset, such as this one, says what to import when
// its configuration names it.
func TestToolsetThatIsNotLinked(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "actlog.yaml")
	c, err := config.Parse(file, []byte("toolsets: {code: {}}\n"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}

	parts, err := c.Open()
	const want = `toolsets.code: this program does not have the toolset code; ` +
		`add it to the program with: import _ "github.com/actlog/actlog/agent/tool/code"`
	if parts != nil || !errors.Is(err, tool.ErrNoToolset) || err.Error() != want {
		t.Errorf("c.Open() = %v, want %s", err, want)
	}
}
