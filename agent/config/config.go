// Package config opens the configuration file of the runtime, which docs/configuration.md describes, for a program that
// registers it: see Parts.Config in package agent. All of the file is checked, and every mistake is reported with its
// line.
//
// What the file says is in force until [Current.Reload] puts another version of it in force. Runs keep the definitions
// with which they began.
package config

import (
	"errors"

	"github.com/actlog/actlog/internal/runtime/config"
)

// Options of [Open].
type Options struct {
	// Lookup returns variables of the environment. nil means os.LookupEnv.
	Lookup func(name string) (string, bool)
	// Tools are the names of tools that the program has itself. Agents may use them.
	Tools []string
	// Workflows are the names of workflows that the program has as functions.
	Workflows []string
	// Hide are files and folders that no tool of a folder and no program in a sandbox is to reach, such as the data
	// folder of the program, and its keys. The file of the configuration is always one.
	Hide []string
}

// Current is a configuration file that is open. Its methods may be called at the same time.
type Current struct{ *current }

type current = config.Current

// Open reads a configuration file, and opens what it names. It connects to nobody. If there are mistakes in the file,
// the error is an [*InvalidError]. The caller closes the Current at the end.
func Open(path string, o Options) (*Current, error) {
	c, err := config.Open(path, config.Options(o))
	if err != nil {
		return nil, ours(err)
	}
	return &Current{c}, nil
}

// Reload reads the file again. If that is not possible, the configuration before stays in force, and the error says
// why, as that of [Open] does.
func (c *Current) Reload() error { return ours(c.current.Reload()) }

// Close puts the configuration out of force. What runs still use stays open until they have ended.
func (c *Current) Close() { c.current.Close() }

// Check reads a configuration file without opening what it names. It returns what may be a mistake, but need not be
// one. The error is as that of [Open].
func Check(path string, o Options) (warnings []Problem, err error) {
	c, err := config.Load(path, config.Options(o))
	if err != nil {
		return nil, ours(err)
	}
	return problems(c.Warnings), nil
}

// Problem is a mistake in a configuration file.
type Problem struct {
	File    string
	Line    int    // from 1; 0 if it is not known
	Field   string // such as "agents.reader.model"; empty if it is the file as a whole
	Message string
}

// String returns the problem as "actlog.yaml:12: agents.reader.model: no model is called ...".
func (p Problem) String() string { return config.Problem(p).String() }

// InvalidError has all mistakes of a configuration file, in the order of its lines.
type InvalidError struct {
	Problems []Problem
	text     string
}

// Error returns one line for each problem, of at most 100.
func (e *InvalidError) Error() string { return e.text }

// ours returns an error with the types of this package.
func ours(err error) error {
	if wrong, ok := errors.AsType[*config.InvalidError](err); ok {
		return &InvalidError{Problems: problems(wrong.Problems), text: err.Error()}
	}
	return err
}

func problems(found []config.Problem) (all []Problem) {
	for _, p := range found {
		all = append(all, Problem(p))
	}
	return all
}
