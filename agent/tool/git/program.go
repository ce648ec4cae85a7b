package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/actlog/actlog/agent/sandbox"
	"github.com/actlog/actlog/agent/tool"
)

// program runs git in one repository.
type program struct {
	git, dir string
	identity []string // variables that say who commits
}

// maxOutput bounds what is read from git, in bytes.
const maxOutput = 1 << 20

var errTooLong = errors.New("git wrote too much")

// run runs git and returns what it wrote, at most maxOutput bytes; if there was more, also
// errTooLong.
func (p program) run(ctx context.Context, stdin string, arguments ...string) ([]byte, error) {
	filters, err := p.filters(ctx)
	if err != nil {
		return nil, err
	}
	return p.start(ctx, stdin, slices.Concat(safe, filters), arguments)
}

// safe are settings that keep the configuration of the repository from running programs, asking
// other machines, or changing what git prints.
var safe = []setting{
	{"core.fsmonitor", "false"},
	{"core.hooksPath", os.DevNull},
	{"core.pager", "cat"},
	{"core.quotePath", "false"},
	{"commit.gpgSign", "false"},
	{"commit.verbose", "false"},
	{"diff.submodule", "short"},
	{"gc.auto", "0"},
	{"i18n.commitEncoding", "UTF-8"},
	{"i18n.logOutputEncoding", "UTF-8"},
	{"log.showSignature", "false"},
	{"maintenance.auto", "false"},
	{"protocol.allow", "never"},
	{"submodule.recurse", "false"},
	{"user.useConfigOnly", "true"}, // no name made of those of the machine
}

// setting is one of git's configuration, with a key such as core.pager.
type setting struct{ key, value string }

// filters returns the settings that take back what the repository's configuration says of filters:
// the programs that git runs when it reads and writes files. Those of the user and the system stay.
func (p program) filters(ctx context.Context) ([]setting, error) {
	out, err := p.start(ctx, "", safe, []string{"config", "--list", "--show-scope", "--includes", "-z"})
	if err != nil {
		return nil, fmt.Errorf("read the configuration of git: %w", err)
	}
	trusted := map[string]string{} // by key
	var own []string               // keys that the repository sets
	for fields := strings.Split(string(out), "\x00"); len(fields) > 1; fields = fields[2:] {
		key, value, _ := strings.Cut(fields[1], "\n")
		switch scope := fields[0]; {
		case !strings.HasPrefix(key, "filter.") || scope == "command":
		case scope == "system" || scope == "global":
			trusted[key] = value
		default:
			own = append(own, key)
		}
	}
	var settings []setting
	for _, key := range own {
		value, ok := trusted[key]
		if !ok && strings.HasSuffix(key, ".required") {
			value = "false"
		}
		settings = append(settings, setting{key, value})
	}
	return settings, nil
}

func (p program) start(ctx context.Context, stdin string, settings []setting, arguments []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, p.git, arguments...)
	cmd.Dir = p.dir
	cmd.Env = p.environment(settings)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr output
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// git removes its lock files when it is asked to end.
	cmd.Cancel = func() error {
		if cmd.Process.Signal(syscall.SIGTERM) == nil {
			return nil
		}
		return cmd.Process.Kill()
	}
	cmd.WaitDelay = 2 * time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case stdout.full:
		return stdout.kept.Bytes(), errTooLong
	case err != nil && stderr.kept.Len() > 0:
		return nil, errors.New(tool.Cut(strings.TrimSpace(stderr.kept.String()), 2000))
	case err != nil:
		return nil, fmt.Errorf("git %s: %w", arguments[0], err)
	}
	return stdout.kept.Bytes(), nil
}

// environment returns the variables of git: none of ours but those that it needs.
func (p program) environment(settings []setting) []string {
	env := []string{
		"GIT_DIR=" + filepath.Join(p.dir, ".git"), "GIT_WORK_TREE=" + p.dir, // whatever core.worktree says
		"GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_LITERAL_PATHSPECS=1", "GIT_OPTIONAL_LOCKS=0", "GIT_EDITOR=false", "GIT_PAGER=cat", "LC_ALL=C",
		fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)),
	}
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s.key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s.value))
	}
	return slices.Concat(sandbox.Environment(nil), env, p.identity) // the last of a name counts
}

// output keeps the first maxOutput bytes. After them it ends the writer.
type output struct {
	kept bytes.Buffer
	full bool
}

func (o *output) Write(b []byte) (int, error) {
	room := maxOutput - o.kept.Len()
	if len(b) > room {
		o.full = true
		n, _ := o.kept.Write(b[:room])
		return n, errTooLong
	}
	return o.kept.Write(b)
}
