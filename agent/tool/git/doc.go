// Package git owns the tools for a git repository: git.status, git.diff, git.log and git.commit.
//
// They run the git program. What is in the repository is treated as hostile, and so are arguments:
// hooks, file system monitors, external diffs, text conversions, filters, signing programs and
// transports of the repository's own configuration do not run. Filters that the user or the system
// configured, such as Git LFS, do. Paths are taken literally.
package git
