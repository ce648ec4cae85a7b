package main

import (
	"context"
	"fmt"
)

type readyCmd struct {
	serverFlags
}

// Run implements the command. It is for supervisors that run a program instead of
// asking a URL, where there is no other program: a container's health check.
func (c *readyCmd) Run(ctx context.Context, e *env) error {
	client, err := newClient(c.serverFlags)
	if err != nil {
		return err
	}
	if _, err := client.read(ctx, "not ready", "/readyz"); err != nil {
		return err
	}
	fmt.Fprintln(e.stdout, "ready")
	return nil
}
