package git

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

type stashed struct{ commit, message string }

// maxStashes bounds the stashes that there are for the tools: the newest ones.
const maxStashes = 200

// stashes returns what was put aside, the newest first.
func (o *opened) stashes(ctx context.Context) (all []stashed, err error) {
	if _, err := o.hashOf(ctx, "refs/stash"); err != nil {
		return nil, ctx.Err() // there are none
	}

	out, err := o.logOf(ctx, "-g", "-z", "--no-patch", "-n", strconv.Itoa(maxStashes), "--format=%H %gs", "refs/stash",
		"--")
	if err != nil && !errors.Is(err, errTooLong) {
		return nil, err
	}

	for line := range strings.SplitSeq(string(out), "\x00") {
		if commit, message, ok := strings.Cut(line, " "); ok {
			all = append(all, stashed{commit, message})
		}
	}
	return all, nil
}

func (o *opened) listStashes(ctx context.Context, _ struct{}) (tool.Result, error) {
	all, err := o.stashes(ctx)
	if err != nil {
		return tool.Result{}, err
	}

	var text strings.Builder
	for _, each := range all {
		fmt.Fprintf(&text, "%.12s %s\n", each.commit, shown(each.message))
	}
	if len(all) == 0 {
		text.WriteString("Nothing is stashed.")
	}
	return tool.Result{Text: text.String(), Summary: fmt.Sprintf("Stashes: %d", len(all))}, nil
}

type stashArguments struct {
	Action  string `json:"action" jsonschema:"push: put the changes aside that are not committed; pop: bring a stash back; drop: delete one"`
	Message string `json:"message,omitempty" jsonschema:"of push: what it is"`
	Stash   string `json:"stash,omitempty" jsonschema:"of pop and drop: the stash, by the hash that git.stashes lists"`
}

// The actions of git.stash.
const (
	pushStash = "push"
	popStash  = "pop"
	dropStash = "drop"
)

var stashTool = writer[stashArguments]{
	name: "git.stash", description: "Puts changes of tracked files aside that are not committed, brings them back, or " +
		"deletes what was put aside. " +
		"git.stashes lists what there is, and git.show shows it.",
	plan: planStash, done: stashDone, touches: stashTouches, timeout: timeout,
}

func (in stashArguments) check() error {
	switch {
	case !slices.Contains([]string{pushStash, popStash, dropStash}, in.Action):
		return fmt.Errorf("action: %q is not push, pop or drop", in.Action)
	case in.Action == pushStash && in.Stash != "":
		return errors.New("stash: it goes with pop and drop; push makes a new one")
	case in.Action != pushStash && !commitName.MatchString(in.Stash):
		return errors.New("stash: name it by the hash that git.stashes lists")
	case in.Action != pushStash && in.Message != "":
		return errors.New("message: it goes with push")
	case strings.ContainsAny(in.Message, "\x00\n\r") || len(in.Message) > 1000:
		return errors.New("message: it is one line of at most 1,000 bytes")
	case trailerLine.MatchString(in.Message) || strings.Contains(in.Message, trailer):
		return fmt.Errorf("message: %s is written by the tool; leave it out", trailer)
	}
	return nil
}

func planStash(ctx context.Context, o *opened, call tool.Call, in stashArguments) (plan, error) {
	if err := in.check(); err != nil {
		return plan{}, err
	}
	if in.Action == pushStash {
		return o.planPush(ctx, call, in)
	}
	return o.planPop(ctx, in)
}

func (o *opened) planPush(ctx context.Context, call tool.Call, in stashArguments) (p plan, err error) {
	if _, _, err := o.head(ctx); err != nil {
		return p, err
	}
	e, err := o.entries(ctx, "HEAD")
	if err != nil {
		return p, err
	}

	if len(e.all()) == 0 {
		return p, errors.New("there is nothing to stash: no tracked file changed")
	}
	if err := o.checkHidden(e); err != nil {
		return p, err
	}
	for _, each := range e.all() {
		if each.change == "U" {
			return p, conflict(each.path)
		}
	}

	text, err := o.previewText(ctx, e.list(), []string{"HEAD"})
	if err != nil {
		return p, err
	}
	digest, err := o.digest(ctx, "HEAD")
	if err != nil {
		return p, err
	}

	p.preview = tool.NewPreview(tool.PreviewDiff, "Put aside, and take out of the files:\n\n"+text, in.Message, digest)
	p.do = func(ctx context.Context) (tool.Result, error) { return o.pushStash(ctx, call, in) }
	return p, nil
}

// digest returns a hash of how files differ, with all that is in them.
func (o *opened) digest(ctx context.Context, of ...string) (string, error) {
	sum := sha256.New()
	command := []string{"diff", "--binary", "--full-index", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/"}
	err := o.pipe(ctx, o.root, o.env, "", sum, slices.Concat(command, plainDiff, of)...)
	return hex.EncodeToString(sum.Sum(nil)), err
}

func (o *opened) pushStash(ctx context.Context, call tool.Call, in stashArguments) (tool.Result, error) {
	if err := o.makeLogs(); err != nil {
		return tool.Result{}, err
	}

	message := cmp.Or(in.Message, "by git.stash")
	if _, err := o.execute(ctx, "stash", "push", "--quiet", "--no-include-untracked",
		"--message="+message+callNote(call)); err != nil {
		return tool.Result{}, err
	}

	// The stash was made, so a failure to read it is an unknown outcome.
	all, err := o.stashes(ctx)
	if err != nil || len(all) == 0 {
		return tool.Result{}, unknownOutcome("read the new stash", errors.Join(err, errors.New("it is not there")))
	}
	return sentence("Stashed as %.12s", all[0].commit), nil
}

func (o *opened) find(ctx context.Context, name string) (found stashed, number int, err error) {
	all, err := o.stashes(ctx)
	if err != nil {
		return found, 0, err
	}

	number = slices.IndexFunc(all, func(s stashed) bool { return strings.HasPrefix(s.commit, name) })
	if number < 0 {
		return found, 0, fmt.Errorf("stash: there is no stash %s; git.stashes lists them", name)
	}
	return all[number], number, nil
}

// planPop brings a stash back, or deletes it.
func (o *opened) planPop(ctx context.Context, in stashArguments) (p plan, err error) {
	s, number, err := o.find(ctx, in.Stash)
	if err != nil {
		return p, err
	}
	e, err := o.inStash(ctx, s)
	if err != nil {
		return p, err
	}

	text, err := o.previewText(ctx, e, []string{s.commit + "^1", s.commit})
	if err != nil {
		return p, err
	}

	what := "Bring back, and delete the stash"
	if in.Action == dropStash {
		what = "Delete, so that nobody finds it any more, the stash"
	}

	text = fmt.Sprintf("%s %.12s (%s):\n\n%s", what, s.commit, shown(s.message), text)
	p.preview = tool.NewPreview(tool.PreviewDiff, text, s.commit)
	p.do = func(ctx context.Context) (tool.Result, error) {
		name := fmt.Sprintf("stash@{%d}", number)
		if _, err := o.execute(ctx, "stash", in.Action, "--quiet", name); err != nil {
			return tool.Result{}, err
		}
		return popped(in, s.commit), nil
	}
	return p, nil
}

func popped(in stashArguments, commit string) tool.Result {
	if in.Action == dropStash {
		return sentence("Deleted the stash %.12s", commit)
	}
	return sentence("Brought back the stash %.12s", commit)
}

// inStash lists the files in a stash. It fails if files of the server itself are among them.
func (o *opened) inStash(ctx context.Context, s stashed) (string, error) {
	e, err := o.entries(ctx, s.commit+"^1", s.commit)
	if err != nil {
		return "", err
	}
	if err := o.checkHidden(e); err != nil {
		return "", err
	}
	if _, err := o.hashOf(ctx, s.commit+"^3"); err != nil {
		return e.list(), ctx.Err()
	}

	// People stash files that are not tracked as well.
	none, err := o.emptyTree(ctx)
	if err != nil {
		return "", err
	}
	untracked, err := o.entries(ctx, none, s.commit+"^3")
	if err != nil {
		return "", err
	}
	return e.list() + untracked.list(), o.checkHidden(untracked)
}

// stashDone finds a new stash by its message, and sees whether an old one is gone.
func stashDone(ctx context.Context, o *opened, call tool.Call, in stashArguments) (tool.Result, bool, error) {
	if err := in.check(); err != nil {
		return tool.Result{}, false, err
	}

	all, err := o.stashes(ctx)
	if err != nil {
		return tool.Result{}, false, err
	}
	for _, each := range all {
		if in.Action == pushStash && callNote(call) != "" && strings.HasSuffix(each.message, callNote(call)) {
			return sentence("Stashed as %.12s", each.commit), true, nil
		}
		if in.Action != pushStash && strings.HasPrefix(each.commit, in.Stash) {
			return tool.Result{}, false, nil
		}
	}

	if in.Action == pushStash {
		return tool.Result{}, false, nil
	}
	_, err = o.commitOf(ctx, "stash", in.Stash) // it was one, if it is there at all
	return popped(in, in.Stash), err == nil, nil
}

func stashTouches(ctx context.Context, o *opened, in stashArguments) ([]string, error) {
	if err := in.check(); err != nil {
		return nil, err
	}

	of := []string{"HEAD"}
	if in.Action != pushStash {
		s, _, err := o.find(ctx, in.Stash)
		if err != nil {
			return nil, err
		}
		of = []string{s.commit + "^1", s.commit}
	}

	e, err := o.entries(ctx, of...)
	if err != nil {
		return nil, err
	}
	return e.paths(), nil
}
