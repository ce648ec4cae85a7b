package docker

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool"
)

// Options are which daemon the tools use, and for what.
type Options struct {
	// Socket is the absolute path of the daemon's socket.
	Socket string
	// Write adds docker.start, docker.stop and docker.restart.
	Write bool
	// Containers are the names of the containers that the tools see, or patterns in which * stands for any characters.
	Containers []string
	// Timeout bounds a call. 0: DefaultTimeout.
	Timeout time.Duration
}

// DefaultTimeout is that of a call if Options have none.
const DefaultTimeout = 30 * time.Second

// OptionError says which field of Options is wrong.
type OptionError struct {
	Field   string // as in the configuration: socket, containers
	Message string
}

func (e *OptionError) Error() string { return e.Field + ": " + e.Message }

var (
	containerName    = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)
	containerPattern = regexp.MustCompile(`^[a-zA-Z0-9_.*-]{1,128}$`)
)

// Check returns an *OptionError if something is wrong.
func (o Options) Check() error {
	if !filepath.IsAbs(o.Socket) {
		return &OptionError{"socket", "want the path of the daemon's socket, such as /var/run/docker.sock"}
	}
	if len(o.Containers) == 0 {
		return &OptionError{"containers", `name the containers that the tools may use, or "*" for all`}
	}

	for _, pattern := range o.Containers {
		if !containerPattern.MatchString(pattern) {
			return &OptionError{"containers", fmt.Sprintf("%q is no name of a container and no pattern such as web-*", pattern)}
		}
	}
	return nil
}

func (o Options) allows(name string) bool {
	return containerName.MatchString(name) &&
		slices.ContainsFunc(o.Containers, func(pattern string) bool { return tool.Match(pattern, name) })
}

// allowed returns the patterns for a message.
func (o Options) allowed() string { return strings.Join(o.Containers, ", ") }
