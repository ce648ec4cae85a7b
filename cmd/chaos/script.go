//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

type object map[string]any

// agentScript is an agent and what the model does as that agent: rounds of tool calls, then its answer, which
// is a text if it talks.
type agentScript struct {
	name   string
	rounds [][]scriptmodel.ToolCall
	talks  bool
	answer func(r *scriptmodel.Request) string // default: it has the results of all tool calls
}

func (a agentScript) lastTurn(r *scriptmodel.Request) scriptmodel.Turn {
	answer := a.name + " has " + strings.Join(resultsIn(r), ", ")
	if a.answer != nil {
		answer = a.answer(r)
	}
	if a.talks {
		return scriptmodel.Turn{Content: answer}
	}
	return scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{{Name: "terminate", Arguments: object{"message": answer}}}}
}

func use(tool, item string) scriptmodel.ToolCall {
	return scriptmodel.ToolCall{Name: toolServer + "-" + tool, Arguments: object{"item": item}}
}

func delegate(agent, request string) scriptmodel.ToolCall {
	return scriptmodel.ToolCall{Name: model.OfferedName("agent." + agent), Arguments: object{"request": request}}
}

// city is what the driver fills in.
const city = "Oslo"

var askCity = scriptmodel.ToolCall{
	Name: "form", Arguments: object{"title": "Which city?", "inputs": []object{{"label": "City", "name": "city"}}},
}

// refused is the item of calls that the driver does not approve.
const refused = "refused"

// kind is what runs that are compared do: what they start with.
type kind struct {
	name      string
	request   object
	beside    func(h *house, ctx context.Context, r *oneRun) // what somebody does besides; nil: nothing
	callsOnly bool                                           // only its tool calls are compared
}

// body returns the body of the start of a run about something.
func (k kind) body(about string) json.RawMessage {
	body, _ := json.Marshal(k.request) // texts and maps
	return bytes.ReplaceAll(body, []byte(aboutPlace), []byte(about))
}

// aboutPlace is where requests, calls and outlines name what a run is about.
const aboutPlace = "ABOUT"

var aboutIn = regexp.MustCompile(`Do it for (\S+)\.`)

// filledIn returns calls about what the conversation is about.
func filledIn(round []scriptmodel.ToolCall, r *scriptmodel.Request) (calls []scriptmodel.ToolCall) {
	about := ""
	if match := aboutIn.FindStringSubmatch(r.Question()); match != nil {
		about = match[1]
	}
	for _, c := range round {
		arguments, _ := json.Marshal(c.Arguments) // texts and maps
		calls = append(calls, scriptmodel.ToolCall{
			Name: c.Name, Arguments: json.RawMessage(bytes.ReplaceAll(arguments, []byte(aboutPlace), []byte(about))),
		})
	}
	return calls
}

func agentRun(name string) kind {
	return kind{name: name, request: object{
		"executor": "agent", "input": object{"agent": name, "request": "Do it for " + aboutPlace + "."},
	}}
}

func taskOf(role string, constraints object) kind {
	return kind{name: role, request: object{
		"executor": "plan", "input": object{"task": "Do it.", "role": role, "constraints": constraints},
	}}
}

// kinds are those of all executors. Agents that are no kind are below others.
var kinds = []kind{
	agentRun("wide"), agentRun("careful"), agentRun("asking"), agentRun("deep"), agentRun("long"), agentRun("all"),
	agentRun("pair"),
	taskOf(planned, object{}), taskOf(iterated, object{"iterative": true}),
	{name: "template", request: object{"executor": "plan", "name": "template", "input": object{"item": "x"}}},
	{name: "chain", request: object{"executor": "workflow", "input": object{"workflow": "chain", "input": "Go."}}},
	{name: "orchestrated", request: object{"executor": "orchestrator", "input": object{"request": "Do it."}}},
	{name: "graph", request: object{"executor": "dag", "input": object{"prompt": "Compare."}}},
}

// The roles of tasks.
const (
	planned  = "PLANNED"
	iterated = "ITERATED"
)

// operations are those of tasks. What is lost of them is made again, since thoughts tell all results as they are.
var operations = []object{operation(toolAgain, "a"), operation(toolAgain, "b"), operation(toolAgain, "c")}

func operation(tool, item string) object {
	return object{"tool": toolServer, "operation": tool, "params": object{"item": item}}
}

// orchestrated is the plan of the orchestrator, of operations.
func orchestrated() object {
	var steps []object
	for i, o := range operations {
		s := object{
			"stepNumber": i + 1, "agentType": worker, "action": actionOf(o), "justification": "It is needed.",
			"expectedOutput": "A result.",
		}
		if i > 0 {
			s["dependencies"] = []int{i}
		}
		steps = append(steps, s)
	}

	return object{"goal": "It is done.", "steps": steps, "estimatedDuration": 5}
}

// worker is the agent of the orchestrator.
const worker = "WORKER"

func actionOf(operation object) string {
	return fmt.Sprintf("Use %s on %s.", operation["operation"], operation["params"].(object)["item"])
}

// graph is a diamond.
var graph = object{"title": "A diamond", "nodes": []object{
	{"id": "n0", "name": "Begin", "description": "Begin.", "provider": "default"},
	{"id": "n1", "name": "Left", "description": "Go left.", "provider": "default", "dependencies": []string{"n0"}},
	{"id": "n2", "name": "Right", "description": "Go right.", "provider": "default", "dependencies": []string{"n0"}},
	{"id": "n3", "name": "End", "description": "End.", "provider": "default", "dependencies": []string{"n1", "n2"}},
}}

// agentScripts are the agents. What talkers lose is made again, since their answers tell all results as they are.
var agentScripts = []agentScript{
	{
		name: "first", talks: true, rounds: [][]scriptmodel.ToolCall{
			{use(toolAgain, "a"), use(toolAgain, "b")}, {use(toolAgain, "c")},
		},
	},
	{name: "second", talks: true, rounds: [][]scriptmodel.ToolCall{{use(toolAgain, "d")}}},
	{
		name: "wide", rounds: [][]scriptmodel.ToolCall{
			{use(toolPay, "a"), use(toolAgain, "b"), use(toolJudge, "c"), use(toolPay, "d")},
			{use(toolAgain, "e"), use(toolPay, "f")},
		},
	},
	{
		name: "careful", rounds: [][]scriptmodel.ToolCall{
			{use(toolApprove, "a")}, {use(toolApprove, refused), use(toolPay, "b")},
		},
	},
	{
		name: "asking", rounds: [][]scriptmodel.ToolCall{
			{use(toolAgain, "a")}, {askCity}, {use(toolPay, "b"), use(toolJudge, "c")},
		},
	},
	{
		name: "deep", rounds: [][]scriptmodel.ToolCall{
			{delegate("middle", "First."), delegate("middle", "Second."), use(toolPay, "a")}, {use(toolAgain, "b")},
		},
	},
	{
		name: "long", rounds: [][]scriptmodel.ToolCall{
			{use(toolPay, "a")}, {use(toolAgain, "b")}, {use(toolJudge, "c")}, {use(toolPay, "d")}, {use(toolAgain, "e")},
			{use(toolPay, "f")},
		},
	},
	{
		name: "all", rounds: [][]scriptmodel.ToolCall{
			{use(toolPay, "a"), use(toolAgain, "b")}, {use(toolApprove, "c")}, {askCity}, {
				delegate("middle", "Go."), delegate("asker", "Ask."),
			},
		},
	},
	// forms are shown one after the other
	{name: "pair", rounds: [][]scriptmodel.ToolCall{{delegate("asker", "Ask."), delegate("asker", "Ask, too.")}}},
	{name: "middle", rounds: [][]scriptmodel.ToolCall{{delegate("bottom", "Go on."), use(toolAgain, "m")}}},
	{name: "bottom", rounds: [][]scriptmodel.ToolCall{{use(toolPay, "x"), use(toolJudge, "y")}, {use(toolPay, "z")}}},
	{name: "asker", rounds: [][]scriptmodel.ToolCall{{askCity}, {use(toolPay, "q")}}},
	{
		name: "waiting", rounds: [][]scriptmodel.ToolCall{
			{use(toolPay, "a")}, {awaitEvent, use(toolAgain, "b")}, {awaitEvent}, {use(toolPay, "c")},
		},
	},
	{
		name: toldAgent, answer: toldAnswer, rounds: [][]scriptmodel.ToolCall{
			{use(toolPay, "a")}, {use(toolAgain, "b"), use(toolPay, "c")}, {use(toolAgain, "d")},
		},
	},
	{name: "quick"},
	{name: "brief", rounds: [][]scriptmodel.ToolCall{{use(toolPay, "a")}}},
}

// script returns the script of the model. An agent's answer tells the results of all its tool calls, so
// that the answer of a run says whether its conversation was as it must be.
func script() scriptmodel.Script {
	s := scriptmodel.Script{Delay: scriptmodel.Duration(500 * time.Millisecond)}
	for _, a := range agentScripts {
		scene := scriptmodel.Scene{Name: a.name, Match: scriptmodel.Match{System: prompt(a.name)}}
		for n, round := range a.rounds {
			scene.Turns = append(scene.Turns, scriptmodel.Turn{
				Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
					return scriptmodel.Turn{ToolCalls: filledIn(round, r)}, nil
				},
				Delay: scriptmodel.Duration(time.Duration(300+300*(n%4)) * time.Millisecond),
			})
		}

		last := scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
			return a.lastTurn(r), nil
		}}
		scene.Turns = append(scene.Turns, slices.Repeat([]scriptmodel.Turn{last}, 1+messagesEach)...) // it may be told more
		s.Scenes = append(s.Scenes, scene)
	}

	s.Scenes = append(s.Scenes,
		replying(planned, "expert "+planned, func(string) any { return object{"steps": operations} }),
		replying(iterated, "expert "+iterated, func(asked string) any {
			if made := strings.Count(asked, "\nIteration "); made < len(operations) {
				return object{"reasoning": "It is next.", "step": operations[made]}
			}
			return object{"done": true}
		}),
		replying("orchestrated", "specialised agents. Plan", func(string) any { return orchestrated() }),
		scriptmodel.Scene{
			Name: "orchestrated answer", Match: scriptmodel.Match{System: "specialised agents. They"},
			Turns: []scriptmodel.Turn{{Content: "It is done."}},
		},
		scriptmodel.Scene{Name: worker, Match: scriptmodel.Match{System: "You are the agent " + worker},
			Turns: []scriptmodel.Turn{{
				Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
					asked := string(r.Messages[len(r.Messages)-1].Content)
					for _, o := range operations {
						if strings.Contains(asked, "Your step: "+actionOf(o)) {
							return scriptmodel.Turn{
								ToolCalls: []scriptmodel.ToolCall{use(o["operation"].(string), o["params"].(object)["item"].(string))},
							}, nil
						}
					}
					return scriptmodel.Turn{}, fmt.Errorf("no action in %q", asked)
				},
			}, {
				Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
					return scriptmodel.Turn{Content: worker + " has " + strings.Join(resultsIn(r), ", ")}, nil
				},
			}}},
		replying("graph", "acyclic graph", func(string) any { return graph }),
		replying("node", "carry out", func(asked string) any { return object{"inputs": strings.Count(asked, "From ")} }),
	)

	return s
}

// replying is a scene whose answers are JSON. reply is told what the user said.
func replying(name, system string, reply func(asked string) any) scriptmodel.Scene {
	return scriptmodel.Scene{Name: name, Match: scriptmodel.Match{System: system}, Turns: []scriptmodel.Turn{{
		Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
			answer, err := json.Marshal(reply(string(r.Messages[len(r.Messages)-1].Content)))
			return scriptmodel.Turn{Content: string(answer)}, err
		},
	}}}
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
			results[i] = meant(strings.TrimPrefix(all[i].Function.Name, toolServer+"-"), all[i].Function.Arguments,
				string(m.Content))
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
	if !strings.HasPrefix(result, lostResult) && !strings.HasPrefix(result, confirmedResult) ||
		json.Unmarshal([]byte(arguments), &in) != nil || !slices.Contains(toolNames, tool) {
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

		agents[a.name] = object{
			"description": "Does what its script says.", "systemPrompt": prompt(a.name), "tools": tools, "waitTimeout": "1h",
			"limits": object{"seconds": 7200},
		}
	}

	theModel := object{
		"provider": "openai", "model": "scripted", "baseURL": modelURL, "maxConcurrent": modelCallsAtOnce,
		"apiKey": "${" + workerVariable + ":-none}",
	}
	maps.Copy(theModel, patience)

	content, err := json.MarshalIndent(object{
		"models":     object{"default": theModel},
		"mcpServers": object{toolServer: object{"command": []string{self}, "env": object{beTools: effects}}},
		"policies": []object{
			{"tools": toolServer + "-" + toolAgain, "onUnknown": "retry", "approval": false},
			{"tools": toolServer + "-" + toolJudge, "onUnknown": "ask", "approval": false},
			{"tools": toolServer + "-" + toolApprove, "approval": true},
			{"tools": toolServer + "-*", "approval": false},
		},
		"agents": agents,
		"roles": object{
			planned: object{"tools": []string{toolServer + "-*"}}, iterated: object{"tools": []string{toolServer + "-*"}},
		},
		"plans": object{"template": object{"title": "A template", "steps": []object{
			{"agent": "wide", "request": "Do <<item>>."}, {"agent": "asking", "request": "Do <<item>>, too."},
		}}},
		"orchestrator": object{
			"executionTimeout": "2h", "agents": object{
				worker: object{"description": "Works.", "tools": []string{toolServer + "-*"}},
			},
		},
		"workflows": object{"chain": object{"steps": []string{"first", "second"}}},
	}, "", " ")
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}
