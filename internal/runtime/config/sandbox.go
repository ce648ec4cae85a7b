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
	path := func(n node) Value { return n.absolute(dir) }
	problems := len(n.file.problems)
	at := n
	if n.ShortTag() == "!!map" {
		at = n.object(fields{
			"mode":  func(n node) { s.Mode = oneOf(n, sandbox.Modes()...) },
			"read":  func(n node) { s.Read = each(n, path) },
			"write": func(n node) { s.Write = each(n, path) },
		}).at("mode")
	} else {
		s.Mode = oneOf(n, sandbox.Modes()...)
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

func (s Sandbox) open(hide []string) sandbox.Sandbox {
	return sandbox.Sandbox{Mode: s.Mode, Read: revealEach(s.Read), Write: revealEach(s.Write), Hide: hide}
}

func revealEach(values []Value) (texts []string) {
	for _, v := range values {
		texts = append(texts, v.Reveal())
	}
	return texts
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
