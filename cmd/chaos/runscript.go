//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/scriptmodel"
)

// arguments are those of a tool call.
type arguments = map[string]any

// city is what the form of each run is answered with.
const city = "Oslo"

// journey is the script of the runs: parallel calls, an approval, a form, and agents three deep. What an
// agent answers is made of the results that it was told, so a result that is lost or doubled shows.
func journey(delay time.Duration) scriptmodel.Script {
	call := func(name string, a arguments) scriptmodel.ToolCall {
		return scriptmodel.ToolCall{Name: name, Arguments: a}
	}
	do := func(calls ...scriptmodel.ToolCall) scriptmodel.Turn { return scriptmodel.Turn{ToolCalls: calls} }
	// done answers with some of the results so far.
	done := func(who string, of ...int) scriptmodel.Turn {
		return scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
			results := r.ToolResults()
			told := make([]string, len(of))
			for i, n := range of {
				if n >= len(results) {
					return scriptmodel.Turn{}, fmt.Errorf("%s has %d results", who, len(results))
				}
				told[i] = results[n].Content
			}
			return do(call("terminate", arguments{"message": who + "(" + strings.Join(told, "; ") + ")"})), nil
		}}
	}
	return scriptmodel.Script{Delay: scriptmodel.Duration(delay), Scenes: []scriptmodel.Scene{
		{Name: "deep", Match: scriptmodel.Match{System: "You are deep."}, Turns: []scriptmodel.Turn{
			do(call("tools-once", arguments{"name": "d"}), call("tools-again", arguments{"name": "e"})), done("deep", 1),
		}},
		{Name: "child", Match: scriptmodel.Match{System: "You are a child."}, Turns: []scriptmodel.Turn{
			do(call("agent-deep", arguments{"request": "Go on."}), call("tools-again", arguments{"name": "c"})), done("child", 0, 1),
		}},
		{Name: "root", Match: scriptmodel.Match{System: "You are the root."}, Turns: []scriptmodel.Turn{
			do(call("tools-once", arguments{"name": "a"}), call("tools-again", arguments{"name": "b"}), call("tools-once", arguments{"name": "c"})),
			do(call("tools-pay", arguments{"name": "p"})),
			do(call("form", arguments{"title": "Where?", "inputs": []arguments{{"label": "City", "name": "city", "required": true}}})),
			do(call("agent-child", arguments{"request": "Help."}), call("agent-child", arguments{"request": "Help, too."})),
			done("root", 1, 4, 5, 6),
		}},
	}}
}

// journeyConfig is the configuration of the server and the workers: the model and the tools are of this
// program.
func journeyConfig(modelURL, self, effects string) string {
	return fmt.Sprintf(`
models:
  default: {provider: openai, model: scripted, baseURL: %q, apiKey: none}
mcpServers:
  tools: {command: [%q], env: {%s: %q}, timeout: 30s}
policies:
  - {tools: tools-again, onUnknown: retry}
  - {tools: tools-pay, approval: true}
agents:
  root: {systemPrompt: You are the root., tools: [tools-once, tools-again, tools-pay, form, agent.child], waitTimeout: 24h}
  child: {systemPrompt: You are a child., tools: [agent.deep, tools-again]}
  deep: {systemPrompt: You are deep., tools: [tools-once, tools-again]}
`, modelURL, self, beTools, effects)
}
