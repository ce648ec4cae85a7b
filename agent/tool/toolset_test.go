package tool_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
)

type fakeToolset struct{ tool.Opening }

func (fakeToolset) Close() error       { return nil }
func (fakeToolset) Tools() []tool.Tool { return nil }

// A toolset is opened by its name with what the configuration says. Who does not have it learns what to import.
func TestToolsets(t *testing.T) {
	t.Parallel()
	open := func(o tool.Opening) (tool.Toolset, error) { return fakeToolset{o}, nil }
	tool.RegisterToolset("fake", open)
	opened, err := tool.OpenToolset("fake", tool.Opening{Options: json.RawMessage(`{"a":1}`), Hide: []string{"/x"}})
	if f, ok := opened.(fakeToolset); err != nil || !ok || string(f.Options) != `{"a":1}` || len(f.Hide) != 1 {
		t.Errorf("opened = %+v %v", opened, err)
	}

	_, err = tool.OpenToolset("code", tool.Opening{})
	if !errors.Is(err, tool.ErrNoToolset) ||
		!strings.HasSuffix(err.Error(),
			`toolset code; add it to the program with: import _ "github.com/actlog/actlog/agent/tool/code"`) {
		t.Error(err)
	}

	for name, open := range map[string]func(tool.Opening) (tool.Toolset, error){"fake": open, "": open, "none": nil} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was registered", name)
				}
			}()
			tool.RegisterToolset(name, open)
		}()
	}
}
