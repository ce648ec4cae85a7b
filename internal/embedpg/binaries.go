package embedpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// minMajor is the oldest major version of Postgres that the schema works on.
const minMajor = 14

// binaries is a folder with initdb and postgres of one version.
type binaries struct {
	dir     string
	version string // such as "15.14"
	numbers []int
}

func (b binaries) initdb() string   { return filepath.Join(b.dir, "initdb") }
func (b binaries) postgres() string { return filepath.Join(b.dir, "postgres") }
func (b binaries) major() int       { return b.numbers[0] }

// usualBinDirs is PATH and where packages of Debian, RHEL and Homebrew put the server.
func usualBinDirs() []string {
	return append(filepath.SplitList(os.Getenv("PATH")),
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/usr/bin",
		"/usr/local/bin",
		"/usr/local/pgsql/bin",
		"/opt/homebrew/opt/postgresql@*/bin",
		"/opt/homebrew/opt/postgresql/bin",
		"/usr/local/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql/bin",
		"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
	)
}

// findBinaries returns the newest binaries, those of version major when it is not 0:
// installed ones, else downloaded ones.
func findBinaries(ctx context.Context, cfg Config, major int) (binaries, error) {
	found := installed(ctx, cfg.BinDirs)
	for _, b := range found {
		if major == b.major() || major == 0 && b.major() >= minMajor {
			return b, nil
		}
	}

	var reason error
	if cfg.Offline {
		reason = errors.New("downloads are off")
	} else {
		cfg.Logger.Info("no fitting postgres installed, using a downloaded one", "cache", cfg.CacheDir)
		dir, err := fetch(ctx, cfg.repository, cfg.CacheDir, major)
		if err == nil {
			b, err := inspect(ctx, dir)
			if err == nil {
				return b, nil
			}
			reason = fmt.Errorf("downloaded, but does not run: %w", err)
		} else {
			reason = fmt.Errorf("downloading: %w", err)
		}
	}
	if err := ctx.Err(); err != nil {
		return binaries{}, err
	}

	wanted, install := fmt.Sprintf("%d or newer", minMajor), "postgresql"
	if major != 0 {
		wanted = fmt.Sprintf("%d, which made the data in %s", major, cfg.Dir)
		install = fmt.Sprintf("postgresql-%d", major)
	}
	var have string
	if len(found) > 0 {
		versions := make([]string, len(found))
		for i, b := range found {
			versions[i] = b.version
		}
		have = " (installed: " + strings.Join(versions, ", ") + ")"
	}
	return binaries{}, fmt.Errorf("%w of version %s%s. Three ways out: install them, as with `apt-get install %s`; "+
		"or set ACTLOG_DATABASE_URL to a running server; or let them be downloaded (%w)",
		ErrNoPostgres, wanted, have, install, reason)
}

// installed lists the binaries in dirs, newest version first.
func installed(ctx context.Context, dirs []string) []binaries {
	var found []binaries
	seen := map[string]bool{}
	for _, pattern := range dirs {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			continue
		}
		for _, dir := range matches {
			path, err := exec.LookPath(filepath.Join(dir, "postgres"))
			if err != nil || !filepath.IsAbs(path) {
				continue
			}
			// One installation often has links from elsewhere.
			target := resolve(path)
			if seen[target] {
				continue
			}
			seen[target] = true
			if b, err := inspect(ctx, dir); err == nil {
				found = append(found, b)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b binaries) int { return slices.Compare(b.numbers, a.numbers) })
	return found
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)(?:\.(\d+))?\S*`)

// inspect asks the binaries in dir for their version.
func inspect(ctx context.Context, dir string) (binaries, error) {
	b := binaries{dir: dir}
	if _, err := exec.LookPath(b.initdb()); err != nil {
		return b, err
	}
	out, err := exec.CommandContext(ctx, b.postgres(), "--version").Output()
	if err != nil {
		return b, fmt.Errorf("%s --version: %w", b.postgres(), err)
	}
	m := versionLine.FindStringSubmatch(string(out))
	if m == nil {
		return b, fmt.Errorf("%s --version: says %q", b.postgres(), out)
	}
	b.version = strings.TrimPrefix(m[0], "(PostgreSQL) ")
	for _, s := range m[1:] {
		n, _ := strconv.Atoi(s) // "18beta1" has no second number
		b.numbers = append(b.numbers, n)
	}
	return b, nil
}
