// Command codereader answers a question about the code in a folder, with a model of any
// OpenAI-compatible API.
//
// OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL choose the model. If ACTLOG_DATABASE_URL is
// the address of a migrated database, the run is recorded there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/actlog/actlog/examples/codereader"
	"github.com/actlog/actlog/recorder"
	"github.com/actlog/actlog/recorder/direct"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "codereader:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("codereader", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: codereader [flags] question")
		flags.PrintDefaults()
	}
	dir := flags.String("dir", ".", "`folder` with the code")
	steps := flags.Int("max-steps", 30, "number of rounds after which an agent must answer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	question := strings.Join(flags.Args(), " ")
	if question == "" {
		flags.Usage()
		return flag.ErrHelp
	}

	config := codereader.ModelConfigFromEnv(getenv)
	config.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	model, err := codereader.NewModel(config)
	if err != nil {
		return err
	}
	folder, err := codereader.OpenFolder(*dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	options := codereader.Options{MaxSteps: *steps}
	if url := getenv("ACTLOG_DATABASE_URL"); url != "" {
		sink, err := direct.Open(ctx, url, &direct.Options{Logger: config.Logger})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, sink.Close(context.WithoutCancel(ctx))) }()
		options.Recorder = recorder.New(sink, recorder.Options{})
	}
	answer, err := codereader.New(model, folder, &options).Run(ctx, "", question)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, answer)
	return err
}
