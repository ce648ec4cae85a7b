package git

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/internal/folder"
)

// Options of the tools.
type Options struct {
	// Write adds git.add, git.commit, git.branch, git.checkout and git.stash, and git.push and git.pull if there are
	// remotes. Their policies ask for approval.
	Write bool
	// Remotes are the other repositories that git.push and git.pull may use, by name.
	Remotes map[string]Remote
	// Name and Email say who commits. If they are empty, git's own configuration says it.
	Name, Email string
	// Allow are patterns, as .gitignore has them, of files that the tools show and git.commit commits although
	// they may hold secrets or are hard links.
	Allow []string
	// Hide are absolute paths of files and folders that the tools neither show nor commit nor change, whatever
	// is allowed: those of the server.
	Hide []string
}

// Tools returns the tools for the repository in a folder, which must be the top folder of its working tree. Where the
// git program is not installed there are none.
func Tools(dir string, o Options) ([]tool.Tool, error) {
	if (o.Name == "") != (o.Email == "") {
		return nil, errors.New("who commits needs both a name and an email")
	}
	if err := checkRemotes(o.Remotes); err != nil {
		return nil, err
	}

	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("folder of the repository: %w", err)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, nil //nolint:nilerr // no tools without the program
	}

	r := &repository{
		program: program{git: git}, dir: dir, allowed: folder.Allow(dir, o.Allow...).Hide(o.Hide...), remotes: o.Remotes,
	}
	if o.Name != "" {
		r.identity = []string{
			"GIT_AUTHOR_NAME=" + o.Name, "GIT_AUTHOR_EMAIL=" + o.Email, "GIT_COMMITTER_NAME=" + o.Name,
			"GIT_COMMITTER_EMAIL=" + o.Email,
		}
	}

	tools := r.reading()
	if o.Write {
		tools = append(tools, addTool.tool(r), commitTool.tool(r), branchTool.tool(r), checkoutTool.tool(r),
			stashTool.tool(r))
	}
	if o.Write && len(o.Remotes) > 0 {
		tools = append(tools, pullTool.tool(r), pushTool.tool(r))
	}
	return tools, nil
}

func (r *repository) reading() []tool.Tool {
	return []tool.Tool{
		reader(r, "git.status", "Says which branch is checked out and which files changed since the last commit.",
			(*opened).status),
		reader(r, "git.diff", "Shows what changed in files, as a patch: since the last commit, or between commits, "+
			"branches and tags.", (*opened).diff),
		reader(r, "git.log", "Lists commits, newest first.", (*opened).log),
		reader(r, "git.show", "Shows a commit and what it changed, or a file or a folder as it was at a commit.",
			(*opened).show),
		reader(r, "git.blame", "Says which commit each line of a file comes from, who wrote it and when.", (*opened).blame),
		reader(r, "git.branches", "Lists the branches, also those of remotes as they were when they were fetched last.",
			(*opened).branches),
		reader(r, "git.stashes", "Lists what was put aside by git.stash. git.show shows one by its hash.",
			(*opened).listStashes),
	}
}
