package config

import (
	"strings"

	"github.com/actlog/actlog/agent/tool/git"
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
	check := func() error { return m.open().Check() }
	if n.ShortTag() == "!!map" {
		n.options(fields{
			"url":        func(n node) { m.URL = n.word() },
			"username":   func(n node) { m.Username = n.word() },
			"token":      func(n node) { m.Token = n.value(true) },
			"header":     func(n node) { m.Header = n.header() },
			"keyFile":    func(n node) { m.KeyFile = n.absolute(dir) },
			"knownHosts": func(n node) { m.KnownHosts = n.absolute(dir) },
		}, check, "url")
		return m
	}

	problems := len(n.file.problems)
	m.URL = n.word()
	if err := check(); err != nil && len(n.file.problems) == problems {
		_, message, _ := strings.Cut(err.Error(), ": ")
		n.problem("%s", message)
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
