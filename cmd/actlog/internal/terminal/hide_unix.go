//go:build unix

package terminal

import "golang.org/x/sys/unix"

// Hide makes a terminal not show what is typed at it.
func Hide(fd int) error {
	settings, err := unix.IoctlGetTermios(fd, getSettings)
	if err != nil {
		return err
	}
	settings.Lflag &^= unix.ECHO
	return unix.IoctlSetTermios(fd, setSettings, settings)
}
