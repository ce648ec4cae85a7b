//go:build linux && !amd64

package main

import (
	"errors"
	"time"
)

const canStep = false

func stepWallClock(int, time.Duration) error {
	return errors.New("the wall clock of one process cannot be stepped on this processor")
}
