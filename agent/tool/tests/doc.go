// Package tests owns the tools that run tests: tests.<name> runs the command that a program has set
// for that name. A model chooses among the commands, and may name a path to test. It writes no
// command.
//
// Tests are code, and this package does not keep them in a sandbox: whoever may change the files of
// the folder and run its tests may run anything that the user of this process may.
package tests
