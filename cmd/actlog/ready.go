package main

import (
	"context"
	"fmt"
)

type readyCmd struct {
	serverFlags
}

// Run serves health checks that run a program instead of a request, in containers that have no
// other program for it.
func (c *readyCmd) Run(ctx context.Context, e *env, client *client) error {
	if _, err := client.read(ctx, "not ready", "/readyz"); err != nil {
		return err
	}
	fmt.Fprintln(e.stdout, "ready")
	return nil
}
