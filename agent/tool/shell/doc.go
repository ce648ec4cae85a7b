// Package shell owns the tools that run commands of a list: shell.<name>. The program has set what runs; a model
// chooses among the names and, where that is allowed, adds arguments that fit a pattern. No shell reads any of it.
//
// A command can do whatever its sandbox lets it: who may change the files of its folder may change what it does.
package shell
