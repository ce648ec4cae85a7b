package git

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

// branchInfo is a branch, as git.branches returns it as JSON.
type branchInfo struct {
	Name     string `json:"name"`
	Commit   string `json:"commit"`
	Subject  string `json:"subject"`
	Upstream string `json:"upstream,omitempty"`
	Current  bool   `json:"current,omitempty"`
	Remote   bool   `json:"remote,omitempty"` // as it was when it was fetched last
}

const maxBranches = 500

func (o *opened) branches(ctx context.Context, _ struct{}) (tool.Result, error) {
	out, err := o.execute(ctx, "for-each-ref", "--count="+strconv.Itoa(maxBranches), "--sort=-committerdate",
		"--format=%(refname)%00%(objectname)%00%(upstream:short)%00%(HEAD)%00%(symref)%00%(contents:subject)%00",
		"refs/heads", "refs/remotes")
	if err != nil && !errors.Is(err, errTooLong) {
		return tool.Result{}, err
	}
	return branchesResult(parseBranches(string(out)), err != nil)
}

// parseBranches reads what git for-each-ref writes, without a last part that is not whole.
func parseBranches(out string) []branchInfo {
	all := []branchInfo{}
	for fields := strings.Split(out, "\x00"); len(fields) > 6; fields = fields[6:] {
		name := strings.TrimPrefix(fields[0], "\n")
		if fields[4] != "" { // such as origin/HEAD
			continue
		}

		b := branchInfo{Commit: fields[1], Upstream: fields[2], Current: fields[3] == "*", Subject: fields[5]}
		if b.Name, b.Remote = strings.CutPrefix(name, "refs/remotes/"); !b.Remote {
			b.Name = strings.TrimPrefix(name, heads)
		}
		all = append(all, b)
	}
	return all
}

func branchesResult(all []branchInfo, more bool) (tool.Result, error) {
	var text strings.Builder
	for _, b := range all {
		mark := " "
		if b.Current {
			mark = "*"
		}
		fmt.Fprintf(&text, "%s %s %.12s %s", mark, shown(b.Name), b.Commit, shown(b.Subject))
		if b.Upstream != "" {
			fmt.Fprintf(&text, " (follows %s)", shown(b.Upstream))
		}
		text.WriteByte('\n')
	}

	switch {
	case len(all) == 0:
		text.WriteString("There are no branches.")
	case more || len(all) >= maxBranches:
		text.WriteString("... (there are more)\n")
	}

	data, err := json.Marshal(all)
	return tool.Result{Text: text.String(), Summary: fmt.Sprintf("Branches: %d", len(all)), Data: data}, err
}

type branchArguments struct {
	Name   string `json:"name" jsonschema:"the branch"`
	Start  string `json:"start,omitempty" jsonschema:"of a new branch: the commit, branch or tag at which it begins; HEAD if it is missing"`
	Delete bool   `json:"delete,omitempty" jsonschema:"delete the branch, whose commits must be in the one that is checked out"`
}

var branchTool = writer[branchArguments]{
	name: "git.branch", description: "Creates a branch, without switching to it, or deletes one that is merged. " +
		"git.branches lists them.",
	plan: planBranch, done: branchDone, timeout: timeout,
	touches: func(_ context.Context, _ *opened, in branchArguments) ([]string, error) {
		return []string{heads + in.Name}, nil
	},
}

func planBranch(ctx context.Context, o *opened, call tool.Call, in branchArguments) (plan, error) {
	if err := o.checkBranch(ctx, "name", in.Name); err != nil {
		return plan{}, err
	}

	at, err := o.branchAt(ctx, in.Name)
	switch {
	case err != nil:
		return plan{}, err
	case in.Delete && in.Start != "":
		return plan{}, errors.New("start: it is for a new branch; leave it out to delete one")
	case in.Delete && at == "":
		return plan{}, fmt.Errorf("name: there is no branch %s; git.branches lists them", in.Name)
	case in.Delete:
		return o.planDelete(ctx, call, in.Name, at)
	case at != "":
		return plan{}, fmt.Errorf("name: there is a branch %s already, at %.12s", in.Name, at)
	}
	return o.planCreate(ctx, call, in)
}

func (o *opened) planCreate(ctx context.Context, call tool.Call, in branchArguments) (p plan, err error) {
	in.Start = cmp.Or(in.Start, "HEAD")

	commit, err := o.commitOf(ctx, "start", in.Start)
	if err != nil {
		return p, err
	}
	subject, err := o.subjectOf(ctx, commit)
	if err != nil {
		return p, err
	}

	p.preview = tool.NewPreview(tool.PreviewText, fmt.Sprintf("Create the branch %s at %s.", in.Name, subject), commit)
	p.do = func(ctx context.Context) (tool.Result, error) {
		if _, err := o.execute(ctx, "update-ref", "--create-reflog", "-m", "branch: by git.branch"+callNote(call),
			heads+in.Name, commit, ""); err != nil {
			return tool.Result{}, err
		}
		return branchResult(fmt.Sprintf("Created the branch %s at %s.", in.Name, subject)), nil
	}
	return p, nil
}

// callNote returns the note with the id of a call that is appended to the log of a reference or to the message of a
// stash. The verifier finds the call by it.
func callNote(call tool.Call) string {
	if !callID.MatchString(call.ID) {
		return ""
	}
	return " (" + trailer + ": " + call.ID + ")"
}

func branchResult(text string) tool.Result { return tool.Result{Text: text, Summary: text} }

func (o *opened) planDelete(ctx context.Context, call tool.Call, name, at string) (p plan, err error) {
	head, branch, err := o.head(ctx)
	if err != nil {
		return p, err
	}
	if branch == name {
		return p, fmt.Errorf("name: %s is checked out; switch to another branch first", name)
	}
	if err := o.elsewhere(name); err != nil {
		return p, err
	}

	merged, err := o.isAncestor(ctx, at, head)
	if err != nil {
		return p, err
	}
	if !merged {
		return p, fmt.Errorf("name: %s has commits that are not in the branch that is checked out, and would be lost; "+
			"it is left to people to delete it", name)
	}

	subject, err := o.subjectOf(ctx, at)
	if err != nil {
		return p, err
	}

	text := fmt.Sprintf("Delete the branch %s, which is at %s. Its commits are in %s.", name, subject, o.branch(ctx))
	p.preview = tool.NewPreview(tool.PreviewText, text, at)
	p.do = func(ctx context.Context) (tool.Result, error) {
		if _, err := o.execute(ctx, "update-ref", "-m", "branch: by git.branch"+callNote(call), "-d", heads+name,
			at); err != nil {
			return tool.Result{}, err
		}
		return branchResult(fmt.Sprintf("Deleted the branch %s, which was at %s.", name, subject)), nil
	}
	return p, nil
}

// branchDone finds a new branch by what its log says, and sees whether a deleted one is gone.
func branchDone(
	ctx context.Context, o *opened, call tool.Call, in branchArguments,
) (result tool.Result, done bool, err error) {
	if err := o.checkBranch(ctx, "name", in.Name); err != nil {
		return result, false, err
	}

	at, err := o.branchAt(ctx, in.Name)
	switch {
	case err != nil:
		return result, false, err
	case in.Delete:
		return branchResult(fmt.Sprintf("Deleted the branch %s.", in.Name)), at == "", nil
	case at == "":
		return result, false, nil
	}

	made, err := o.isMarked(ctx, heads+in.Name, call)
	return branchResult(fmt.Sprintf("Created the branch %s. It is at %.12s.", in.Name, at)), made, err
}

// isMarked reports whether the log of a reference names a call, among its newest entries.
func (o *opened) isMarked(ctx context.Context, reference string, call tool.Call) (bool, error) {
	if callNote(call) == "" {
		return false, nil
	}

	out, err := o.logOf(ctx, "-g", "-z", "--no-patch", "-n", strconv.Itoa(maxSearched), "--format=%gs", reference, "--")
	if err != nil && !errors.Is(err, errTooLong) {
		return false, err
	}
	return strings.Contains(string(out), callNote(call)), nil
}
