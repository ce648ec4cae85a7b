package config

import (
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/docker"
	"github.com/actlog/actlog/internal/runtime/define"
)

// Docker are the tools for the containers of a Docker daemon. [docker.Options] says what the fields mean.
type Docker struct {
	Socket      Value           `json:"socket"`      // absolute
	EnableWrite bool            `json:"enableWrite"` // false unless the file says otherwise
	Containers  []string        `json:"containers"`
	Timeout     define.Duration `json:"timeout,omitempty"`
}

func readDocker(n node, dir string) (d Docker) {
	n.options(fields{
		"socket":      func(n node) { d.Socket = n.absolute(dir) },
		"enableWrite": func(n node) { d.EnableWrite = n.boolean() },
		"containers":  func(n node) { d.Containers = n.words() },
		"timeout":     func(n node) { d.Timeout = n.duration() },
	}, func() error { return d.options().Check() }, "socket", "containers")
	return d
}

func (d *Docker) options() docker.Options {
	return docker.Options{
		Socket: d.Socket.Reveal(), Write: d.EnableWrite, Containers: d.Containers, Timeout: time.Duration(d.Timeout),
	}
}

func (d *Docker) open() ([]tool.Tool, error) { return docker.Tools(d.options()) }

func (d *Docker) tools() (names []string) {
	if d == nil {
		return nil
	}
	names = []string{"docker.list_containers", "docker.inspect", "docker.logs", "docker.stats", "docker.list_images"}
	if d.EnableWrite {
		names = append(names, "docker.start", "docker.stop", "docker.restart")
	}
	return names
}
