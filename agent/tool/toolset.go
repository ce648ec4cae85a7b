package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Toolset is tools that share something which is open, for example a folder. After Close they fail.
type Toolset interface {
	io.Closer
	Tools() []Tool
}

// Opening is what a toolset is opened with.
type Opening struct {
	// Options is what the configuration says about the toolset, as a JSON object. It has all its keys, with their
	// defaults, and secrets as they are: it belongs into no log and no error.
	Options json.RawMessage
	// Hide are absolute paths of files and folders of this machine that the tools must neither read nor write, whatever
	// the options say: those of the server.
	Hide []string
}

// ErrNoToolset says that the program does not have a toolset.
var ErrNoToolset = errors.New("this program does not have the toolset")

var toolsets = struct {
	sync.Mutex
	open map[string]func(Opening) (Toolset, error)
}{open: map[string]func(Opening) (Toolset, error){}}

// RegisterToolset makes a toolset available to configurations, by its name in their section toolsets. Packages of
// toolsets with heavy dependencies call it in their init, so that only programs that import them are built with what
// they need. It panics if the name is empty or taken, as drivers of database/sql do.
func RegisterToolset(name string, open func(Opening) (Toolset, error)) {
	toolsets.Lock()
	defer toolsets.Unlock()
	if name == "" || open == nil || toolsets.open[name] != nil {
		panic(fmt.Sprintf("tool: toolset %q is registered twice, or is none", name))
	}

	toolsets.open[name] = open
}

// OpenToolset opens a registered toolset. If the program does not have it, the error is ErrNoToolset and says what to
// import.
func OpenToolset(name string, o Opening) (Toolset, error) {
	toolsets.Lock()
	open := toolsets.open[name]
	toolsets.Unlock()
	if open == nil {
		return nil, fmt.Errorf("%w %s; add it to the program with: import _ %q", ErrNoToolset, name, toolsetFolder+name)
	}
	return open(o)
}

// toolsetFolder has the packages that register a toolset, each under its name.
const toolsetFolder = "github.com/actlog/actlog/agent/tool/"
