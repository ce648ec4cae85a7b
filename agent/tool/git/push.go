package git

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool"
)

// remoteTimeout bounds a call that reaches another machine.
const remoteTimeout = 2 * time.Minute

type pushArguments struct {
	Branch string `json:"branch,omitempty" jsonschema:"the branch, which has the same name there; the one that is checked out if it is missing"`
	Remote string `json:"remote,omitempty" jsonschema:"a remote of the configuration of the toolset; origin, or the only one, if it is missing"`
}

var pushTool = writer[pushArguments]{
	name: "git.push", description: "Sends the commits of a branch to a remote. It never replaces commits that are " +
		"there: pull first if there are others.",
	plan: planPush, done: pushDone, timeout: remoteTimeout,
	touches: func(ctx context.Context, o *opened, in pushArguments) ([]string, error) {
		branch, _, err := o.localBranch(ctx, in.Branch)
		if err != nil {
			return nil, err
		}
		_, m, err := o.pickRemote(in.Remote)
		return []string{m.URL + " " + heads + branch}, err
	},
}

// localBranch returns a branch and its commit: the one of a name, else the one that is checked out.
func (o *opened) localBranch(ctx context.Context, name string) (branch, commit string, err error) {
	if name == "" {
		if commit, branch, err = o.head(ctx); err != nil {
			return "", "", err
		}
		if branch == "" {
			return "", "", errors.New("branch: none is checked out; name one")
		}
		return branch, commit, nil
	}

	if err := o.checkBranch(ctx, "branch", name); err != nil {
		return "", "", err
	}

	commit, err = o.branchAt(ctx, name)
	if err == nil && commit == "" {
		err = fmt.Errorf("branch: there is no branch %s; git.branches lists them", name)
	}
	return name, commit, err
}

func planPush(ctx context.Context, o *opened, _ tool.Call, in pushArguments) (p plan, err error) {
	branch, commit, err := o.localBranch(ctx, in.Branch)
	if err != nil {
		return p, err
	}
	c, err := o.connect(in.Remote)
	if err != nil {
		return p, err
	}

	old, err := c.tip(ctx, branch)
	if err != nil {
		return p, err
	}
	if err := c.checkPush(ctx, branch, commit, old); err != nil {
		return p, err
	}
	sent, err := c.toSend(ctx, branch, commit, old)
	if err != nil {
		return p, err
	}

	p.preview = tool.NewPreview(tool.PreviewDiff, sent, c.remote.URL, branch, commit, old)
	p.do = func(ctx context.Context) (tool.Result, error) { return c.push(ctx, branch, commit) }
	return p, nil
}

// checkPush returns an error if there is nothing to push, or if it would replace what is there.
func (c *connection) checkPush(ctx context.Context, branch, commit, old string) error {
	if old == commit {
		return fmt.Errorf("there is nothing to push: %s of %s is at %.12s as well", branch, c.name, commit)
	}
	if old == "" {
		return nil
	}

	here, err := c.has(ctx, old)
	if err != nil {
		return err
	}
	if here {
		if here, err = c.isAncestor(ctx, old, commit); err != nil {
			return err
		}
	}
	if !here {
		return fmt.Errorf("%s of %s has commits that are not in the branch here; pull first", branch, c.name)
	}
	return nil
}

const maxSent = 5000

// toSend returns what would be sent, for people. It fails if files of the server itself are in it.
func (c *connection) toSend(ctx context.Context, branch, commit, old string) (string, error) {
	commits := []string{commit, "--not", "--remotes=" + c.name}
	if old != "" {
		commits = append(commits, old)
	}

	commits = append([]string{"-n", strconv.Itoa(maxSent)}, commits...)
	names, err := c.logOf(ctx, append([]string{"--format=", "--name-only", "--no-renames", "-m", "-z"}, commits...)...)
	if errors.Is(err, errTooLong) {
		return "", errors.New("the push has too many changes; that is left to people")
	} else if err != nil {
		return "", err
	}

	for path := range strings.SplitSeq(string(names), "\x00") {
		if err := c.allowed.Hidden(strings.TrimPrefix(path, "\n")); path != "" && err != nil {
			return "", fmt.Errorf("%w: it is in a commit that would be sent", err)
		}
	}
	subjects, err := c.logOf(ctx, append([]string{"--no-patch", "--format=%h %an: %s"}, commits...)...)
	if err != nil {
		return "", err
	}

	base, from := old, "which is new there"
	if old != "" {
		from = fmt.Sprintf("from %.12s", old)
	} else if base, err = c.baseOf(ctx, commit); err != nil {
		return "", err
	}

	text, err := c.previewText(ctx, tool.Cut(string(subjects), 8<<10)+"\n", []string{base, commit})
	return fmt.Sprintf("Push the branch %s, %s, to %.12s on %s (%s):\n\n%s",
		branch, from, commit, c.name, c.remote.URL, text), err
}

// baseOf returns what a branch that is new on the remote is compared with: the newest of its commits that were on the
// remote when it was fetched last, else the tree that has nothing.
func (c *connection) baseOf(ctx context.Context, commit string) (string, error) {
	out, err := c.execute(ctx, "rev-list", "--boundary", "--max-count="+strconv.Itoa(maxSent), commit, "--not",
		"--remotes="+c.name)
	if err != nil && !errors.Is(err, errTooLong) {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		if base, ok := strings.CutPrefix(strings.TrimSpace(line), "-"); ok {
			return base, nil
		}
	}

	return c.emptyTree(ctx)
}

// push sends a commit. Without force git refuses to replace what is there.
func (c *connection) push(ctx context.Context, branch, commit string) (tool.Result, error) {
	arguments := []string{"push", "--quiet", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no"}
	if _, err := c.reach(ctx, append(arguments, c.name, commit+":"+heads+branch)...); err != nil {
		return tool.Result{}, err
	}
	return c.pushResult(branch, commit), nil
}

func (c *connection) pushResult(branch, commit string) tool.Result {
	return sentence("Pushed the branch %s to %s. It is at %.12s there", branch, c.name, commit)
}

func pushDone(ctx context.Context, o *opened, _ tool.Call, in pushArguments) (tool.Result, bool, error) {
	branch, commit, err := o.localBranch(ctx, in.Branch)
	if err != nil {
		return tool.Result{}, false, err
	}
	c, err := o.connect(in.Remote)
	if err != nil {
		return tool.Result{}, false, err
	}

	there, err := c.tip(ctx, branch)
	if err != nil || there != commit {
		return tool.Result{}, false, err
	}
	return c.pushResult(branch, commit), true, nil
}
