// Package files owns the tools that read and write the files of one folder: files.list_files,
// files.read_file, files.search_in_files, files.write_file and files.edit_file.
//
// No path leaves the folder, neither by "..", nor as an absolute path, nor through symbolic links.
// Folders with the name .git are not there for the tools: what is written into them can make git run
// programs. Texts are treated as UTF-8.
package files
