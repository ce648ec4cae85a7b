package engine_test

import (
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// build returns a house whose agents follow a script.
func build(
	t *testing.T, scenes []scriptmodel.Scene, agents map[string]define.Definition, tools []tool.Tool,
	set ...func(*engine.Config),
) *enginetest.House {
	t.Helper()
	p := enginetest.Plans{
		Scenes: scenes, Tools: tools, Executors: []engine.Executor{thinkact.Executor{}}, Definitions: map[string]any{},
	}
	for name, a := range agents {
		a.Model.Name, a.EnableWrite = "default", true
		p.Definitions["agent."+name] = a
	}
	if len(set) > 0 {
		p.Config = set[0]
	}
	return enginetest.Build(t, p)
}

var (
	calls     = enginetest.Calls
	call      = enginetest.Call
	terminate = enginetest.Terminate
	text      = enginetest.Text
)

type object = enginetest.Object
