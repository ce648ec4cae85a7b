//go:build !unix

package terminal

// Hide does nothing here: a console shows what is typed only while it is read.
func Hide(int) error { return nil }
