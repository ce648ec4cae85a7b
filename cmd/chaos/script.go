//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/scriptmodel"
)

type object map[string]any

// agentScript is an agent and what the model does as that agent: rounds of tool calls, then its answer.
type agentScript struct {
	name   string
	rounds [][]scriptmodel.ToolCall
}

func use(tool, item string) scriptmodel.ToolCall {
	return scriptmodel.ToolCall{Name: toolServer + "-" + tool, Arguments: object{"item": item}}
}

func delegate(agent, request string) scriptmodel.ToolCall {
	return scriptmodel.ToolCall{Name: model.OfferedName("agent." + agent), Arguments: object{"request": request}}
}

// city is what the driver fills in.
const city = "Oslo"

var askCity = scriptmodel.ToolCall{Name: "form", Arguments: object{"title": "Which city?", "inputs": []object{{"label": "City", "name": "city"}}}}

// refused is the item of calls that the driver does not approve.
const refused = "refused"

// kinds are the agents of the runs that are compared. The others are below them.
var kinds = []string{"wide", "careful", "asking", "deep", "long", "all", "pair"}

var agentScripts = []agentScript{
	{"wide", [][]scriptmodel.ToolCall{{use(toolPay, "a"), use(toolAgain, "b"), use(toolJudge, "c"), use(toolPay, "d")}, {use(toolAgain, "e"), use(toolPay, "f")}}},
	{"careful", [][]scriptmodel.ToolCall{{use(toolApprove, "a")}, {use(toolApprove, refused), use(toolPay, "b")}}},
	{"asking", [][]scriptmodel.ToolCall{{use(toolAgain, "a")}, {askCity}, {use(toolPay, "b"), use(toolJudge, "c")}}},
	{"deep", [][]scriptmodel.ToolCall{{delegate("middle", "First."), delegate("middle", "Second."), use(toolPay, "a")}, {use(toolAgain, "b")}}},
	{"long", [][]scriptmodel.ToolCall{{use(toolPay, "a")}, {use(toolAgain, "b")}, {use(toolJudge, "c")}, {use(toolPay, "d")}, {use(toolAgain, "e")}, {use(toolPay, "f")}}},
	{"all", [][]scriptmodel.ToolCall{{use(toolPay, "a"), use(toolAgain, "b")}, {use(toolApprove, "c")}, {askCity}, {delegate("middle", "Go."), delegate("asker", "Ask.")}}},
	{"pair", [][]scriptmodel.ToolCall{{delegate("asker", "Ask."), delegate("asker", "Ask, too.")}}}, // forms are shown one after the other
	{"middle", [][]scriptmodel.ToolCall{{delegate("bottom", "Go on."), use(toolAgain, "m")}}},
	{"bottom", [][]scriptmodel.ToolCall{{use(toolPay, "x"), use(toolJudge, "y")}, {use(toolPay, "z")}}},
	{"asker", [][]scriptmodel.ToolCall{{askCity}, {use(toolPay, "q")}}},
}

// script returns the script of the model. An agent's answer tells the results of all its tool calls, so
// that the answer of a run says whether its conversation was as it must be.
func script() scriptmodel.Script {
	s := scriptmodel.Script{Delay: scriptmodel.Duration(500 * time.Millisecond)}
	for _, a := range agentScripts {
		scene := scriptmodel.Scene{Name: a.name, Match: scriptmodel.Match{System: prompt(a.name)}}
		for n, round := range a.rounds {
			scene.Turns = append(scene.Turns, scriptmodel.Turn{ToolCalls: round, Delay: scriptmodel.Duration(time.Duration(300+300*(n%4)) * time.Millisecond)})
		}
		scene.Turns = append(scene.Turns, scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
			answer := a.name + " has " + strings.Join(resultsIn(r), ", ")
			return scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{{Name: "terminate", Arguments: object{"message": answer}}}}, nil
		}})
		s.Scenes = append(s.Scenes, scene)
	}
	return s
}

func prompt(agent string) string { return "You are the agent <" + agent + ">." }

// resultsIn returns the results of the tool calls of a conversation, in the order of the calls. A result
// that got lost with a worker counts as the one that it would have been.
func resultsIn(r *scriptmodel.Request) (results []string) {
	at := map[string]int{}
	var all []scriptmodel.Call
	for _, m := range r.Messages {
		for _, c := range m.ToolCalls {
			at[c.ID] = len(all)
			all, results = append(all, c), append(results, "(no result)")
		}
		if i, ok := at[m.ToolCallID]; ok && m.Role == "tool" {
			results[i] = meant(strings.TrimPrefix(all[i].Function.Name, toolServer+"-"), all[i].Function.Arguments, string(m.Content))
		}
	}
	return results
}

// The results of calls that got lost begin so.
const (
	lostResult      = "The outcome of this call is unknown"
	confirmedResult = "A human confirmed that this call took effect"
)

// meant returns the result of a call, or the one that a lost call would have had.
func meant(tool, arguments, result string) string {
	var in struct{ Item string }
	if !strings.HasPrefix(result, lostResult) && !strings.HasPrefix(result, confirmedResult) || json.Unmarshal([]byte(arguments), &in) != nil || !slices.Contains(toolNames, tool) {
		return result
	}
	return done(tool, in.Item)
}

// writeConfiguration writes the configuration file of the server and the workers.
func writeConfiguration(path, modelURL, self, effects string) error {
	agents := object{}
	for _, a := range agentScripts {
		var tools []string
		for _, round := range a.rounds {
			for _, c := range round {
				name := c.Name
				if sub, ok := strings.CutPrefix(name, "agent-"); ok {
					name = "agent." + sub
				}
				if !slices.Contains(tools, name) {
					tools = append(tools, name)
				}
			}
		}
		agents[a.name] = object{"description": "Does what its script says.", "systemPrompt": prompt(a.name), "tools": tools, "waitTimeout": "1h", "limits": object{"seconds": 7200}}
	}
	content, err := json.MarshalIndent(object{
		"models":     object{"default": object{"provider": "openai", "model": "scripted", "baseURL": modelURL}},
		"mcpServers": object{toolServer: object{"command": []string{self}, "env": object{beTools: effects}}},
		"policies": []object{
			{"tools": toolServer + "-" + toolAgain, "onUnknown": "retry"},
			{"tools": toolServer + "-" + toolJudge, "onUnknown": "ask"},
			{"tools": toolServer + "-" + toolApprove, "approval": true},
		},
		"agents": agents,
	}, "", " ")
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}
