package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// pickRemote returns a remote of the configuration: the one of a name, else origin or the only one.
func (r *repository) pickRemote(name string) (string, Remote, error) {
	known := slices.Sorted(maps.Keys(r.remotes))
	if name == "" && len(known) == 1 {
		name = known[0]
	}
	name = cmp.Or(name, "origin")

	m, ok := r.remotes[name]
	if !ok {
		return "", Remote{}, fmt.Errorf("remote: there is no remote %q in the configuration of the toolset; there are: %s",
			name, strings.Join(known, ", "))
	}
	return name, m, nil
}

// connection is the repository with a way to another one.
type connection struct {
	*opened
	name   string
	remote Remote
}

// connect returns the repository with a way to a remote of the configuration. Nothing that the repository itself says
// of remotes is in force, and git speaks the protocol of the URL and no other.
func (o *opened) connect(name string) (*connection, error) {
	name, m, err := o.pickRemote(name)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(m.URL)
	if err != nil {
		return nil, errors.New("remote: its URL cannot be read")
	}
	if err := o.checkOutside(m, u); err != nil {
		return nil, err
	}

	settings := slices.DeleteFunc(slices.Clone(o.settings), func(s setting) bool {
		return strings.HasPrefix(s.key, "remote.") || strings.HasPrefix(s.key, "branch.")
	})
	settings = append(settings, []setting{
		{"remote." + name + ".url", m.URL},
		{"remote." + name + ".fetch", "+" + heads + "*:refs/remotes/" + name + "/*"},
		{"http.followRedirects", "false"}, // a header is for this server only
		{"http.lowSpeedLimit", "1"}, {"http.lowSpeedTime", "30"},
		{"transfer.fsckObjects", "true"},
		{"fetch.unpackLimit", "1"}, // a pack stays one file, whose size is seen
		{"push.followTags", "false"}, {"push.recurseSubmodules", "no"},
		{"fetch.recurseSubmodules", "no"},
	}...)

	c := &connection{opened: o.with(m.environment(u)...), name: name, remote: m}
	return c, c.configure(settings)
}

// checkOutside fails if what a remote names is below the folder: whoever writes there could make git run programs, by
// the hooks of a repository, or choose the server.
func (o *opened) checkOutside(m Remote, u *url.URL) error {
	for what, at := range map[string]string{"url": u.Path, "keyFile": m.KeyFile, "knownHosts": m.KnownHosts} {
		if at == "" || what == "url" && u.Scheme != "file" {
			continue
		}

		real, err := filepath.EvalSymlinks(at)
		if err != nil {
			return fmt.Errorf("remote: %s of it is not there; that is left to whoever configures the toolset", what)
		}
		if below, err := filepath.Rel(o.root, real); err != nil || filepath.IsLocal(below) {
			return fmt.Errorf("remote: %s of it is below the folder, so it is not used", what)
		}
	}
	return nil
}

// reach runs git with the remote. The error has no secret of the remote, also if the server says it.
func (c *connection) reach(ctx context.Context, arguments ...string) ([]byte, error) {
	out, err := c.execute(ctx, arguments...)
	if err == nil || ctx.Err() != nil {
		return out, err
	}

	text := err.Error()
	for _, secret := range c.remote.secrets() {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return out, errors.New(text)
}

// tip returns the commit of a branch of the remote; empty: there is no such branch.
func (c *connection) tip(ctx context.Context, branch string) (string, error) {
	out, err := c.reach(ctx, "ls-remote", "--quiet", "--refs", c.name, heads+branch)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		if commit, name, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && name == heads+branch &&
			commitName.MatchString(commit) {
			return commit, nil
		}
	}
	return "", nil
}

// has reports whether a commit is here.
func (o *opened) has(ctx context.Context, commit string) (bool, error) {
	_, err := o.execute(ctx, "cat-file", "-e", commit+"^{commit}")
	return err == nil, ctx.Err()
}

// MaxFetch bounds what a pull may bring, in bytes as they are sent.
const MaxFetch = 512 << 20

// errTooMuch says that a pull brings too much.
var errTooMuch = fmt.Errorf("the remote sends more than %d MiB; that is left to people", MaxFetch>>20)

// fetch brings a branch of the remote into a folder of objects.
func (c *connection) fetch(ctx context.Context, objects, branch string, more ...string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		watchSize(ctx, filepath.Join(objects, "pack"), MaxFetch, func() { cancel(errTooMuch) })
	}()

	arguments := slices.Concat([]string{
		"fetch", "--quiet", "--no-tags", "--no-auto-maintenance", "--no-recurse-submodules", "--no-write-fetch-head",
	}, more)
	_, err := c.reach(ctx, append(arguments, c.name, heads+branch)...)

	tooMuch := errors.Is(context.Cause(ctx), errTooMuch)
	cancel(nil)
	<-ended
	if tooMuch {
		return errTooMuch
	}
	return err
}

// watchSize calls a function once when a pack that is being written in a folder is larger than a bound.
func watchSize(ctx context.Context, dir string, most int64, over func()) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}

		packs, _ := filepath.Glob(filepath.Join(escapeGlob(dir), "tmp_pack_*")) // the pattern is right
		for _, at := range packs {
			if info, err := os.Stat(at); err == nil && info.Size() > most {
				over()
				return
			}
		}
	}
}
