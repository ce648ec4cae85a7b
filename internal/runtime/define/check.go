package define

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/nearest"
)

// WaitForTool is the name of the tool that waits for an event, or for some time.
const WaitForTool = "wait_for"

// Everywhere are the tools that the runtime itself carries.
var Everywhere = []string{"form", "terminate", WaitForTool}

// Names are what the agents of a program may refer to, beside each other and the tools of [Everywhere].
type Names struct {
	Models  []string
	Servers []string // MCP servers
	Tools   []string // with agent.<name> for other agents
}

// CheckAgents checks agents that a program defines, by their names, as a configuration file is checked. It returns them
// with their defaults, and all mistakes.
func CheckAgents(agents map[string]Agent, known Names) (checked map[string]Agent, mistakes []error) {
	tools := slices.Concat(known.Tools, Everywhere)
	for name := range agents {
		tools = append(tools, "agent."+name)
	}

	CheckOffered(tools, known.Servers, func(section, name, message string) {
		if agent, ok := strings.CutPrefix(name, "agent."); ok {
			section, name = "agents", agent
		}
		mistakes = append(mistakes, fmt.Errorf("%s: %s", Below(section, name), message))
	})

	for _, server := range known.Servers {
		tools = append(tools, server+"-*")
	}
	slices.Sort(tools)
	known.Tools = tools

	checked = map[string]Agent{}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		a := agents[name]
		a.Model = cmp.Or(a.Model, DefaultModel)
		a.check(name, known, func(field, message string) {
			if message != "" {
				mistakes = append(mistakes, fmt.Errorf("%s%s: %s", Below("agents", name), field, message))
			}
		})
		checked[name] = a
	}
	return checked, mistakes
}

// check reports each field with what is wrong with it; empty: nothing.
func (a Agent) check(name string, known Names, report func(field, message string)) {
	report("", NameProblem("agent.", name))
	report(".description", textProblem(a.Description))
	report(".systemPrompt", textProblem(a.SystemPrompt))
	report(".model", Missing("model", a.Model, known.Models))
	if t := a.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
		report(".temperature", "want a number from 0 to 2")
	}

	for i, pattern := range a.Tools {
		report(fmt.Sprintf(".tools[%d]", i), PatternProblem(pattern, known.Tools))
	}
	for i, server := range a.MCPServers {
		report(fmt.Sprintf(".mcpServers[%d]", i), Missing("MCP server", server, known.Servers))
	}
	for i, pattern := range a.Exclude {
		report(fmt.Sprintf(".exclude[%d]", i), PatternProblem(pattern, known.Tools))
	}

	whole := func(field string, n, most int64) {
		if n < 0 || n > most {
			report(field, fmt.Sprintf("want a whole number from 1 to %d", most))
		}
	}
	above := func(field string, x float64) {
		if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			report(field, "want a number above 0")
		}
	}

	whole(".maxSteps", int64(a.MaxSteps), math.MaxInt32)
	whole(".limits.rounds", a.Limits.Rounds, math.MaxInt32)
	whole(".limits.toolCalls", a.Limits.ToolCalls, math.MaxInt32)
	whole(".limits.tokens", a.Limits.Tokens, math.MaxInt64)
	above(".limits.costUsd", a.Limits.CostUSD)
	above(".limits.seconds", a.Limits.Seconds)
	if a.WaitTimeout < 0 {
		report(".waitTimeout", "want a time such as 30s or 2m")
	}

	switch {
	case a.ResponseSchema == nil:
	case !json.Valid(a.ResponseSchema):
		report(".responseSchema", "want a JSON Schema, not a text that is no JSON")
	case strings.Contains(string(a.ResponseSchema), `\u0000`):
		report(".responseSchema", noZero)
	default:
		if err := CheckSchema(a.ResponseSchema); err != nil {
			report(".responseSchema", err.Error())
		}
	}
}

const noZero = "a text cannot have the character 0"

func textProblem(text string) string {
	switch {
	case !utf8.ValidString(text):
		return "want a text in UTF-8"
	case strings.Contains(text, "\x00"):
		return noZero
	}
	return ""
}

// CheckSchema returns an error if a text is not the JSON Schema of an object.
func CheckSchema(text json.RawMessage) error {
	if _, err := tool.Checker(text); err != nil {
		return fmt.Errorf("not a JSON Schema: %w", err)
	}
	var s struct{ Type any }
	if json.Unmarshal(text, &s) != nil || s.Type != "object" {
		return errors.New(`want the schema of an object: {type: object, properties: ...}`)
	}
	return nil
}

// NameProblem returns what is wrong with a name that becomes that of a tool, with a prefix such as "agent."; empty:
// nothing.
func NameProblem(prefix, name string) string {
	if tool.CheckName(prefix+name) != nil || name == "" {
		return fmt.Sprintf("a name has at most %d letters, digits, '_', '-' and '.'", tool.MaxNameBytes-len(prefix))
	}
	return ""
}

// PatternProblem returns what is wrong with a name or pattern of tools, which must match one of those that there are;
// empty: nothing.
func PatternProblem(pattern string, there []string) string {
	if strings.TrimSpace(pattern) == "" {
		return "it is empty"
	}
	if err := tool.CheckPattern(pattern); err != nil {
		return err.Error()
	}

	switch {
	case slices.ContainsFunc(there, func(known string) bool { return Overlap(pattern, known) }):
		return ""
	case strings.Contains(pattern, "*"):
		return fmt.Sprintf("no tool matches %q; there are: %s", pattern, list(there))
	}
	return Missing("tool", pattern, there)
}

// Missing says that nothing of a kind has a name; empty: it is there.
func Missing(what, name string, there []string) string {
	if slices.Contains(there, name) {
		return ""
	}
	if near := nearest.Name(name, there); near != "" {
		return fmt.Sprintf("no %s is called %q; did you mean %s?", what, name, near)
	}
	return fmt.Sprintf("no %s is called %q; there are: %s", what, name, list(there))
}

// FallbackProblem says what is wrong with a model that answers in place of another one, after some before it; empty:
// nothing.
func FallbackProblem(of, name string, before, models []string) string {
	switch {
	case name == of:
		return "it is the model itself"
	case slices.Contains(before, name):
		return fmt.Sprintf("%s is there twice", name)
	}
	return Missing("model", name, models)
}

// list returns names for a message, not all of them if there are many.
func list(names []string) string {
	const most = 20
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + " and more"
	}
	return strings.Join(names, ", ")
}

// CheckOffered reports the tools whose names are the same to a model, in section tools, and the servers whose tools
// could be called like others, in section mcpServers.
func CheckOffered(tools, servers []string, report func(section, name, message string)) {
	offered := map[string]string{}
	for _, name := range tools {
		as := model.OfferedName(name)
		if other, ok := offered[as]; ok && other != name {
			report("tools", name, fmt.Sprintf("the tools %s and %s are both %s to a model", other, name, as))
			continue
		}
		offered[as] = name
	}

	for _, server := range servers {
		i := slices.IndexFunc(tools, func(name string) bool { return strings.HasPrefix(name, server+".") })
		if i >= 0 {
			report("mcpServers", server, fmt.Sprintf("to a model, tools of this server could have the same names as %s; "+
				"it needs another name", tools[i]))
		}
	}
}

// Below returns the path of a key or "[index]" below another path.
func Below(path, key string) string {
	const longest = 100
	if len(key) > longest || strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		key = strconv.Quote(key[:min(len(key), longest)])
	}
	if path == "" || strings.HasPrefix(key, "[") {
		return path + key
	}
	return path + "." + key
}
