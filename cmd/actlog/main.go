// Command actlog serves the execution record of LLM agents, migrates its database and shows
// what is on record.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/actlog/actlog/agent/sandbox"
	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
)

func main() {
	// Before anything else: every command may hold keys and passwords.
	if err := sandbox.HideProcess(); err != nil {
		fmt.Fprintf(os.Stderr, "actlog: other programs may read the secrets of this process: %v\n", err)
	}

	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		received := <-signals
		signal.Stop(signals) // a second signal ends the program at once
		end(interruption{received.(syscall.Signal)})
	}()

	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// The program's exit codes. A command that a signal stopped before it was done has that of
// [interruption].
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// interruption is the signal that stopped a command before it was done.
type interruption struct{ syscall.Signal }

func (i interruption) Error() string {
	return "stopped by " + map[syscall.Signal]string{syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM"}[i.Signal]
}

// exitCode is the one that shells have for commands that a signal ended: 130 after Ctrl-C, 143
// after SIGTERM.
func (i interruption) exitCode() int { return 128 + int(i.Signal) }

// cli is the command line. Every flag is also an environment variable: ACTLOG_ and the name of
// the flag in capitals, unless its tag says otherwise.
type cli struct {
	LogLevel slog.Level `help:"Lowest level that is logged: debug, info, warn, error." default:"info" placeholder:"LEVEL"`

	Serve    serveCmd    `cmd:"" help:"Serve the record. Without --database-url, on a private Postgres in the data folder."`
	Work     workCmd     `cmd:"" help:"Run agents on the record of a server, with a configuration."`
	Run      runCmd      `cmd:"" help:"Run an agent: follow it, answer what it asks, and print its result."`
	Runs     runsCmd     `cmd:"" help:"List runs of agents, newest first."`
	Agents   agentsCmd   `cmd:"" help:"List the agents that can be run: their models, tools and live workers."`
	Tools    toolsCmd    `cmd:"" help:"List the tools of agents, and how each may be called."`
	Models   modelsCmd   `cmd:"" help:"List the models of agents."`
	Stop     stopCmd     `cmd:"" help:"Stop a run and all runs below it."`
	Pause    pauseCmd    `cmd:"" help:"Pause a run and all runs below it."`
	Resume   resumeCmd   `cmd:"" help:"Let a paused run go on."`
	Retry    retryCmd    `cmd:"" help:"Let a run go on that has ended, as another attempt of what failed."`
	Again    againCmd    `cmd:"" help:"Start a run with the input of another one."`
	Fork     forkCmd     `cmd:"" help:"Start a run that goes on from a row of another one."`
	Try      tryCmd      `cmd:"" help:"Make a model call of a plan again with a model of the configuration, and show both answers."`
	Say      sayCmd      `cmd:"" help:"Say something to a run at work."`
	Answer   answerCmd   `cmd:"" help:"Answer what a run waits for: a form, an approval."`
	Event    eventCmd    `cmd:"" help:"Send an event to the runs that wait for it, and print how many it woke."`
	Schedule scheduleCmd `cmd:"" help:"List and show schedules, pause and resume them, and start what they start."`
	Migrate  migrateCmd  `cmd:"" help:"Migrate the schema of a database up or down."`
	Ready    readyCmd    `cmd:"" help:"Check whether a server is ready. Exit code 1: it is not ready, or does not answer."`
	Key      keyCmd      `cmd:"" help:"Create an API key and print it once, on stdout. Servers accept it if its line is in their --api-keys file."`
	Show     showCmd     `cmd:"" help:"Show a plan as a tree, or a step with its cycles."`
	List     listCmd     `cmd:"" help:"List root plans, newest first."`
	Search   searchCmd   `cmd:"" help:"Show which runs say a text, and where, newest run first."`
	Tail     tailCmd     `cmd:"" help:"Follow a plan until it has ended, or all plans."`
	Unknown  unknownCmd  `cmd:"" help:"List what arrived over OTLP and is not shown, and why."`
	MCP      mcpCmd      `cmd:"" name:"mcp" help:"Give an assistant the record of a server as tools: the Model Context Protocol on stdin and stdout."`
	Delete   deleteCmd   `cmd:"" help:"Delete root plans and everything below them, for good."`
	Export   exportCmd   `cmd:"" help:"Write the tree of a plan as records, one per line, for import."`
	Import   importCmd   `cmd:"" help:"Write the records of files to a server."`
	Psql     psqlCmd     `cmd:"" help:"Open psql, or another client, on the configured or the private database."`
	Verify   verifyCmd   `cmd:"" help:"Check that all long prompts can be put together from their parts. Exit code 1: some cannot."`
	Price    priceCmd    `cmd:"" help:"List, set, delete or apply the prices of models."`
	Config   configCmd   `cmd:"" help:"Check a configuration file."`
	Demo     demoCmd     `cmd:"" help:"Serve, and run an example agent, whose worker is killed on the way."`

	Completion completionCmd `cmd:"" help:"Print the completion script of a shell."`
	Complete   completeCmd   `cmd:"" hidden:""`

	Version     versionCmd       `cmd:"" help:"Print the version."`
	VersionFlag kong.VersionFlag `name:"version" help:"Print the version." env:"-"`
}

// env is what the commands read, write and log to. What they write is made safe for a terminal on the way out.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	log            *slog.Logger
}

// run parses args, runs the command that they name, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c cli
	exit := -1
	out, errs := terminal.New(stdout), terminal.New(stderr) // what the commands write
	defer func() { _ = errors.Join(out.Flush(), errs.Flush()) }()

	options := []kong.Option{
		kong.Name("actlog"),
		kong.Description("The execution record of LLM agents, kept in Postgres."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = code }),
		kong.DefaultEnvars("ACTLOG"),
		kong.PostBuild(chooseVariables),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"version": version(), "server": defaultServer},
		kong.BindTo(ctx, (*context.Context)(nil)),
	}
	parser, err := kong.New(&c, options...)
	if err != nil {
		panic(err) // the tags of cli are wrong
	}

	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if exit >= 0 { // help or version was printed
		return exit
	}
	if err != nil {
		fmt.Fprintf(errs, "actlog: %s\n", err)
		var parseError *kong.ParseError
		if errors.As(err, &parseError) && parseError.Context != nil && parseError.Context.Command() != "" {
			fmt.Fprintf(errs, "Run \"actlog %s --help\" for its arguments and flags.\n", commandName(parseError.Context))
		} else {
			fmt.Fprintln(errs, `Run "actlog --help" for the commands.`)
		}
		return exitUsage
	}

	e := &env{
		stdin: os.Stdin, stdout: out, stderr: errs,
		log: slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: c.LogLevel})),
	}
	if err = parsed.Run(e); err == nil {
		return exitDone
	}

	fmt.Fprintf(errs, "actlog: %s\n", err)
	var stopped interruption
	switch {
	case errors.As(err, &stopped), errors.As(context.Cause(ctx), &stopped):
		return stopped.exitCode()
	case errors.As(err, new(usageError)):
		return exitUsage
	}
	return exitFailed
}

// chooseVariables makes empty variables count as if they were not set, and demo ignore those of what it has itself: it
// may be started in the environment of a server.
func chooseVariables(k *kong.Kong) error {
	for _, command := range append(k.Model.Leaves(false), k.Model.Node) {
		for _, flag := range command.Flags {
			own := command.Name == "demo" && slices.Contains([]string{"config", "workers"}, flag.Name)
			flag.Tag.Envs = slices.DeleteFunc(flag.Tag.Envs, func(name string) bool {
				value, set := os.LookupEnv(name)
				return own || set && value == ""
			})
			flag.Envs = flag.Tag.Envs
		}
	}
	return nil
}

// commandName returns the command that was parsed, and its subcommand, without arguments.
func commandName(parsed *kong.Context) string {
	var names []string
	for _, part := range parsed.Path {
		if part.Command != nil {
			names = append(names, part.Command.Name)
		}
	}
	return strings.Join(names, " ")
}

// usageError is a wrong value of a flag, or a wrong combination of flags. The exit code is
// exitUsage.
type usageError string

func (e usageError) Error() string { return string(e) }
