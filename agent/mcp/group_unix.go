//go:build unix

package mcp

import (
	"os/exec"
	"syscall"
)

// group makes the program the head of a process group, so that what it starts ends with it, and
// Ctrl-C in a terminal does not reach it before us.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// An error means that the group is gone.
func terminateGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
func killGroup(cmd *exec.Cmd)      { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
