package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
)

type deleteCmd struct {
	Plans []string `arg:"" name:"plan" help:"Id of a root plan."`
	Yes   bool     `help:"Do not ask. Required if stdin is no terminal."`
	serverFlags
}

func (*deleteCmd) Help() string {
	return `A plan that still runs is deleted too; what its agents write later makes it again. If the server has API keys, the
key needs the scope admin.`
}

var errKept = errors.New("nothing was deleted")

func (c *deleteCmd) Run(ctx context.Context, e *env, client *client) error {
	least := leastShortID
	if c.Yes { // nobody sees which plan is meant
		least = math.MaxInt
	}
	for i := range c.Plans {
		if err := client.wholeFrom(ctx, least, &c.Plans[i]); err != nil {
			return err
		}
	}

	if !c.Yes {
		question := fmt.Sprintf("Delete %s and everything below from %s, for good?", joined(c.Plans), c.Server)
		if err := confirm(ctx, e, "delete", question); err != nil {
			return err
		}
	}

	var errs []error
	for _, id := range c.Plans {
		err := client.delete(ctx, id)
		if failed, ok := errors.AsType[*callError](err); errors.Is(err, errNotOnRecord) || ok && failed.refused {
			errs = append(errs, err) // the others may be on record
			continue
		}
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		fmt.Fprintf(e.stdout, "deleted %s\n", terminal.Line(id))
	}
	return errors.Join(errs...)
}

// confirm asks at a terminal whether a command is to do what it cannot undo. It returns nil after a yes.
func confirm(ctx context.Context, e *env, command, question string) error {
	if f, ok := e.stdin.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return usageError(command + " asks at a terminal, and stdin is none: pass --yes to go on without a question")
	}

	fmt.Fprintf(e.stderr, "%s [y/N] ", question)
	input := interruptible(ctx, e.stdin)
	defer input.Close()
	answer, err := bufio.NewReader(input).ReadString('\n')
	if err != nil {
		fmt.Fprintln(e.stderr)
	}

	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errKept
}

func (c *client) delete(ctx context.Context, id string) error {
	_, err := c.call(ctx, named("plan", id), http.MethodDelete, planPath(id), nil, nil)
	return err
}
