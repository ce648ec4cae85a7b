package git

import (
	"context"
	"errors"
	"fmt"

	"github.com/actlog/actlog/agent/tool"
)

type addArguments struct {
	Files []string `json:"files" jsonschema:"paths of the files and folders to stage, also of deleted ones; . is all"`
}

var addTool = writer[addArguments]{
	name: "git.add", description: "Stages files for the next commit. git.commit with files does it by itself.",
	plan: planAdd, done: addDone, timeout: timeout,
	touches: func(_ context.Context, _ *opened, in addArguments) ([]string, error) { return in.Files, nil },
}

func planAdd(ctx context.Context, o *opened, _ tool.Call, in addArguments) (p plan, err error) {
	trial, e, err := o.toStage(ctx, in)
	if err != nil {
		return p, err
	}
	text, err := trial.previewText(ctx, e.list(), []string{"--cached"}, in.Files...)
	if err != nil {
		return p, err
	}

	p.preview = tool.NewPreview(tool.PreviewDiff, "Stage for the next commit:\n\n"+text, e.digest())
	p.do = func(ctx context.Context) (tool.Result, error) {
		if err := o.add(ctx, in.Files); err != nil {
			return tool.Result{}, err
		}
		return o.stagedResult(ctx)
	}
	return p, nil
}

// errNothingToStage says that the files are staged as they are.
var errNothingToStage = errors.New("there is nothing to stage: no file that is named changed, or all are staged")

// toStage returns the repository in which some files are staged on trial, and what is then staged of them.
func (o *opened) toStage(ctx context.Context, in addArguments) (trial *opened, e *entries, err error) {
	if len(in.Files) == 0 {
		return nil, nil, errors.New("files: name at least one; . is all")
	}
	if err := o.checkFiles(in.Files); err != nil {
		return nil, nil, err
	}
	if trial, err = o.trial(); err != nil {
		return nil, nil, err
	}
	if err := trial.add(ctx, in.Files); err != nil {
		return nil, nil, err
	}

	below := append([]string{"--cached", "--"}, in.Files...)
	if e, err = trial.entries(ctx, below...); err != nil {
		return nil, nil, err
	}
	before, err := o.entries(ctx, below...)
	if err != nil {
		return nil, nil, err
	}

	if before.digest() == e.digest() {
		return nil, nil, errNothingToStage
	}
	return trial, e, nil
}

func (o *opened) stagedResult(ctx context.Context) (tool.Result, error) {
	e, err := o.entries(ctx, "--cached")
	if err != nil {
		return tool.Result{}, unknownOutcome("read what is staged", err)
	}
	n := len(e.all())
	return tool.Result{
		Text: "Staged. The next commit has:\n" + e.list(), Summary: fmt.Sprintf("Staged, files in all: %d", n),
	}, nil
}

// addDone reports whether the files are staged as they are now.
func addDone(ctx context.Context, o *opened, _ tool.Call, in addArguments) (tool.Result, bool, error) {
	_, _, err := o.toStage(ctx, in)
	if !errors.Is(err, errNothingToStage) {
		return tool.Result{}, false, err
	}
	result, err := o.stagedResult(ctx)
	return result, err == nil, err
}
