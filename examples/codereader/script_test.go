package codereader_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/examples/codereader"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// demoQuestion is the question about the Actlog repository. demoScript accepts any
// question, but its answers suit this one.
const demoQuestion = "How does this project keep the record of a run, and how does it give the run back?"

const (
	demoWriteQuestion = "How is a record written to Postgres?"
	demoTreeQuestion  = "How is the plan hierarchy rebuilt?"
	demoLinkQuestion  = "Which columns say under which tool call a sub-plan hangs?"
)

// demoScript leads an agent through the Actlog repository without a real model: a root run, two
// parallel sub-agents, and another one below the second. It has 12 model calls, each of which
// takes delay. The tools are real. The answers quote the results of the tools and also work if
// a file is missing.
func demoScript(delay time.Duration) scriptmodel.Script {
	return scriptmodel.Script{
		Delay: scriptmodel.Duration(delay),
		Scenes: []scriptmodel.Scene{
			{
				Name:  "reader",
				Match: scriptmodel.Match{System: "You are a code reader."},
				Turns: []scriptmodel.Turn{
					says("I look at the top of the folder first.", call("files.list_files", map[string]any{"path": "."})),
					reply(demoHandOut),
					reply(demoConclude),
				},
			},
			{
				Name:  "writing",
				Match: scriptmodel.Match{System: "You are a code researcher.", User: demoWriteQuestion},
				Turns: []scriptmodel.Turn{
					says("There may be a document about it.", call("files.read_file", map[string]any{
						"path": "docs/how-a-record-is-written.md",
					})),
					says("There is none, so the code has to tell: a record is best written by an upsert.",
						call("files.search_in_files", map[string]any{"pattern": "(?i)ON CONFLICT", "path": "internal/record/fieldsql"})),
					reply(demoReadMatch),
					reply(demoExplainWriting),
				},
			},
			{
				Name:  "hierarchy",
				Match: scriptmodel.Match{System: "You are a code researcher.", User: demoTreeQuestion},
				Turns: []scriptmodel.Turn{
					says("The package that builds the tree, and the tables it is built from.",
						call("files.search_in_files", map[string]any{
							"pattern": `^func [A-Z]\w*\(.*\[\]`, "path": "internal/record/tree",
						}),
						call("files.list_files", map[string]any{"path": "migrations"})),
					says("What links the rows is a question of its own.",
						call("agent."+codereader.Researcher, map[string]any{"request": demoLinkQuestion})),
					reply(demoExplainTree),
				},
			},
			{
				Name:  "links",
				Match: scriptmodel.Match{System: "You are a code researcher.", User: demoLinkQuestion},
				Turns: []scriptmodel.Turn{
					says("The tables are declared in the migrations.",
						call("files.search_in_files", map[string]any{"pattern": "(?i)^\\s*parent_\\w+ ", "path": "migrations"}),
						call("files.search_in_files", map[string]any{"pattern": "(?i)tool_call_id", "path": "migrations"})),
					reply(demoExplainLinks),
				},
			},
		},
	}
}

// demoHandOut reads the module file and starts a sub-agent for each half of the question.
func demoHandOut(results []scriptmodel.ToolResult) scriptmodel.Turn {
	top := results[0]
	return says(
		fmt.Sprintf("%s at the top. The question has two halves; I have both researched while I read what the module is.",
			count(top, "entry", "entries")),
		call("files.read_file", map[string]any{"path": "go.mod", "start_line": 1, "end_line": 5}),
		call("agent."+codereader.Researcher, map[string]any{"request": demoWriteQuestion}),
		call("agent."+codereader.Researcher, map[string]any{"request": demoTreeQuestion}),
	)
}

func demoConclude(results []scriptmodel.ToolResult) scriptmodel.Turn {
	top, module := results[0], results[1]
	writing, hierarchy := results[2], results[3]
	return concludes(fmt.Sprintf("The folder has %s at its top; of its go.mod I see first %s.\n\nThe record: %s\n\n"+
		"The way back: %s",
		count(top, "entry", "entries"), quote(module), writing.Content, hierarchy.Content))
}

// demoReadMatch reads the lines around the first match. Without a match it searches elsewhere.
func demoReadMatch(results []scriptmodel.ToolResult) scriptmodel.Turn {
	found := results[1]
	file, line, ok := firstMatch(found)
	if !ok {
		return says("Not there; perhaps the SQL stands with the schema.",
			call("files.search_in_files", map[string]any{"pattern": "(?i)CREATE TABLE", "path": "migrations"}))
	}

	return says(fmt.Sprintf("%s; I read the first in its place.", count(found, "match", "matches")),
		call("files.read_file", map[string]any{"path": file, "start_line": max(1, line-10), "end_line": line + 10}))
}

func demoExplainWriting(results []scriptmodel.ToolResult) scriptmodel.Turn {
	document := results[0]
	found, read := results[1], results[2]
	if _, _, ok := firstMatch(found); !ok {
		return concludes(fmt.Sprintf("internal/record/fieldsql does not show it (%s). The tables are the best hint: %s.",
			quote(found), quote(read)))
	}

	return concludes(fmt.Sprintf("By an upsert, so that writing twice does no harm: %s in internal/record/fieldsql/, "+
		"the first is %s. "+
		"I read %s of that file around it. There is no document about it (%s).",
		count(found, "match", "matches"), quote(found), count(read, "line", "lines"), quote(document)))
}

func demoExplainTree(results []scriptmodel.ToolResult) scriptmodel.Turn {
	build := results[0]
	migrations, links := results[1], results[2]
	how := "internal/record/tree does not show it (" + quote(build) + ")"
	if _, _, ok := firstMatch(build); ok {
		how = "By a function over the rows of a query: " + quote(build)
	}
	return concludes(fmt.Sprintf("%s. The rows come from the tables of migrations/, where I count %s. %s",
		how, count(migrations, "entry", "entries"), links.Content))
}

func demoExplainLinks(results []scriptmodel.ToolResult) scriptmodel.Turn {
	parents, calls := results[0], results[1]
	if _, _, ok := firstMatch(parents); !ok {
		return concludes(fmt.Sprintf("The migrations declare no parent column (%s); a tool call is known by %s.",
			quote(parents), quote(calls)))
	}
	return concludes(fmt.Sprintf("A row names what it hangs under: %s, in %s of the migrations. A tool call is known "+
		"by its id, see %s.",
		quote(parents), count(parents, "line", "lines"), quote(calls)))
}

// reply returns a turn that depends on all tool results so far.
func reply(turn func([]scriptmodel.ToolResult) scriptmodel.Turn) scriptmodel.Turn {
	return scriptmodel.Turn{Reply: func(_ context.Context, req *scriptmodel.Request) (scriptmodel.Turn, error) {
		return turn(req.ToolResults()), nil
	}}
}

// quote returns the first line of a result, in quotes.
func quote(r scriptmodel.ToolResult) string {
	line, _, _ := strings.Cut(strings.TrimSpace(r.Content), "\n")
	return "“" + strings.Join(strings.Fields(line), " ") + "”"
}

// count counts the lines of a result, without a remark at its end. An error, and that there is nothing, are
// no lines.
func count(r scriptmodel.ToolResult, one, many string) string {
	text, _, _ := strings.Cut(r.Content, "\n... (")
	n := len(strings.Split(strings.TrimSuffix(text, "\n"), "\n"))
	for _, nothing := range []string{"no such file or folder", "There are no files.", "Nothing matches.\n"} {
		if strings.HasSuffix(text, nothing) {
			n = 0
		}
	}

	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// firstMatch returns the first line of a search result. ok is false if nothing was found.
func firstMatch(r scriptmodel.ToolResult) (file string, line int, ok bool) {
	first, _, _ := strings.Cut(r.Content, "\n")
	parts := strings.SplitN(first, ":", 3)
	if len(parts) < 3 {
		return "", 0, false
	}
	line, err := strconv.Atoi(parts[1])
	return parts[0], line, err == nil
}
