package codereader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// tool is a function that the model may call. Its result is never empty.
type tool struct {
	name, description string
	parameters        string // a JSON Schema
	run               func(context.Context, arguments) (string, error)
}

// arguments are those of all tools. Each tool uses some of them.
type arguments struct {
	Path     string `json:"path"`
	FromLine int    `json:"from_line"`
	ToLine   int    `json:"to_line"`
	Pattern  string `json:"pattern"`
	Question string `json:"question"`
}

// tools returns the tools of a run at the given depth. The root run has depth 0.
func (a *Agent) tools(depth int) []tool {
	tools := []tool{{
		name:        "list_files",
		description: "Lists one folder: sub-folders end in a slash, files come with their size.",
		parameters: `{"type":"object","properties":{
			"path":{"type":"string","description":"Folder, relative to the top; . is the top."}},
			"required":["path"]}`,
		run: func(_ context.Context, args arguments) (string, error) {
			return a.folder.List(args.Path)
		},
	}, {
		name:        "read_file",
		description: fmt.Sprintf("Reads a text file, with line numbers; at most %d lines at once.", maxLines),
		parameters: `{"type":"object","properties":{
			"path":{"type":"string","description":"File, relative to the top."},
			"from_line":{"type":"integer","description":"First line, from 1; 1 when absent."},
			"to_line":{"type":"integer","description":"Last line; the end of the file when absent."}},
			"required":["path"]}`,
		run: func(_ context.Context, args arguments) (string, error) {
			if args.Path == "" {
				return "", errors.New("path is missing")
			}
			return a.folder.Read(args.Path, args.FromLine, args.ToLine)
		},
	}, {
		name:        "search",
		description: fmt.Sprintf("Finds lines by a regular expression (RE2) and gives them as file:line: text; at most %d.", maxMatches),
		parameters: `{"type":"object","properties":{
			"pattern":{"type":"string","description":"Regular expression in RE2 syntax."},
			"path":{"type":"string","description":"File or folder to search, relative to the top; everything when absent."}},
			"required":["pattern"]}`,
		run: func(ctx context.Context, args arguments) (string, error) {
			if args.Pattern == "" {
				return "", errors.New("pattern is missing")
			}
			return a.folder.Search(ctx, args.Pattern, args.Path)
		},
	}, {
		name:        "research",
		description: "Hands a question that stands on its own to another agent, which reads the code and answers it.",
		parameters: `{"type":"object","properties":{
			"question":{"type":"string","description":"The whole question; the other agent knows nothing else."}},
			"required":["question"]}`,
		run: func(ctx context.Context, args arguments) (string, error) {
			if args.Question == "" {
				return "", errors.New("question is missing")
			}
			return a.run(ctx, "", "researcher", researcherPrompt, args.Question, depth+1)
		},
	}}
	if depth >= a.options.MaxDepth {
		return tools[:len(tools)-1] // without research
	}
	return tools
}

// definition returns the tool in the form that the model reads.
func (t tool) definition() ToolDef {
	return ToolDef{Type: "function", Function: FunctionDef{
		Name: t.name, Description: t.description, Parameters: json.RawMessage(t.parameters),
	}}
}

// call runs the tool with arguments in JSON.
func (t tool) call(ctx context.Context, text string) (string, error) {
	var args arguments
	if text != "" { // some models send nothing if there are no arguments
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			return "", fmt.Errorf("arguments: %w", err)
		}
	}
	return t.run(ctx, args)
}
