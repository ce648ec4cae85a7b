package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/actlog/actlog/agent/tool"
)

type pullArguments struct {
	Branch string `json:"branch,omitempty" jsonschema:"the branch of the remote; the one that is checked out if it is missing"`
	Remote string `json:"remote,omitempty" jsonschema:"a remote of the configuration of the toolset; origin, or the only one, if it is missing"`
}

var pullTool = writer[pullArguments]{
	name: "git.pull", description: "Brings the commits of a branch of a remote, and moves the branch that is checked " +
		"out forward to them. " +
		"It fails where the two went apart, or where changes that are not committed would be lost.",
	plan: planPull, done: pullDone, timeout: remoteTimeout, byID: true,
	touches: func(ctx context.Context, o *opened, _ pullArguments) ([]string, error) {
		_, branch, err := o.head(ctx)
		return []string{heads + branch}, err
	},
}

// planPull fetches on trial: whoever approves sees what comes, and gets that and nothing else.
func planPull(ctx context.Context, o *opened, call tool.Call, in pullArguments) (p plan, err error) {
	head, current, err := o.head(ctx)
	if err != nil {
		return p, err
	}
	if current == "" {
		return p, errors.New("no branch is checked out, so nothing can move forward; check one out first")
	}

	in.Branch = cmp.Or(in.Branch, current)
	if err := o.checkBranch(ctx, "branch", in.Branch); err != nil {
		return p, err
	}

	trial, err := o.trial()
	if err != nil {
		return p, err
	}
	c, err := trial.connect(in.Remote)
	if err != nil {
		return p, err
	}

	commit, err := c.coming(ctx, filepath.Join(o.private, "trial"), in.Branch)
	if err != nil {
		return p, err
	}
	if err := c.checkForward(ctx, head, commit, current, in.Branch); err != nil {
		return p, err
	}
	text, err := c.pulled(ctx, head, commit, current, in.Branch)
	if err != nil {
		return p, err
	}

	p.preview = tool.NewPreview(tool.PreviewDiff, text, c.remote.URL, in.Branch, current, head, commit)
	p.do = func(ctx context.Context) (tool.Result, error) { return o.pull(ctx, call, in, current, commit) }
	return p, nil
}

// coming fetches a branch without a trace in the references, and returns its commit.
func (c *connection) coming(ctx context.Context, objects, branch string) (string, error) {
	commit, err := c.tip(ctx, branch)
	if err != nil {
		return "", err
	}
	if commit == "" {
		return "", fmt.Errorf("branch: %s has no branch %s", c.name, branch)
	}

	here, err := c.has(ctx, commit)
	if here || err != nil {
		return commit, err
	}

	if err := c.fetch(ctx, objects, branch, "--refmap="); err != nil {
		return "", err
	}
	if here, err = c.has(ctx, commit); err == nil && !here {
		err = errors.New("the remote changed while it was read; try again")
	}
	return commit, err
}

func (c *connection) checkForward(ctx context.Context, head, commit, current, branch string) error {
	old, err := c.isAncestor(ctx, commit, head)
	if err != nil {
		return err
	}
	if old {
		return fmt.Errorf("there is nothing to pull: %s has all that is in %s of %s", current, branch, c.name)
	}

	forward, err := c.isAncestor(ctx, head, commit)
	if err == nil && !forward {
		err = fmt.Errorf("%s and %s of %s went apart, so it cannot move forward; that is left to people, or work on a "+
			"new branch", current, branch, c.name)
	}
	return err
}

// pulled returns what would come, for people. It fails if files of the server itself would change.
func (c *connection) pulled(ctx context.Context, head, commit, current, branch string) (string, error) {
	e, err := c.entries(ctx, head, commit)
	if err != nil {
		return "", err
	}
	if err := c.checkHidden(e); err != nil {
		return "", err
	}

	text, err := c.previewText(ctx, e.list(), []string{head, commit})
	return fmt.Sprintf("Pull %s of %s (%s), and move %s forward from %.12s to %.12s:\n\n%s",
		branch, c.name, c.remote.URL, current, head, commit, text), err
}

// pull fetches for good, and moves the branch forward.
func (o *opened) pull(
	ctx context.Context, call tool.Call, in pullArguments, current, commit string,
) (tool.Result, error) {
	c, err := o.connect(in.Remote)
	if err != nil {
		return tool.Result{}, err
	}
	if err := c.fetch(ctx, o.objects, in.Branch); err != nil {
		return tool.Result{}, err
	}

	here, err := o.has(ctx, commit)
	if err != nil {
		return tool.Result{}, err
	}
	if !here {
		return tool.Result{}, tool.ErrChanged
	}

	moved := o.with("GIT_REFLOG_ACTION=pull" + callNote(call))
	arguments := []string{
		"merge", "--quiet", "--ff-only", "--no-verify-signatures", "--no-autostash", "--no-stat", "--no-overwrite-ignore",
		commit,
	}
	if _, err := moved.execute(ctx, arguments...); err != nil {
		return tool.Result{}, err
	}
	return pullResult(current, commit), nil
}

func pullResult(branch, commit string) tool.Result {
	return sentence("Pulled: %s is at %.12s", branch, commit)
}

// pullDone finds a pull by the log of what was checked out.
func pullDone(ctx context.Context, o *opened, call tool.Call, _ pullArguments) (tool.Result, bool, error) {
	head, branch, err := o.head(ctx)
	if err != nil {
		return tool.Result{}, false, err
	}
	made, err := o.isMarked(ctx, "HEAD", call)
	return pullResult(branch, head), made, err
}
