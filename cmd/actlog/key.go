package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/actlog/actlog/internal/door/httpd"
)

type keyCmd struct {
	Name   string        `arg:"" help:"Name of the key's owner, for the server's log."`
	Scopes []httpd.Scope `help:"What the key allows: write (records), read, run (start and control runs), decide (answer what they wait for), admin (delete)." default:"write,read"`
	File   string        `help:"File of keys to add the line to. Default: the line is printed on stderr." placeholder:"FILE" type:"path"`
}

// Run prints the key only now: the line holds its hash.
func (c *keyCmd) Run(e *env) error {
	secret, line, err := httpd.NewKey(c.Name, c.Scopes)
	if err != nil {
		return usageError(err.Error())
	}
	if c.File == "" {
		fmt.Fprintln(e.stderr, line)
	} else {
		if err := appendLine(c.File, line); err != nil {
			return fmt.Errorf("add key: %w", err)
		}
		fmt.Fprintf(e.stderr, "added to %s; a server that uses this file reloads it within seconds\n", c.File)
	}

	fmt.Fprintln(e.stdout, secret)
	return nil
}

// appendLine adds a line to a file in one write, after a line break if the file does not end
// in one. A file that it creates is readable by its owner only.
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
