// Package sandbox owns what a program that a tool starts can reach: its variables, the files, the other
// processes, and this process itself.
//
// [Environment] gives a program the variables that it needs and no secrets. [Sandbox] keeps it from the
// rest of the machine, where the system can do that. [HideProcess] keeps what this process holds from other
// programs of the same user.
package sandbox
