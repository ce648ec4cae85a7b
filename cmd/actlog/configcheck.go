package main

import (
	"errors"
	"fmt"

	"github.com/actlog/actlog/internal/runtime/config"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Check a configuration file as serve and work do, and print all mistakes and warnings."`
}

type configCheckCmd struct {
	File    string `arg:"" help:"The file." type:"path"`
	DataDir string `help:"Folder of the private Postgres, which no tool reaches." default:".actlog" type:"path"`
	APIKeys string `help:"File of the API keys, which no tool reaches." name:"api-keys" placeholder:"FILE" type:"path"`
}

func (*configCheckCmd) Help() string {
	return `It checks what serve --config and work check before they start: that the file is YAML without unknown or repeated keys, that
each value is one that its key may have, that each name is of something in the file, and that the variables, folders and programs
that the file names are there. It needs no database and no network, so it does not find out whether a model or an MCP server
answers, or takes the key. Variables are those of this command's environment, which has to be that of the server.

Exit code 0: the file can be used; there may be warnings. 1: it cannot be used, and the mistakes are on stdout; or it
cannot be read. 2: the command line is wrong.`
}

func (c *configCheckCmd) Run(e *env) error {
	hide := secretFiles(databaseFlags{DataDir: c.DataDir}, guardFlags{APIKeys: c.APIKeys})
	read, err := config.Load(c.File, config.Options{Hide: hide})
	var invalid *config.InvalidError
	if errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			fmt.Fprintln(e.stdout, p)
		}
		return fmt.Errorf("%s cannot be used; mistakes: %d", c.File, len(invalid.Problems))
	}
	if err != nil {
		return err
	}

	for _, p := range read.Warnings {
		fmt.Fprintf(e.stdout, "warning: %s\n", p)
	}
	for _, line := range read.Unprotected() {
		fmt.Fprintf(e.stdout, "warning: what tools can reach: %s\n", line)
	}

	parts, err := read.Open()
	if err != nil {
		return fmt.Errorf("%s cannot be used: %w", c.File, err)
	}
	parts.Close()
	fmt.Fprintf(e.stdout, "%s can be used\n", c.File)
	return nil
}
