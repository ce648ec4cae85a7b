//go:build attack

package attack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// A mark is in the request of a run and in the arguments of its calls, so that the ledger tells runs apart.
var markPattern = regexp.MustCompile(`mark-[0-9a-f]{16}`)

func markIn(text string) string { return markPattern.FindString(text) }

// act is a call that the model asks for. RUN in its arguments is the mark of the run.
type act struct{ tool, arguments string }

func on(tool, item string) act { return act{tool, `{"item":"` + item + `","run":"RUN"}`} }

func ask(agent string) act { return act{"agent." + agent, `{"request":"Do it for RUN."}`} }

var askCity = act{"form", `{"title":"Which city? RUN","inputs":[{"label":"City","name":"city"}]}`}

// actors are the agents of a house and what the model does as each: rounds of calls. Then it answers with all that it
// was told.
var actors = map[string][][]act{
	"approved":  {{on("bank-note", "a")}, {on("bank-pay", "honest")}, {on("bank-note", "c")}},
	"asking":    {{on("bank-note", "a")}, {askCity}, {on("bank-note", "c")}},
	"parent":    {{on("bank-note", "a")}, {ask("child")}, {on("bank-note", "c")}},
	"child":     {{on("bank-pay", "honest")}},
	"slow":      {{on("bank-note", "a")}, {on("bank-slow", "b")}, {on("bank-note", "c")}},
	"late":      {{on("bank-slow", "b")}, {ask("child")}, {on("bank-note", "c")}},
	"quick":     {{on("bank-note", "a")}},
	"two":       {{on("bank-note", "a"), on("bank-pay", "honest"), on("bank-pay", "second")}, {on("bank-note", "c")}},
	"remembers": {},
}

// withHistory are the agents that see the earlier messages of a conversation.
var withHistory = []string{"remembers"}

func agents() object {
	all := object{}
	for name, rounds := range actors {
		all[name] = agentWith(name, rounds)
	}
	return all
}

// agentWith is an agent that has the tools that it uses.
func agentWith(name string, rounds [][]act) object {
	tools := []string{}
	for _, a := range slices.Concat(rounds...) {
		if !slices.Contains(tools, a.tool) {
			tools = append(tools, a.tool)
		}
	}

	return object{
		"description": "Does as its script says.", "systemPrompt": promptOf(name), "tools": tools,
		"includeHistory": slices.Contains(withHistory, name),
	}
}

func promptOf(agent string) string { return "You are the agent <" + agent + ">." }

// scene is what the model does as an agent.
func scene(name string, rounds [][]act) scriptmodel.Scene {
	s := scriptmodel.Scene{Name: name, Match: scriptmodel.Match{System: promptOf(name)}}
	for i := range len(rounds) + 1 {
		s.Turns = append(s.Turns, scriptmodel.Turn{Reply: func(
			_ context.Context, r *scriptmodel.Request,
		) (scriptmodel.Turn, error) {
			return turn(rounds, i, r), nil
		}})
	}
	for range 20 { // of a conversation, the earlier answers count as turns
		s.Turns = append(s.Turns, s.Turns[len(s.Turns)-1])
	}
	return s
}

func turn(rounds [][]act, i int, r *scriptmodel.Request) (t scriptmodel.Turn) {
	said := ""
	for _, m := range r.Messages {
		if m.Role != "system" {
			said += fmt.Sprintf("[%s: %s]", m.Role, m.Content)
		}
	}

	if i >= len(rounds) {
		arguments, _ := json.Marshal(object{"message": "I was told " + said}) // a text
		return scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{{Name: "terminate", Arguments: string(arguments)}}}
	}

	for _, a := range rounds[i] {
		t.ToolCalls = append(t.ToolCalls, scriptmodel.ToolCall{
			Name: model.OfferedName(a.tool), Arguments: strings.ReplaceAll(a.arguments, "RUN", markIn(said)),
		})
	}
	return t
}

func scenes() (all []scriptmodel.Scene) {
	for name, rounds := range actors {
		all = append(all, scene(name, rounds))
	}

	reply := func(name, system string, say ...func(asked string) scriptmodel.Turn) {
		s := scriptmodel.Scene{Name: name, Match: scriptmodel.Match{System: system}}
		for _, each := range say {
			s.Turns = append(s.Turns, scriptmodel.Turn{Reply: func(
				_ context.Context, r *scriptmodel.Request,
			) (scriptmodel.Turn, error) {
				return each(string(r.Messages[len(r.Messages)-1].Content)), nil
			}})
		}
		all = append(all, s)
	}
	text := func(v any) scriptmodel.Turn {
		b, _ := json.Marshal(v) // texts
		return scriptmodel.Turn{Content: string(b)}
	}

	reply("orchestrator plans", "specialised agents. Plan", func(asked string) scriptmodel.Turn {
		return text(object{"goal": "It is done.", "estimatedDuration": 5, "steps": []object{{
			"stepNumber": 1, "agentType": "WORKER", "action": "Note honest of " + markIn(asked),
			"justification": "It is needed.", "expectedOutput": "A note.",
		}}})
	})
	reply("orchestrator answers", "specialised agents. They", func(asked string) scriptmodel.Turn {
		return scriptmodel.Turn{Content: "I was told " + asked}
	})

	reply("worker", "You are the agent WORKER", func(asked string) scriptmodel.Turn {
		_, step, _ := strings.Cut(asked, "Your step: ")
		step, _, _ = strings.Cut(step, "\n")
		item := "forged"
		if strings.Contains(step, "honest") {
			item = "honest"
		}
		return scriptmodel.Turn{
			ToolCalls: []scriptmodel.ToolCall{
				{Name: "bank-note", Arguments: fmt.Sprintf(`{"item":%q,"run":%q}`, item, markIn(asked))},
			},
		}
	}, func(result string) scriptmodel.Turn {
		return scriptmodel.Turn{Content: "The tool says: " + result}
	})

	reply("graph", "acyclic graph", func(asked string) scriptmodel.Turn { return text(honestGraph(markIn(asked))) })
	reply("node", "carry out", func(asked string) scriptmodel.Turn {
		return scriptmodel.Turn{Content: "I was told " + asked}
	})
	return all
}

func honestGraph(mark string) object {
	return object{"title": "Two " + mark, "nodes": []object{
		{"id": "n0", "name": "Begin", "description": "Begin the honest work of " + mark, "provider": "default"},
		{"id": "n1", "name": "End", "description": "End it.", "provider": "default", "dependencies": []string{"n0"}},
	}}
}
