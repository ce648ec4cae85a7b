package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/actlog/actlog/internal/api"
)

type keyCmd struct {
	Name   string      `arg:"" help:"Whose key it is; stands in the server's log."`
	Scopes []api.Scope `help:"What it is for: write (records), read, admin (delete)." default:"write,read"`
	File   string      `help:"File of keys to add its line to. Default: the line is printed on stderr." placeholder:"FILE" type:"path"`
}

// Run implements the command. The key itself is printed this once and kept nowhere.
func (c *keyCmd) Run(e *env) error {
	secret, line, err := api.NewKey(c.Name, c.Scopes)
	if err != nil {
		return usageError(err.Error())
	}
	if c.File == "" {
		fmt.Fprintln(e.stderr, line)
	} else {
		if err := appendLine(c.File, line); err != nil {
			return fmt.Errorf("adding the key: %w", err)
		}
		fmt.Fprintf(e.stderr, "added to %s; a server that uses it reads it anew on SIGHUP\n", c.File)
	}
	fmt.Fprintln(e.stdout, secret)
	return nil
}

// appendLine adds a line to a file, on a line of its own, in one write. A file that
// it makes is its owner's only.
func appendLine(path, line string) (err error) {
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(before) > 0 && !bytes.HasSuffix(before, []byte("\n")) {
		line = "\n" + line
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.WriteString(line + "\n")
	return err
}
