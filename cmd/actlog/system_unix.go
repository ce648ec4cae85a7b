//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// sizeSignals are the signals that say that the terminal has another size.
var sizeSignals = []os.Signal{syscall.SIGWINCH}

// ownProcessGroup keeps Ctrl-C at the terminal from a program that is not yet started.
func ownProcessGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
