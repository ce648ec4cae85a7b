// Package git owns the tools for a git repository: git.status, git.diff, git.log and git.commit.
//
// They run the git program. What is in the repository is treated as hostile, and so are arguments. The repository's
// own configuration is never in force, apart from keys of a list whose values name no program, file or machine; there
// are no hooks. Filters that the user or the system configured, such as Git LFS, do run. All that git reads and writes
// is below the folder. Paths are taken literally.
package git
