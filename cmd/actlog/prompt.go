package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/view/words"
)

// prompt asks a human at a terminal. It is for one goroutine.
type prompt struct {
	terminal *os.File
	lines    *bufio.Reader // of the terminal, which delivers one line at a time
	view     *view         // for what a question is about
	question func(string) (answered func())
}

// newPrompt returns a prompt; nil if stdin and stderr are no terminal.
func newPrompt(e *env) *prompt {
	in, ok := e.stdin.(*os.File)
	out, shown := terminal.Raw(e.stderr).(*os.File)
	if !ok || !shown || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil
	}
	return &prompt{
		terminal: in, lines: bufio.NewReader(in), view: newView(e.stderr),
		question: func(text string) func() { fmt.Fprint(e.stderr, text); return func() {} },
	}
}

// line asks for a line. A hidden one is not shown while it is typed. When ctx ends, the error is its cause,
// and the terminal is as it was; the read goes on in the background.
func (p *prompt) line(ctx context.Context, question string, hidden bool) (text string, err error) {
	type answer struct {
		text string
		err  error
	}

	fd := int(p.terminal.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, term.Restore(fd, before)) }()

	if hidden { // before the question: somebody types fast
		if err := terminal.Hide(fd); err != nil {
			return "", err
		}
	}

	done := p.question(question)
	answered := make(chan answer, 1)
	go func() {
		if hidden {
			text, err := term.ReadPassword(fd)
			answered <- answer{string(text), err}
			return
		}
		text, err := p.lines.ReadString('\n')
		answered <- answer{strings.TrimRight(text, "\r\n"), err}
	}()

	select {
	case a := <-answered:
		done()
		if hidden || a.err != nil {
			fmt.Fprintln(p.view.w)
		}
		if errors.Is(a.err, io.EOF) {
			a.err = errNoAnswer
		}
		return a.text, a.err
	case <-ctx.Done():
		done()
		fmt.Fprintln(p.view.w)
		return "", context.Cause(ctx)
	}
}

// ask asks what is to be decided about a wait. open reports whether it still waits; when it does not, the
// error is [errDecided].
func (p *prompt) ask(ctx context.Context, w *waitView, open func() bool) (d decide, err error) {
	w.draw(p.view)
	if slices.Contains(w.Decisions, decision.Submit) {
		d.Decision = decision.Submit
		d.Values, err = p.form(ctx, w, open)
		return d, err
	}
	if len(w.Decisions) == 0 {
		return d, errNoAnswer
	}

	for d.Decision == "" {
		line, err := p.line(ctx, strings.Join(w.Decisions, ", ")+"? ", false)
		switch {
		case err != nil:
			return d, err
		case !open():
			return d, errDecided
		}
		d.Decision = chosen(w.Decisions, line)
	}

	question := map[string]string{
		decision.Reject: "Why? (may be empty) ", decision.Modify: "What is to change? ",
	}[d.Decision]
	for question != "" {
		if d.Text, err = p.line(ctx, question, false); err != nil {
			return d, err
		}
		if !open() {
			return d, errDecided
		}
		if err = w.check(d); err == nil {
			break
		}
		p.view.line("", p.view.red(err.Error()))
	}
	return d, nil
}

var (
	errDecided  = errors.New("somebody else answered meanwhile, or its time is over")
	errNoAnswer = errors.New("no answer was given")
)

// chosen returns the decision that a line begins; empty: none, or several.
func chosen(decisions []string, line string) (found string) {
	line = strings.ToLower(strings.TrimSpace(line))
	for _, d := range decisions {
		switch {
		case d == line:
			return d
		case line == "" || !strings.HasPrefix(d, line):
		case found != "":
			return ""
		default:
			found = d
		}
	}
	return found
}

// form asks for the fields of a form, each until its answer is right.
func (p *prompt) form(ctx context.Context, w *waitView, open func() bool) (map[string]string, error) {
	form, err := decision.ReadForm(w.FormInputs)
	if err != nil {
		return nil, err
	}

	values := map[string]string{}
	for _, field := range form {
		for {
			line, err := p.line(ctx, fieldQuestion(field), strings.EqualFold(field["type"], "password"))
			switch {
			case err != nil:
				return nil, err
			case !open():
				return nil, errDecided
			}

			wrong := decision.Check(field, line)
			if wrong == "" {
				values[decision.Key(field)] = line
				break
			}
			p.view.line("  ", p.view.red(words.Clean(wrong)))
		}
	}

	return values, nil
}

// fieldQuestion says what a field of a form is to hold.
func fieldQuestion(field map[string]string) string {
	var hints []string
	if options := decision.Options(field); options != nil {
		hints = append(hints, "of "+terminal.Line(strings.Join(options, ", ")))
	} else if kind := terminal.Line(field["type"]); kind != "" && kind != "text" {
		hints = append(hints, kind)
	}
	if hint := words.Shorten(field["placeholder"], 100); hint != "" {
		hints = append(hints, "such as "+hint)
	}
	if strings.EqualFold(field["required"], "true") {
		hints = append(hints, "required")
	}

	question := terminal.Line(field["label"])
	if len(hints) > 0 {
		question += " (" + strings.Join(hints, "; ") + ")"
	}
	return question + ": "
}
