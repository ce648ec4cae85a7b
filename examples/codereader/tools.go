package codereader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// tool is something the model may call. Its result is never empty.
type tool struct {
	def FunctionDef
	use func(ctx context.Context, arguments string) (string, error)
}

// tools are the tools of a run at the given depth; the root run has depth 0.
func (a *Agent) tools(depth int) []tool {
	tools := []tool{a.listFiles(), a.readFile(), a.search()}
	if depth < a.options.MaxDepth {
		tools = append(tools, a.research(depth))
	}
	return tools
}

func (a *Agent) listFiles() tool {
	type arguments struct {
		Path string `json:"path"`
	}
	return newTool("list_files", "Lists one folder: sub-folders end in a slash, files come with their size.",
		`{"type":"object","properties":{
			"path":{"type":"string","description":"Folder, relative to the top; . is the top."}},
			"required":["path"]}`,
		func(_ context.Context, args arguments) (string, error) {
			return a.folder.List(args.Path)
		})
}

func (a *Agent) readFile() tool {
	type arguments struct {
		Path     string `json:"path"`
		FromLine int    `json:"from_line"`
		ToLine   int    `json:"to_line"`
	}
	return newTool("read_file", fmt.Sprintf("Reads a text file, with line numbers; at most %d lines at once.", maxLines),
		`{"type":"object","properties":{
			"path":{"type":"string","description":"File, relative to the top."},
			"from_line":{"type":"integer","description":"First line, from 1; 1 when absent."},
			"to_line":{"type":"integer","description":"Last line; the end of the file when absent."}},
			"required":["path"]}`,
		func(_ context.Context, args arguments) (string, error) {
			if args.Path == "" {
				return "", errors.New("path is missing")
			}
			return a.folder.Read(args.Path, args.FromLine, args.ToLine)
		})
}

func (a *Agent) search() tool {
	type arguments struct {
		Pattern string `json:"pattern"`
		Path    string `json:"path"`
	}
	return newTool("search", fmt.Sprintf("Finds lines by a regular expression (RE2) and gives them as file:line: text; at most %d.", maxMatches),
		`{"type":"object","properties":{
			"pattern":{"type":"string","description":"Regular expression in RE2 syntax."},
			"path":{"type":"string","description":"File or folder to search, relative to the top; everything when absent."}},
			"required":["pattern"]}`,
		func(ctx context.Context, args arguments) (string, error) {
			if args.Pattern == "" {
				return "", errors.New("pattern is missing")
			}
			return a.folder.Search(ctx, args.Pattern, args.Path)
		})
}

// research runs a sub-agent, whose answer is the tool's result.
func (a *Agent) research(depth int) tool {
	type arguments struct {
		Question string `json:"question"`
	}
	return newTool("research", "Hands a question that stands on its own to another agent, which reads the code and answers it.",
		`{"type":"object","properties":{
			"question":{"type":"string","description":"The whole question; the other agent knows nothing else."}},
			"required":["question"]}`,
		func(ctx context.Context, args arguments) (string, error) {
			if args.Question == "" {
				return "", errors.New("question is missing")
			}
			return a.run(ctx, "", "researcher", researcherPrompt, args.Question, depth+1)
		})
}

// newTool makes a tool of a function on decoded arguments.
func newTool[A any](name, description, parameters string, use func(context.Context, A) (string, error)) tool {
	return tool{
		def: FunctionDef{Name: name, Description: description, Parameters: json.RawMessage(parameters)},
		use: func(ctx context.Context, arguments string) (string, error) {
			var args A
			if arguments != "" { // some models send nothing for no arguments
				if err := json.Unmarshal([]byte(arguments), &args); err != nil {
					return "", fmt.Errorf("arguments: %w", err)
				}
			}
			return use(ctx, args)
		},
	}
}
