package sandbox

import (
	"iter"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
)

// plain are the variables of this process that programs get. Each says where something is, or how to write
// for people: none may hold a credential. That leaves out proxies and registries, whose URLs can have a
// password, and flags of tools, which can have anything.
var plain = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "TERM", "LANG", "LANGUAGE", "TMPDIR", "TMP", "TEMP",
	"LD_LIBRARY_PATH",
	"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"GOROOT", "GOPATH", "GOCACHE", "GOMODCACHE", "GOTOOLCHAIN", "JAVA_HOME", "CARGO_HOME", "RUSTUP_HOME", "VIRTUAL_ENV",
	"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
}

// sameName compares the names of variables. On Windows letters may be small or not: PATH is called Path.
var sameName = func(a, b string) bool { return a == b || runtime.GOOS == "windows" && strings.EqualFold(a, b) }

// isPlain reports whether programs get a variable.
func isPlain(name string) bool {
	return hasName(slices.Values(plain), name) || strings.HasPrefix(name, "LC_")
}

func hasName(names iter.Seq[string], name string) bool {
	for each := range names {
		if sameName(each, name) {
			return true
		}
	}
	return false
}

// Environment returns the variables of a program: those of this process that say where things are and which
// language to write, and own, which win. No key, password or setting of this process is among them. With only,
// none but these of them.
func Environment(own map[string]string, only ...string) []string {
	var env []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		replaced := hasName(maps.Keys(own), name)
		if isPlain(name) && !replaced && (len(only) == 0 || hasName(slices.Values(only), name)) {
			env = append(env, variable)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(own)) {
		env = append(env, name+"="+own[name])
	}
	return env
}
