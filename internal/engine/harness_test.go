package engine_test

import (
	"testing"

	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/internal/enginetest"
	"github.com/actlog/actlog/internal/executor/thinkact"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/scriptmodel"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// build returns a house whose agents follow a script.
func build(t *testing.T, scenes []scriptmodel.Scene, agents map[string]config.Definition, tools []tool.Tool, set ...func(*engine.Config)) *enginetest.House {
	t.Helper()
	p := plans(scenes, agents, tools)
	if len(set) > 0 {
		p.Config = set[0]
	}
	return enginetest.Build(t, p)
}

// plans are those of a house whose agents follow a script.
func plans(scenes []scriptmodel.Scene, agents map[string]config.Definition, tools []tool.Tool) enginetest.Plans {
	p := enginetest.Plans{Scenes: scenes, Tools: tools, Executors: []engine.Executor{thinkact.Executor{}}, Definitions: map[string]any{}}
	for name, a := range agents {
		a.Model.Name, a.EnableWrite = "default", true
		p.Definitions["agent."+name] = a
	}
	return p
}

var (
	calls     = enginetest.Calls
	call      = enginetest.Call
	terminate = enginetest.Terminate
	text      = enginetest.Text
)

type object = enginetest.Object
