package git

import (
	"context"
	"errors"
	"fmt"

	"github.com/actlog/actlog/agent/tool"
)

type checkoutArguments struct {
	Branch string `json:"branch" jsonschema:"the branch to switch to"`
	Create bool   `json:"create,omitempty" jsonschema:"create the branch"`
	Start  string `json:"start,omitempty" jsonschema:"of a new branch: the commit, branch or tag at which it begins; HEAD if it is missing"`
}

var checkoutTool = writer[checkoutArguments]{
	name: "git.checkout", description: "Switches to a branch, which it can create: the files change to what the " +
		"branch has. " +
		"It fails if changes that are not committed would be lost; commit or stash them first.",
	plan: planCheckout, done: checkoutDone, timeout: timeout,
	touches: func(ctx context.Context, o *opened, in checkoutArguments) ([]string, error) {
		s, err := o.toSwitch(ctx, in)
		if err != nil {
			return nil, err
		}
		return append([]string{heads + in.Branch}, s.changed.paths()...), nil
	},
}

type switching struct {
	head, from string // what is checked out: the commit, and the branch if it is one
	to         string // the commit of the other branch
	changed    *entries
}

func (o *opened) toSwitch(ctx context.Context, in checkoutArguments) (s switching, err error) {
	if err := o.checkBranch(ctx, "branch", in.Branch); err != nil {
		return s, err
	}
	if s.head, s.from, err = o.head(ctx); err != nil {
		return s, err
	}
	if s.to, err = o.target(ctx, s, in); err != nil {
		return s, err
	}
	if err := o.elsewhere(in.Branch); err != nil {
		return s, err
	}

	if s.changed, err = o.entries(ctx, s.head, s.to); err != nil {
		return s, err
	}
	return s, o.checkHidden(s.changed)
}

// target returns the commit that is to be checked out.
func (o *opened) target(ctx context.Context, s switching, in checkoutArguments) (string, error) {
	at, err := o.branchAt(ctx, in.Branch)
	switch {
	case err != nil:
		return "", err
	case in.Create && at != "":
		return "", fmt.Errorf("create: there is a branch %s already, at %.12s; leave create out to switch to it", in.Branch,
			at)
	case in.Create && in.Start == "":
		return s.head, nil
	case in.Create:
		return o.commitOf(ctx, "start", in.Start)
	case in.Start != "":
		return "", errors.New("start: it goes with create, which is missing")
	case at == "":
		return "", fmt.Errorf("branch: there is no branch %s; git.branches lists them, and create: true creates one, "+
			"also from one of a remote with start", in.Branch)
	case in.Branch == s.from:
		return "", fmt.Errorf("branch: %s is checked out already", in.Branch)
	}
	return at, nil
}

func planCheckout(ctx context.Context, o *opened, _ tool.Call, in checkoutArguments) (p plan, err error) {
	s, err := o.toSwitch(ctx, in)
	if err != nil {
		return p, err
	}
	subject, err := o.subjectOf(ctx, s.to)
	if err != nil {
		return p, err
	}

	what := "Switch"
	if in.Create {
		what = "Create the branch " + in.Branch + " and switch"
	}

	text := fmt.Sprintf("%s from %s to %s, at %s. Files that change:\n\n%s", what, o.branch(ctx), in.Branch, subject,
		s.changed.list())
	p.preview = tool.NewPreview(tool.PreviewText, text, s.head, s.from, s.to)
	p.do = func(ctx context.Context) (tool.Result, error) { return o.checkout(ctx, s, in) }
	return p, nil
}

func (o *opened) checkout(ctx context.Context, s switching, in checkoutArguments) (tool.Result, error) {
	arguments := []string{
		"checkout", "--quiet", "--no-guess", "--no-recurse-submodules", "--no-overwrite-ignore", "--no-track",
	}
	if in.Create {
		arguments = append(arguments, "-b", in.Branch, s.to)
	} else {
		arguments = append(arguments[:len(arguments)-1], in.Branch)
	}

	if _, err := o.execute(ctx, append(arguments, "--")...); err != nil {
		return tool.Result{}, err
	}
	return sentence("Switched to the branch %s, at %.12s. Files that changed: %d", in.Branch, s.to,
		len(s.changed.all())), nil
}

func checkoutDone(ctx context.Context, o *opened, _ tool.Call, in checkoutArguments) (tool.Result, bool, error) {
	head, branch, err := o.head(ctx)
	if err != nil || branch != in.Branch {
		return tool.Result{}, false, err
	}
	return branchResult(fmt.Sprintf("The branch %s is checked out, at %.12s.", branch, head)), true, nil
}
