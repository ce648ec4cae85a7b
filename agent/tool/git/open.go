package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/actlog/actlog/agent/tool/internal/folder"
)

type repository struct {
	program
	dir     string
	allowed folder.Allowed
	remotes map[string]Remote
	writing sync.Mutex // one call at a time changes the repository
}

// opened is a repository for the time of one call, after it was checked.
//
// What the repository's own configuration says never holds, so git does not see it: GIT_COMMON_DIR is a
// folder that is made for the call, with a configuration of ours, no hooks, and links to the references.
// Whoever changes the repository meanwhile cannot change that.
type opened struct {
	*repository
	places
	private  string // the folder that is made for the call
	index    string // the file with what is staged
	settings []setting
	env      []string
}

// open checks the repository and those in it, and prepares it for git. Close it after the call.
func (r *repository) open(ctx context.Context) (*opened, error) {
	root, err := filepath.EvalSymlinks(r.dir)
	if err != nil {
		return nil, folder.Plain("the folder of the repository", err)
	}
	o := &opened{repository: r}
	if o.places, err = locate(ctx, root, root); err != nil {
		return nil, err
	}
	o.index = filepath.Join(o.gitDir, "index")

	if o.private, err = os.MkdirTemp("", "actlog-git-"); err != nil {
		return nil, fmt.Errorf("make a folder for git: %w", err)
	}

	err = o.prepare(ctx)
	if err == nil {
		err = o.checkSubmodules(ctx)
	}
	if err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *opened) close() { _ = os.RemoveAll(o.private) } // it holds nothing but settings and links

// shared are what git looks for in GIT_COMMON_DIR and may read from the repository. The configuration and
// the hooks are not among them.
var shared = []string{"refs", "packed-refs", "logs", "reftable", "info", "shallow"}

// prepare makes the folder that stands for the common one.
func (o *opened) prepare(ctx context.Context) error {
	for _, name := range shared {
		at := filepath.Join(o.common, name)
		if _, err := os.Lstat(at); err != nil {
			continue
		}
		if err := os.Symlink(at, filepath.Join(o.private, name)); err != nil {
			return fmt.Errorf("make a folder for git: %w", err)
		}
	}

	own, err := o.repository.ownSettings(ctx, o.places)
	if err != nil {
		return err
	}
	if err := o.configure(own); err != nil {
		return err
	}
	o.env = []string{
		"GIT_DIR=" + o.gitDir, "GIT_WORK_TREE=" + o.root, // whatever core.worktree says
		"GIT_COMMON_DIR=" + o.private, "GIT_OBJECT_DIRECTORY=" + o.objects,
	}

	// The user's configuration may depend on where the repository is, and on its branch.
	users, err := o.userSettings(ctx)
	if err != nil {
		return err
	}
	o.env = append(o.env, onlyRepository...)
	o.settings = slices.Concat(users, own, ours)
	return o.configure(o.settings)
}

// onlyRepository are the variables that keep git from the configuration of the user and the system.
var onlyRepository = []string{
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=" + os.DevNull, "GIT_CONFIG_GLOBAL=" + os.DevNull,
}

// makeLogs makes the folder for the logs of references, in which git keeps stashes, if there is none yet: what git
// writes in the folder that stands for the common one is lost.
func (o *opened) makeLogs() error {
	at := filepath.Join(o.common, "logs")
	if err := os.Mkdir(at, 0o755); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return folder.Plain("the folder of the logs", err)
	}
	return os.Symlink(at, filepath.Join(o.private, "logs"))
}

func (o *opened) configure(settings []setting) error {
	if err := os.WriteFile(filepath.Join(o.private, "config"), []byte(formatSettings(settings)), 0o600); err != nil {
		return fmt.Errorf("write the configuration of git: %w", err)
	}
	return nil
}

// ownSettings returns what counts of the configuration that a repository has. Nothing in it is followed.
func (p program) ownSettings(ctx context.Context, at places) ([]setting, error) {
	var all []setting
	for _, name := range []string{filepath.Join(at.common, "config"), filepath.Join(at.gitDir, "config.worktree")} {
		b := border{boundary: at.boundary}
		text, err := b.read(filepath.Base(name)+" of the repository", name)
		if errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return nil, err
		}

		// GIT_DIR keeps git from looking for a repository.
		env := append([]string{"GIT_DIR=" + os.DevNull}, onlyRepository...)
		out, err := p.execute(ctx, os.TempDir(), env, text, "config", "--file", "-", "--no-includes", "-z", "--list")
		if err != nil {
			return nil, fmt.Errorf("read the configuration of the repository: %w", err)
		}

		settings := parseSettings(string(out))
		all = append(all, settings...)
		if !slices.ContainsFunc(settings, func(s setting) bool {
			return s.key == "extensions.worktreeconfig" && isTrue(s.value)
		}) {
			break
		}
	}
	return own(all)
}

func isTrue(value string) bool {
	return slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(value))
}

// userSettings returns what counts of the configuration of the user and of the system. Files of it that are below the
// folder do not count: whoever writes there could have written them.
func (o *opened) userSettings(ctx context.Context) (settings []setting, err error) {
	out, err := o.program.execute(ctx, o.root, o.env, "", "config", "--list", "--show-scope", "--show-origin",
		"--includes", "-z")
	if err != nil {
		return nil, fmt.Errorf("read the configuration of the user: %w", err)
	}

	for fields := strings.Split(string(out), "\x00"); len(fields) > 2; fields = fields[3:] {
		if scope := fields[0]; scope != "system" && scope != "global" || !o.isOutside(fields[1]) {
			continue
		}
		for _, s := range parseSettings(fields[2]) {
			if s.counts() || trusted[general(s.key)] {
				settings = append(settings, s)
			}
		}
	}
	return settings, nil
}

// isOutside reports whether a setting comes from a file that is not below the folder, by what git says of it.
func (o *opened) isOutside(origin string) bool {
	file, ok := strings.CutPrefix(origin, "file:")
	if !ok || !filepath.IsAbs(file) {
		return false
	}

	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return false
	}
	below, err := filepath.Rel(o.root, real)
	return err != nil || !filepath.IsLocal(below)
}

// execute runs git in the repository and returns what it wrote, as program.execute does.
func (o *opened) execute(ctx context.Context, arguments ...string) ([]byte, error) {
	return o.feed(ctx, "", arguments...)
}

// feed is execute with a standard input.
func (o *opened) feed(ctx context.Context, stdin string, arguments ...string) ([]byte, error) {
	return o.program.execute(ctx, o.root, o.env, stdin, arguments...)
}

// line returns what git wrote without the white space around it.
func (o *opened) line(ctx context.Context, arguments ...string) (string, error) {
	out, err := o.execute(ctx, arguments...)
	return strings.TrimSpace(string(out)), err
}

// hashOf returns the hash that a name stands for. If there is none, the error does not say so: git writes nothing.
func (o *opened) hashOf(ctx context.Context, name string) (string, error) {
	return o.line(ctx, "rev-parse", "--verify", "--quiet", name)
}

// emptyTree returns the hash of the tree that has nothing.
func (o *opened) emptyTree(ctx context.Context) (string, error) {
	return o.line(ctx, "hash-object", "-t", "tree", "--stdin")
}

// logOf runs git log without what the settings of a user or notes could add to what is read here.
func (o *opened) logOf(ctx context.Context, arguments ...string) ([]byte, error) {
	plain := []string{"log", "--no-color", "--no-decorate", "--no-notes", "--no-show-signature", "--no-mailmap"}
	return o.execute(ctx, append(plain, arguments...)...)
}

func (o *opened) with(env ...string) *opened {
	other := *o
	other.env = slices.Concat(o.env, env) // the last of a name counts
	return &other
}

// withIndex returns the repository with a copy of what is staged, of which nobody else sees what becomes.
func (o *opened) withIndex(name string) (*opened, error) {
	other := o.with("GIT_INDEX_FILE=" + filepath.Join(o.private, name))
	other.index = filepath.Join(o.private, name)

	info, err := os.Stat(o.index)
	if errors.Is(err, fs.ErrNotExist) {
		return other, nil // nothing is staged yet
	} else if err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}

	b, err := os.ReadFile(o.index)
	if err == nil {
		err = os.WriteFile(other.index, b, 0o600)
	}
	if err == nil {
		// Git takes a file for unchanged if it is older than the index, and as large as before.
		err = os.Chtimes(other.index, info.ModTime(), info.ModTime())
	}
	if err != nil {
		return nil, fmt.Errorf("copy the index: %w", err)
	}
	return other, nil
}

// trial returns the repository with a copy of what is staged, and with a place of its own for new objects: what is
// tried there leaves no trace.
func (o *opened) trial() (*opened, error) {
	objects := filepath.Join(o.private, "trial")
	alternates := filepath.Join(objects, "info", "alternates")
	err := os.MkdirAll(filepath.Dir(alternates), 0o700)
	if err == nil {
		err = os.WriteFile(alternates, []byte(o.objects+"\n"), 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("make a folder for git: %w", err)
	}

	other, err := o.withIndex("trial-index")
	if err != nil {
		return nil, err
	}
	return other.with("GIT_OBJECT_DIRECTORY=" + objects), nil
}

// checkSubmodules checks the repositories that are part of this one: git reads which commit they are at.
func (o *opened) checkSubmodules(ctx context.Context) error {
	var links submodules
	if err := o.pipe(ctx, o.root, o.env, "", &links, "ls-files", "--stage", "-z"); err != nil {
		return err
	}
	return o.checkNested(ctx, links.paths)
}

// checkNested checks the repositories at some paths below the root, if there are any.
func (o *opened) checkNested(ctx context.Context, paths []string) error {
	for _, name := range paths {
		at := filepath.Join(o.root, filepath.FromSlash(name))
		if _, err := os.Lstat(filepath.Join(at, ".git")); err != nil {
			continue
		}

		nested, err := locate(ctx, o.root, at)
		if err == nil {
			_, err = o.ownSettings(ctx, nested)
		}
		if err != nil {
			return fmt.Errorf("the repository in %s: %w", shown(name), err)
		}
	}
	return nil
}

// submodules reads what git ls-files --stage -z writes, and keeps the paths of submodules.
type submodules struct {
	paths []string
	line  []byte
}

func (s *submodules) Write(b []byte) (int, error) {
	n := len(b)
	for {
		part, rest, ended := bytes.Cut(b, []byte{0})
		s.line = append(s.line, part...)
		if !ended {
			return n, nil
		}

		if _, path, ok := bytes.Cut(s.line, []byte("\t")); ok && bytes.HasPrefix(s.line, []byte("160000 ")) {
			s.paths = append(s.paths, string(path))
		}
		s.line, b = s.line[:0], rest
	}
}

// shown returns a path as people read it: quoted if it has characters that are not printed.
func shown(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(path)
	}
	return path
}
