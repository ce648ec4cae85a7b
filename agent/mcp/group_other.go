//go:build !unix

package mcp

import "os/exec"

func group(*exec.Cmd) {}

// An error means that the program is gone.
func terminateGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
func killGroup(cmd *exec.Cmd)      { _ = cmd.Process.Kill() }
