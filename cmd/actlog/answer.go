package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/view/words"
)

type answerCmd struct {
	Plan     string   `arg:"" help:"Id of the plan of a run."`
	Wait     string   `arg:"" optional:"" help:"Id of a wait of the run, or of a run below it. Default: the only open one."`
	Decision string   `help:"What is decided: submit for a form; approve, reject; accept, reject, modify; done, retry, skip. Default: submit if there is a --value, else you are asked." placeholder:"DECISION"`
	Value    []string `help:"An answer to a field of the form, by its name, or by its label if it has none. Once for each field. Type passwords at the prompt instead: other users can see command lines." placeholder:"NAME=VALUE" sep:"none"`
	Text     string   `help:"What else there is to say: why it is rejected, what is to change." placeholder:"TEXT"`
	By       string   `help:"Who decides, as you say. The record has the name of the API key beside it." placeholder:"NAME"`
	List     bool     `help:"List what the run waits for, and answer nothing."`
	JSON     bool     `help:"Print the wait as JSON; with --list, all, one per line."`
	serverFlags
}

func (*answerCmd) Help() string {
	return `Without --decision, the command asks at the terminal. The first answer counts: a later one ends with exit
code 1. If the server has API keys, the key needs the scopes read and decide.`
}

func (c *answerCmd) Run(ctx context.Context, e *env, client *client) error {
	d, err := c.decided()
	if err != nil {
		return err
	}

	if err := client.wholeFrom(ctx, leastShortID, &c.Plan); err != nil {
		return err
	}
	r, _, err := client.readRun(ctx, c.Plan)
	if err != nil {
		return err
	}

	if c.List {
		return c.list(ctx, e, client, r.Waits)
	}

	w, err := c.choose(e, r)
	if err != nil {
		return err
	}

	if d.Decision == "" {
		p := newPrompt(e)
		if p == nil {
			return usageError("answer asks at a terminal, and stdin or stderr is none: pass --decision " +
				strings.Join(w.Decisions, "|") + ", and --value NAME=VALUE for each field of a form")
		}
		by := d.By
		if d, err = p.ask(ctx, w, func() bool { return true }); err != nil {
			return err
		}
		d.By = by
	}

	if err := w.check(d); err != nil {
		return err
	}

	answered, err := client.answer(ctx, c.Plan, w.WaitID, d)
	if err != nil {
		return tooLate(err)
	}

	if c.JSON {
		return printJSON(e.stdout, answered)
	}

	_, err = fmt.Fprintf(e.stdout, "%s: %s\n", words.Clean(w.WaitID), d.Decision)
	return err
}

// tooLate says plainly what it means that a server refused an answer.
func tooLate(err error) error {
	if _, late := errors.AsType[lateError](err); late {
		return fmt.Errorf("%w: somebody else answered, its time is over, or the run has ended", err)
	}
	return err
}

// decided is what the flags say.
func (c *answerCmd) decided() (d decide, err error) {
	d = decide{Decision: c.Decision, Text: c.Text, By: c.By}
	for _, value := range c.Value {
		name, text, ok := strings.Cut(value, "=")
		if _, twice := d.Values[name]; !ok || twice {
			return d, usageError(fmt.Sprintf("--value %s: must be NAME=VALUE, once for each name", words.Clean(name)))
		}
		if d.Values == nil {
			d.Values = map[string]string{}
		}
		d.Values[name] = text
	}

	if d.Decision == "" && d.Values != nil {
		d.Decision = decision.Submit
	}
	if d.Decision == "" && d.Text != "" {
		return d, usageError("--text goes with a --decision")
	}
	return d, nil
}

// choose returns the wait that is meant. If there are several, it lists them.
func (c *answerCmd) choose(e *env, r *runView) (*waitView, error) {
	if c.Wait == "" && len(r.Waits) == 1 {
		return &r.Waits[0], nil
	}

	ids := make([]string, len(r.Waits))
	for i := range r.Waits {
		ids[i] = r.Waits[i].WaitID
	}

	wait, err := pick("wait", c.Wait, ids)
	if err != nil {
		return nil, err
	}
	if len(c.Wait) < leastShortID { // the wait that is meant may have been answered, and another begin so
		wait = c.Wait
	}

	i := slices.Index(ids, wait)
	switch {
	case i >= 0:
		return &r.Waits[i], nil
	case len(r.Waits) == 0:
		return nil, fmt.Errorf("run %s is %s and waits for nothing", words.Clean(c.Plan), words.Clean(r.State))
	case c.Wait != "":
		return nil, fmt.Errorf("run %s has no open wait %s (actlog answer --list names them)", words.Clean(c.Plan),
			words.Clean(c.Wait))
	}

	v := newView(e.stderr)
	if v.waits(r.Waits); v.err != nil {
		return nil, v.err
	}
	return nil, usageError(fmt.Sprintf("run %s waits for %d answers: name one of them after the plan",
		words.Clean(c.Plan), len(r.Waits)))
}

func (c *answerCmd) list(ctx context.Context, e *env, client *client, waits []waitView) error {
	if !c.JSON {
		v := newView(e.stdout)
		v.waits(waits)
		return v.err
	}

	var r struct{ Waits []json.RawMessage }
	if err := client.get(ctx, named("run", c.Plan), runPath(c.Plan), &r); err != nil {
		return err
	}
	return encodeAll(json.NewEncoder(e.stdout), r.Waits)
}
