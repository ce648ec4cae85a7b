package sandbox

import (
	"os/exec"
	"time"
)

// StartsTake lets each start of a program take longer on its thread after the program runs, until restore is called.
func StartsTake(longer time.Duration) (restore func()) {
	before := startProgram
	startProgram = func(cmd *exec.Cmd) error {
		err := before(cmd)
		time.Sleep(longer)
		return err
	}
	return func() { startProgram = before }
}
