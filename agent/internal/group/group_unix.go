//go:build unix

// Package group starts programs so that what they start ends with them.
package group

import (
	"os/exec"
	"syscall"
)

// Lead makes a program that is not yet started the head of a session and a process group. So Ctrl-C in a
// terminal does not reach it before us, it cannot read or write that terminal, and Terminate and Kill reach
// what it starts.
func Lead(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// Terminate asks a group to end.
func Terminate(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // an error means that it has gone

// Kill ends a group.
func Kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // an error means that it has gone
