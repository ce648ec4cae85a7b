//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// sizeSignals are the signals that say that the terminal has another size: none here.
var sizeSignals []os.Signal

// ownProcessGroup does nothing here.
func ownProcessGroup(*exec.Cmd) {}
