package config

import (
	"strings"

	"github.com/actlog/actlog/agent/tool/git"
	"github.com/actlog/actlog/internal/runtime/define"
)

// GitRemote is another repository. [git.Remote] says what the fields mean.
type GitRemote struct {
	URL        string `json:"url"`
	Username   string `json:"username,omitempty"`
	Token      Value  `json:"token,omitzero"`
	Header     Value  `json:"header,omitzero"`
	KeyFile    Value  `json:"keyFile,omitzero"`    // absolute
	KnownHosts Value  `json:"knownHosts,omitzero"` // absolute
}

// gitRemotes returns the remotes of a repository, by their names: a URL, or a mapping with more. Relative paths begin
// at dir.
func (n node) gitRemotes(dir string) map[string]GitRemote {
	remotes := map[string]GitRemote{}
	n.entries(func(name string, n node) {
		if err := git.CheckRemoteName(name); err != nil {
			n.problem("%v", err)
			return
		}
		remotes[name] = n.gitRemote(dir)
	})
	return remotes
}

func (n node) gitRemote(dir string) (m GitRemote) {
	problems := len(n.file.problems)
	at := func(string) node { return n }
	if n.ShortTag() == "!!map" {
		g := n.object(fields{
			"url":        func(n node) { m.URL = n.word() },
			"username":   func(n node) { m.Username = n.word() },
			"token":      func(n node) { m.Token = n.value(true) },
			"header":     func(n node) { m.Header = n.header() },
			"keyFile":    func(n node) { m.KeyFile = n.absolute(dir) },
			"knownHosts": func(n node) { m.KnownHosts = n.absolute(dir) },
		})
		g.require("url")
		at = func(field string) node {
			at := g.at(field)
			at.path = define.Below(n.path, field)
			return at
		}
	} else {
		m.URL = n.word()
	}

	if len(n.file.problems) > problems {
		return m
	}

	if err := m.open().Check(); err != nil {
		field, message, _ := strings.Cut(err.Error(), ": ")
		at(field).problem("%s", message)
	}
	return m
}

// open returns the remote as package git wants it, with its secrets.
func (m GitRemote) open() git.Remote {
	return git.Remote{
		URL: m.URL, Username: m.Username, Token: m.Token.Reveal(), Header: m.Header.Reveal(),
		KeyFile: m.KeyFile.Reveal(), KnownHosts: m.KnownHosts.Reveal(),
	}
}
