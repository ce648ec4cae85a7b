package files

import (
	"context"
	"time"

	"github.com/actlog/actlog/agent/tool"
)

// timeout bounds the tools that read. A search of a folder may take long.
const timeout = 30 * time.Second

// Tools returns the tools for the files of the folder.
func (f *Folder) Tools() []tool.Tool {
	read := tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry, Timeout: timeout})
	tools := []tool.Tool{
		tool.Func("files.list_files", "Lists the files and folders at a path. Names of folders end in /.", f.list, read),
		tool.Func("files.read_file", "Returns the text of a file, or some of its lines.", f.read, read),
		tool.Func("files.search_in_files", "Finds the lines of files that match a regular expression (RE2).", f.search, read),
	}
	if f.options.Write {
		tools = append(tools,
			// Writing the same text again does no harm. Making the same edit again may.
			tool.Func("files.write_file", "Writes a whole file. It replaces what is there, and makes the folders above it.", f.write,
				tool.WithPolicy(tool.Policy{Approval: true, Writes: true, OnUnknown: tool.Retry}),
				tool.WithTouches(func(_ context.Context, in writeArguments) ([]string, error) { return f.touched(in.Path) })),
			tool.Func("files.edit_file", "Replaces one part of a file. The part must occur in the file exactly once, so include enough of the lines around it.", f.edit,
				tool.WithPolicy(tool.Policy{Approval: true, Writes: true}),
				tool.WithTouches(func(_ context.Context, in editArguments) ([]string, error) { return f.touched(in.Path) })),
		)
	}
	return tools
}

func (f *Folder) touched(name string) ([]string, error) {
	at, err := f.at.Resolve(name)
	return []string{at}, err
}
