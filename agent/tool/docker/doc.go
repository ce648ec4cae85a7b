// Package docker owns the tools for the containers of a Docker daemon: what there is, how it is, what it wrote, and
// with approval start, stop and restart.
//
// They speak to the daemon's socket by the few requests that they need. Containers are those whose names the program
// allows. There is nothing that makes a container or runs a command in one: either would give the machine away.
// What the daemon and the containers answer is treated as hostile: all of it has bounds, and secrets are left out.
package docker
