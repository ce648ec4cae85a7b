package sandbox

import "errors"

// Versions of Landlock.
const (
	leastABI  = 3 // the first that keeps files from being truncated
	signalABI = 6 // the first that keeps programs from sending signals to others
)

var errNoLandlock = errors.New("no Landlock: that needs Linux 6.2 or newer, with landlock among its security modules")
