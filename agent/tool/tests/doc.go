// Package tests owns the tools that run tests: tests.<name> runs the command that a program has set
// for that name. A model chooses among the commands, and may name a path to test. It writes no
// command.
//
// Tests are code: whoever may change the files of the folder and run its tests may run anything that the
// sandbox lets them ([Command]).
package tests
