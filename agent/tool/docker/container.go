package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/tool"
)

// summary is a container in the daemon's list.
type summary struct {
	ID      string   `json:"Id"`
	Names   []string `json:"Names"`
	Image   string   `json:"Image"`
	State   string   `json:"State"`
	Status  string   `json:"Status"`
	Created int64    `json:"Created"`
}

var containerID = regexp.MustCompile(`^[0-9a-f]{12,64}$`)

// list returns the containers that the tools may use, by their names.
func (d *daemon) list(ctx context.Context) (names []string, byName map[string]summary, err error) {
	all, err := listOf[summary](ctx, d, "/containers/json", url.Values{"all": {"true"}})
	if err != nil {
		return nil, nil, err
	}

	byName = map[string]summary{}
	for _, c := range all {
		for _, name := range c.Names {
			name = strings.TrimPrefix(name, "/")
			if _, seen := byName[name]; !seen && d.allows(name) && containerID.MatchString(c.ID) {
				names = append(names, name)
				byName[name] = c
			}
		}
	}
	return names, byName, nil
}

// find returns the container of a name. The daemon is never asked by the name itself: it could take that for the
// beginning of another container's id.
func (d *daemon) find(ctx context.Context, name string) (summary, error) {
	if !d.allows(name) {
		return summary{}, fmt.Errorf("container: %q is not allowed; allowed are: %s", tool.Cut(name, maxWord), d.allowed())
	}

	_, all, err := d.list(ctx)
	if err != nil {
		return summary{}, err
	}
	c, ok := all[name]
	if !ok {
		return summary{}, fmt.Errorf("container: there is none with the name %s; see docker.list_containers", name)
	}
	return c, nil
}

// details are what is known of one container. The values of its environment, its command, its labels and its paths on
// the machine are left out, because they may hold secrets.
type details struct {
	ID           string `json:"Id"`
	Name         string
	Created      string
	RestartCount int
	State        struct {
		Status     string
		ExitCode   int
		OOMKilled  bool
		Error      string
		StartedAt  string
		FinishedAt string
		Health     *struct {
			Status        string
			FailingStreak int
		} `json:",omitempty"`
	}
	Config struct {
		Image      string
		User       string
		WorkingDir string
		Tty        bool
	}
	HostConfig struct {
		Memory        int64
		NanoCpus      int64
		NetworkMode   string
		RestartPolicy struct {
			Name              string
			MaximumRetryCount int
		}
	}
	Mounts []struct {
		Type        string
		Destination string
		RW          bool
	}
	NetworkSettings struct {
		Ports map[string][]struct {
			HostIP   string `json:"HostIp"`
			HostPort string
		}
	}
}

// environment is the part of a container whose values are secret.
type environment struct {
	Config struct{ Env []string }
}

// inspect returns the details of a container, and the names of its variables.
func (d *daemon) inspect(ctx context.Context, c summary) (details, []string, error) {
	var raw json.RawMessage
	if err := d.get(ctx, "/containers/"+c.ID+"/json", nil, &raw); err != nil {
		return details{}, nil, err
	}
	var found details
	var env environment
	if json.Unmarshal(raw, &found) != nil || json.Unmarshal(raw, &env) != nil {
		return details{}, nil, errors.New("the daemon's answer cannot be read")
	}

	var names []string
	for _, variable := range env.Config.Env {
		name, _, _ := strings.Cut(variable, "=")
		names = append(names, clean(name))
	}
	return found, names, nil
}

// age returns how long ago a time of the daemon was, in words.
func age(unix int64) string {
	since := time.Since(time.Unix(unix, 0))
	switch {
	case unix <= 0 || since < 0:
		return "unknown"
	case since < 48*time.Hour:
		return since.Round(time.Minute).String() + " ago"
	}
	return fmt.Sprintf("%d days ago", int(since.Hours()/24))
}
