package config

import (
	"os"
	"path/filepath"

	"github.com/actlog/actlog/agent/sandbox"
)

// Sandbox is what programs can reach: see [sandbox.Sandbox].
type Sandbox struct {
	Mode  sandbox.Mode `json:"mode,omitempty"`
	Read  []Value      `json:"read,omitempty"`
	Write []Value      `json:"write,omitempty"`
}

// sandbox returns a sandbox: a mode, or a mapping with more. Relative paths begin at dir. One that cannot be
// had on this machine is a mistake.
func (n node) sandbox(dir string) (s Sandbox) {
	modes := make([]string, 0, len(sandbox.Modes()))
	for _, mode := range sandbox.Modes() {
		modes = append(modes, string(mode))
	}

	paths := func(to *[]Value) func(node) {
		return func(n node) {
			for _, each := range n.list() {
				*to = append(*to, each.absolute(dir))
			}
		}
	}

	problems := len(n.file.problems)
	at := n
	if n.ShortTag() == "!!map" {
		at = n.object(fields{
			"mode":  func(n node) { s.Mode = sandbox.Mode(n.oneOf(modes...)) },
			"read":  paths(&s.Read),
			"write": paths(&s.Write),
		}).at("mode")
	} else {
		s.Mode = sandbox.Mode(n.oneOf(modes...))
	}

	if len(n.file.problems) > problems {
		return s
	}

	if err := s.open(nil).Check(); err != nil {
		at.problem("%v", err)
	}
	return s
}

// absolute returns an absolute path. A relative one begins at dir.
func (n node) absolute(dir string) Value {
	v := n.value(false)
	path := v.Reveal()
	if path == "" {
		if n.Value == "" {
			n.problem("it is empty")
		}
		return v
	}

	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	v.text = &path
	return v
}

// open returns the sandbox as package sandbox wants it.
func (s Sandbox) open(hide []string) sandbox.Sandbox {
	open := sandbox.Sandbox{Mode: s.Mode, Hide: hide}
	for _, v := range s.Read {
		open.Read = append(open.Read, v.Reveal())
	}
	for _, v := range s.Write {
		open.Write = append(open.Write, v.Reveal())
	}
	return open
}

// folder returns the absolute path of a folder. A relative one begins at dir.
func (n node) folder(dir string) Value {
	v := n.absolute(dir)
	path := v.Reveal()
	if info, err := os.Stat(path); path != "" && (err != nil || !info.IsDir()) {
		n.problem("there is no folder %s", v)
	}
	return v
}
