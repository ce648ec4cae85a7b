// Package files owns the tools that read and write the files of one folder: files.list_files,
// files.read_file, files.search_in_files, files.glob and files.file_info; files.write_file, files.edit_file,
// files.edit_lines, files.append_file, files.make_folder, files.move_file and files.delete_file.
//
// No path leaves the folder, neither by "..", nor as an absolute path, nor through symbolic links.
// Folders with the name .git are not there for the tools: what is written into them can make git run
// programs. Texts are treated as UTF-8.
//
// Whoever approves a change sees it as a unified diff. A call that was made again, because nobody knew how it
// ended, finds out whether it took effect.
package files
