package sandbox

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// system are what programs need of the system. /etc is not among them as a whole: it holds keys and
// passwords. Nor is /proc, in which other processes are, or /dev, in which disks and terminals are.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store", "/snap",
	"/home/linuxbrew",
	"/etc/alternatives", "/etc/bash.bashrc", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies",
	"/etc/debian_version",
	"/etc/fonts", "/etc/gai.conf", "/etc/gitconfig", "/etc/group", "/etc/host.conf", "/etc/hostname", "/etc/hosts",
	"/etc/inputrc", "/etc/java", "/etc/ld.so.cache",
	"/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/locale.alias", "/etc/localtime", "/etc/maven", "/etc/mime.types",
	"/etc/nsswitch.conf",
	"/etc/os-release", "/etc/passwd", "/etc/pki/ca-trust", "/etc/pki/java", "/etc/pki/tls/cert.pem", "/etc/pki/tls/certs",
	"/etc/pki/tls/openssl.cnf",
	"/etc/profile", "/etc/protocols", "/etc/resolv.conf", "/etc/services", "/etc/ssl/cert.pem", "/etc/ssl/certs",
	"/etc/ssl/openssl.cnf", "/etc/terminfo",
	"/etc/timezone", "/run/systemd/resolve",
	"/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/sys", "/proc/uptime",
	"/proc/version",
	"/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm",
}

// systemPatterns are more of them: where Debian has the settings of Java, without those of its management, which
// may have passwords.
var systemPatterns = []string{"/etc/java-*-openjdk/security", "/etc/java-*-openjdk/*.properties",
	"/etc/java-*-openjdk/*.cfg"}

func patternPaths(patterns []string) (paths []string) {
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern) // the patterns are right
		paths = append(paths, found...)
	}
	return paths
}

// devices are written, too.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// languages are where a home folder has programs and packages of languages, and no keys: not all of .cargo,
// .gem, .gradle or .m2, which have files with tokens.
var languages = []string{
	"go/bin", "go/pkg/mod", "sdk", ".cargo/bin", ".cargo/git", ".cargo/registry", ".rustup", ".nvm", ".volta", ".bun/bin",
	".deno/bin", ".npm/_cacache",
	".pyenv", ".rbenv", ".gem/ruby", ".sdkman/candidates", ".m2/repository", ".m2/wrapper", ".gradle/caches",
	".gradle/wrapper", ".local/bin", ".local/lib",
	".local/share/uv", ".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes",
}

// reach is what a program can reach. The paths are absolute and have no links.
type reach struct {
	read, write, devices []string
	list                 []string // folders of which only the names in them can be listed
	// repositories are the git folders of folders that are written. Bubblewrap lets them only be read, unless they are
	// granted by name: hooks and settings in them name programs, which run when somebody uses git there later.
	repositories []string
}

// reachOf returns what a program can reach, hidden or not, with more to read and write, and sets its variables
// to what it can write. It makes the folder for its caches.
func reachOf(cmd *exec.Cmd, temporary string, read, write []string) *reach {
	r := &reach{}
	cache := filepath.Join(temporary, "cache")
	if kept, err := cacheOf(cmd); err == nil {
		cache = kept
	}

	for _, path := range slices.Concat([]string{cmd.Dir, temporary, cache}, write) {
		if real, ok := resolve(path, r.write); ok {
			r.write = append(r.write, real)
			granted := func(each string) bool { return filepath.Clean(each) == filepath.Join(path, ".git") }
			if git := filepath.Join(real, ".git"); isPlace(git) && !slices.ContainsFunc(write, granted) {
				r.repositories = append(r.repositories, git)
			}
		}
	}
	for _, path := range slices.Concat(system, patternPaths(systemPatterns), toolchains(cmd), read) {
		if real, ok := resolve(path, r.write); ok {
			r.read = append(r.read, real)
		}
	}
	for _, path := range devices {
		if real, ok := resolve(path, nil); ok {
			r.devices = append(r.devices, real)
		}
	}

	setFolders(cmd, r.write, cache, temporary)
	return r
}

// isPlace reports whether something is at a path that is no link.
func isPlace(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink == 0
}

// without returns what can be reached without what is hidden. Where something is hidden below a folder, what
// is beside it can be reached, and the folder can be listed.
func (r *reach) without(hidden []string) *reach {
	out := &reach{devices: r.devices}
	for _, path := range r.read {
		out.read = out.grant(out.read, path, hidden)
	}
	for _, path := range r.write {
		out.write = out.grant(out.write, path, hidden)
	}
	return out
}

// grant adds a path to paths, or what is below it and not hidden.
func (r *reach) grant(paths []string, path string, hidden []string) []string {
	split := false
	for _, each := range hidden {
		if within(path, each) {
			return paths
		}
		split = split || within(each, path)
	}
	if !split {
		return append(paths, path)
	}

	r.list = append(r.list, path)
	entries, _ := os.ReadDir(path) // what cannot be read is not reached
	for _, entry := range entries {
		if entry.Type()&os.ModeSymlink == 0 { // where a link leads decides about what is there
			paths = r.grant(paths, filepath.Join(path, entry.Name()), hidden)
		}
	}
	return paths
}

// realOf returns paths, and where their links lead.
func realOf(paths []string) (all []string) {
	for _, path := range paths {
		all = append(all, filepath.Clean(path))
		if real, ok := resolve(path, nil); ok && real != filepath.Clean(path) {
			all = append(all, real)
		}

		// What is not there yet may come, in a folder that has another name as well.
		if dir, ok := resolve(filepath.Dir(path), nil); ok {
			all = append(all, filepath.Join(dir, filepath.Base(path)))
		}
	}
	return all
}

// toolchains returns where the programs are that a program is likely to start: its own file, the folders of
// its PATH, and those of languages.
func toolchains(cmd *exec.Cmd) (paths []string) {
	home := variable(cmd, "HOME")
	for _, dir := range filepath.SplitList(variable(cmd, "PATH")) {
		if dir = filepath.Clean(dir); filepath.IsAbs(dir) && dir != home && dir != "/" {
			paths = append(paths, dir)
		}
	}
	if filepath.IsAbs(cmd.Path) {
		paths = append(paths, cmd.Path)
	}
	if filepath.IsAbs(home) {
		for _, name := range languages {
			paths = append(paths, filepath.Join(home, name))
		}
	}

	for name, below := range map[string][]string{
		"GOROOT": {""}, "GOMODCACHE": {""}, "GOPATH": {"bin", "pkg/mod"}, "JAVA_HOME": {""}, "VIRTUAL_ENV": {""},
		"RUSTUP_HOME": {""}, "CARGO_HOME": {"bin", "git", "registry"},
	} {
		if at := variable(cmd, name); filepath.IsAbs(at) {
			for _, each := range below {
				paths = append(paths, filepath.Join(at, each))
			}
		}
	}
	return paths
}

// setFolders lets the variables for temporary files and caches name folders that can be written. Those that
// the caller has made writable stay.
func setFolders(cmd *exec.Cmd, writable []string, cache, temporary string) {
	for name, dir := range map[string]string{
		"TMPDIR": temporary, "TMP": temporary, "TEMP": temporary, "XDG_CACHE_HOME": cache,
		"GOCACHE": filepath.Join(cache, "go-build"),
	} {
		now := variable(cmd, name)
		if now == "" && (name == "TMP" || name == "TEMP" || name == "GOCACHE") {
			continue
		}

		if !slices.ContainsFunc(writable, func(folder string) bool { return within(now, folder) }) {
			cmd.Env = append(cmd.Env, name+"="+dir) // the last one counts
		}
	}
}

func variable(cmd *exec.Cmd, name string) string {
	for _, each := range slices.Backward(cmd.Env) {
		if value, ok := strings.CutPrefix(each, name+"="); ok {
			return value
		}
	}
	return ""
}

// cacheOf returns the folder for what the programs of a folder, or a program without one, keep from one time to the
// next. It is not that of the user, whose own programs would trust what is in it, nor that of other folders.
func cacheOf(cmd *exec.Cmd) (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(user, "actlog", "sandbox",
		fmt.Sprintf("%.16x", sha256.Sum256([]byte(cmp.Or(cmd.Dir, cmd.Path)))))
	return path, os.MkdirAll(path, 0o700)
}

// within reports whether a path is a folder or below it.
func within(path, dir string) bool {
	below, err := filepath.Rel(dir, path)
	return err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
}

const maxLinks = 40

// resolve follows the links of an absolute path. It gives up, and returns false, if the way leads through a
// folder that programs write: there they could have put a link to anything.
func resolve(path string, writable []string) (string, bool) {
	if !filepath.IsAbs(path) {
		return "", false
	}

	at, rest := string(filepath.Separator), filepath.Clean(path)
	for links := 0; ; {
		name, more, _ := strings.Cut(strings.TrimLeft(rest, string(filepath.Separator)), string(filepath.Separator))
		if name == "" {
			return at, true
		}
		if slices.ContainsFunc(writable, func(folder string) bool { return within(at, folder) }) {
			return "", false
		}

		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			return "", false
		}
		if info.Mode()&os.ModeSymlink == 0 {
			at, rest = next, more
			continue
		}

		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return "", false
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(at, target)
		}
		at, rest = string(filepath.Separator), filepath.Join(target, more)
	}
}
