//go:build !unix

// Package group starts programs so that what they start ends with them. Here it only reaches the
// programs themselves.
package group

import "os/exec"

// Lead does nothing here.
func Lead(*exec.Cmd) {}

// Terminate ends the program.
func Terminate(cmd *exec.Cmd) { _ = cmd.Process.Kill() } // an error means that it has gone

// Kill ends the program.
func Kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() } // an error means that it has gone
