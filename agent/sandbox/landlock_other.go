//go:build !linux

package sandbox

import "os/exec"

// landlockABI returns 0: only Linux has Landlock.
func landlockABI() int { return 0 }

func startRestricted(*exec.Cmd, *reach) error { return errNoLandlock }

func startIsolated(*exec.Cmd) error { return errNoLandlock }
