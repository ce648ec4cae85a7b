package main

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// demoQuestion is what the agent of the demo is asked. The script answers any question, and this one well.
const demoQuestion = "Which product do customers send back most, and why?"

// stuckAfter is how many events of an answer arrive before it gets stuck.
const stuckAfter = 5

// demoScript leads the agents of the demo through the files of the shop. The tools are real. The first answer
// about the cause gets stuck in its middle, and stuck is called before: only a repetition of the call
// completes it.
func demoScript(pace time.Duration, stuck func()) scriptmodel.Script {
	chunks := scriptmodel.Duration(pace / 4)
	says := func(text string, calls ...scriptmodel.ToolCall) scriptmodel.Turn {
		return scriptmodel.Turn{Content: text, ToolCalls: calls, ChunkDelay: chunks}
	}
	call := func(name string, arguments map[string]string) scriptmodel.ToolCall {
		return scriptmodel.ToolCall{Name: name, Arguments: arguments}
	}

	var was atomic.Bool
	cause := says("Four notes are about lamps. Three of them say that the shade broke on the way. I check how lamps "+
		"are packed.",
		call("files-read_file", map[string]string{"path": "packing.md"}))

	return scriptmodel.Script{
		Delay: scriptmodel.Duration(pace),
		Scenes: []scriptmodel.Scene{
			{Name: "researcher", Match: scriptmodel.Match{System: "You look up one thing"}, Turns: []scriptmodel.Turn{
				says("The notes about returns should tell.",
					call("files-search_in_files", map[string]string{"pattern": "(?i)lamp", "include": "*.md"})),
				{Reply: func(context.Context, *scriptmodel.Request) (scriptmodel.Turn, error) {
					turn := cause
					if !was.Swap(true) {
						turn.Break = &scriptmodel.Break{After: stuckAfter, Then: "hang"}
						stuck()
					}
					return turn, nil
				}},
				says("", call("terminate", map[string]string{
					"message": "The shades break on the way: since March, lamps are packed in single cardboard without foam " +
						"(returns.md, packing.md).",
				})),
			}},
			{Name: "analyst", Turns: []scriptmodel.Turn{
				says("I look at what there is.", call("files-list_files", map[string]string{})),
				says("The orders give the numbers. The researcher finds the cause meanwhile.",
					call("files-read_file", map[string]string{"path": "orders.csv"}),
					call("agent-researcher", map[string]string{"request": "Why do customers send lamps back?"})),
				says("I write this down for the team.",
					call("files-write_file", map[string]string{
						"path": "report.md", "content": "# Returns\n\nLamps: 31 of 210. Their shades break on the way.\n" +
							"Pack them in double cardboard with foam, as everything else.\n",
					})),
				{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
					report := "report.md was not written: nobody allowed it."
					for _, result := range r.ToolResults() {
						if strings.HasPrefix(result.Content, "Wrote") {
							report = "report.md has it for the team."
						}
					}
					return says("", call("terminate",
						map[string]string{
							"message": "Lamps: 31 of 210 came back. Their shades break on the way, because lamps are packed in single " +
								"cardboard without foam\nsince March. " + report,
						})), nil
				}},
			}},
		},
	}
}
