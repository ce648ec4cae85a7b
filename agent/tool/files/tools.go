package files

import (
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
		tool.Func("files.read_file", "Returns the text of a file, or some of its lines; with numbered, each with its number.",
			f.read, read),
		tool.Func("files.search_in_files", "Finds the lines of files that match a regular expression (RE2).", f.search, read),
		tool.Func("files.glob", "Finds files by a pattern of their paths, such as **/*.go, at any depth.", f.glob, read),
		tool.Func("files.file_info", "Says what a file or folder is: its type, size, lines, mode and time of change.", f.info,
			read),
	}
	if f.options.Write {
		tools = append(tools, f.writers()...)
	}
	return tools
}

// writers returns the tools that change the folder. Each finds out whether it took effect, so that none does so twice.
func (f *Folder) writers() []tool.Tool {
	return []tool.Tool{
		writer[writeArguments]{f, f.write, f.written}.tool("files.write_file",
			"Writes a whole file. It replaces what is there, and makes the folders above it."),
		writer[editArguments]{f, f.edit, f.replaced}.tool("files.edit_file",
			"Replaces one part of a file by its exact text. The part must occur in the file exactly once, so include enough "+
				"of the lines around it; "+
				"replace_all replaces it everywhere."),
		writer[editLinesArguments]{f, f.editLines, f.linesEdited}.tool("files.edit_lines",
			"Replaces lines of a file by their numbers, which files.read_file shows with numbered. "+
				"It changes nothing unless old_text, or first_line and last_line, are what the lines are now."),
		writer[appendArguments]{f, f.add, f.added}.tool("files.append_file", "Adds text at the end of a file."),
		writer[makeFolderArguments]{f, f.makeFolder, f.folderMade}.tool("files.make_folder", "Makes a folder."),
		writer[moveArguments]{f, f.move, f.moved}.tool("files.move_file",
			"Moves or renames a file or folder. It replaces no file unless overwrite is set."),
		writer[deleteArguments]{f, f.remove, f.removed}.tool("files.delete_file",
			"Deletes a file, or a folder that is empty."),
	}
}
