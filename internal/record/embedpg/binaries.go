//go:build unix

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

// minMajor is the oldest major version of Postgres that the schema supports.
const minMajor = 14

// binaries is a folder with initdb and postgres of one version.
type binaries struct {
	dir     string
	version string // such as "15.14"
	numbers []int  // major and minor version
}

func (b binaries) initdb() string   { return filepath.Join(b.dir, "initdb") }
func (b binaries) postgres() string { return filepath.Join(b.dir, "postgres") }
func (b binaries) major() int       { return b.numbers[0] }

// usualBinDirs returns PATH and the folders into which the packages of Debian, RHEL and
// Homebrew install the server.
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

// findBinaries returns installed binaries or, if none fit, downloaded ones. It takes the
// newest of version major, or the newest of all if major is 0.
func findBinaries(ctx context.Context, cfg Config, major int) (binaries, error) {
	found := installed(ctx, cfg.BinDirs)
	for _, b := range found {
		if major == b.major() || major == 0 && b.major() >= minMajor {
			return b, nil
		}
	}

	reason := errors.New("downloads are off")
	if !cfg.Offline {
		cfg.Logger.Info("no suitable postgres installed; using a downloaded one", "cache", cfg.CacheDir)
		dir, err := fetch(ctx, cfg, major)
		if err != nil {
			reason = fmt.Errorf("download: %w", err)
		} else if b, err := inspect(ctx, dir); err != nil {
			reason = fmt.Errorf("run the downloaded one: %w", err)
		} else {
			return b, nil
		}
	}

	if err := ctx.Err(); err != nil {
		return binaries{}, err
	}

	wanted, install := fmt.Sprintf("%d or newer", minMajor), "postgresql"
	if major != 0 {
		wanted = strconv.Itoa(major)
		if major != cfg.Major {
			wanted += ", which created the data in " + cfg.Dir
		}
		install = fmt.Sprintf("postgresql-%d", major)
	}
	for _, b := range found {
		wanted += "; " + b.version + " is installed"
	}
	return binaries{}, fmt.Errorf("%w of version %s. Either install them, for example with `apt-get install %s`; "+
		"or set ACTLOG_DATABASE_URL to a running server; or allow the download (%w)",
		ErrNoPostgres, wanted, install, reason)
}

// installed lists the binaries in dirs, newest version first.
func installed(ctx context.Context, dirs []string) []binaries {
	var found []binaries
	seen := map[string]bool{} // one installation is often linked from several folders
	for _, pattern := range dirs {
		matches, _ := filepath.Glob(pattern)
		for _, dir := range matches {
			path, err := exec.LookPath(filepath.Join(dir, "postgres"))
			if err != nil || !filepath.IsAbs(path) || seen[resolve(path)] {
				continue
			}

			seen[resolve(path)] = true
			if b, err := inspect(ctx, dir); err == nil {
				found = append(found, b)
			}
		}
	}

	slices.SortStableFunc(found, func(a, b binaries) int { return slices.Compare(b.numbers, a.numbers) })
	return found
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)(?:\.(\d+))?\S*`)

// inspect runs the binaries in dir to find out their version.
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
		return b, fmt.Errorf("%s --version: unexpected output %q", b.postgres(), out)
	}

	b.version = strings.TrimPrefix(m[0], "(PostgreSQL) ")
	for _, s := range m[1:] {
		n, _ := strconv.Atoi(s) // "18beta1" has no minor version
		b.numbers = append(b.numbers, n)
	}
	return b, nil
}
