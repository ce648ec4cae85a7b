package git

import (
	"fmt"
	"os"
	"strings"
	"unicode"
)

// setting is one of git's configuration, with a key such as core.pager.
type setting struct{ key, value string }

// ours are the settings that hold whatever others say: nothing runs in the background, no other machine is
// asked, and git prints what is parsed here.
var ours = []setting{
	{"core.hooksPath", os.DevNull},
	{"core.quotePath", "false"},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
	{"protocol.allow", "never"},
	{"user.useConfigOnly", "true"}, // no name made of those of the machine
}

// harmless are the keys that count in the configuration of a repository. None of their values names a
// program, a file or another machine that git would use. Only such keys may be added: a key that is not here
// does not hold, and so nothing that a version of git adds in future can be a hole. A * stands for a name.
var harmless = map[string]bool{
	"core.filemode": true, "core.symlinks": true, "core.ignorecase": true, "core.precomposeunicode": true,
	"core.autocrlf": true, "core.eol": true, "core.safecrlf": true,
	"core.trustctime": true, "core.checkstat": true, "core.longpaths": true,
	"core.sparsecheckout": true, "core.sparsecheckoutcone": true,
	"user.name": true, "user.email": true,
	"author.name": true, "author.email": true, "committer.name": true, "committer.email": true,
	"branch.*.remote": true, "branch.*.merge": true, "remote.*.fetch": true, // what the upstream of a branch is
}

// words are what values of core have that count. git fails if others are there.
var words = map[string]bool{
	"true": true, "false": true, "yes": true, "no": true, "on": true, "off": true, "1": true, "0": true,
	"input": true, "lf": true, "crlf": true, "native": true, "warn": true, "default": true, "minimal": true,
}

// counts reports whether a setting of a repository counts.
func (s setting) counts() bool {
	return harmless[general(s.key)] && (!strings.HasPrefix(s.key, "core.") || words[strings.ToLower(s.value)])
}

// trusted are the keys that count in the configuration of the user and of the system, besides harmless
// ones. The filters are programs that the user chose, such as Git LFS.
var trusted = map[string]bool{
	"core.excludesfile": true, "core.attributesfile": true,
	"filter.*.clean": true, "filter.*.smudge": true, "filter.*.process": true, "filter.*.required": true,
}

// general returns a key with * for the name in its middle, which only some have.
func general(key string) string {
	first, last := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
	if first < 0 || first == last {
		return key
	}
	return key[:first] + ".*" + key[last:]
}

// parseSettings reads what git config --list -z writes.
func parseSettings(out string) (settings []setting) {
	for field := range strings.SplitSeq(out, "\x00") {
		key, value, given := strings.Cut(field, "\n")
		if !given {
			value = "true" // a key without "=" is a switch
		}
		if key != "" {
			settings = append(settings, setting{key, value})
		}
	}
	return settings
}

// own returns what counts of a repository's own settings.
func own(settings []setting) (kept []setting, err error) {
	for _, s := range settings {
		name, isExtension := strings.CutPrefix(s.key, "extensions.")
		switch {
		case isExtension:
			keep, err := extension(name, s.value)
			if err != nil {
				return nil, err
			}
			if keep {
				kept = append(kept, s)
			}
		case s.key == "core.repositoryformatversion":
			if s.value != "0" && s.value != "1" {
				return nil, fmt.Errorf("the repository has the unknown format %q", s.value)
			}
			kept = append(kept, s)
		case s.counts():
			kept = append(kept, s)
		}
	}
	return kept, nil
}

// extension reports whether git has to know of an extension of a repository's format to read it. It fails
// if the extension is not known here: git may read such a repository in a way that nobody thought of.
func extension(name, value string) (keep bool, err error) {
	values := map[string]string{
		"objectformat": "sha1 sha256", "compatobjectformat": "sha1 sha256", "refstorage": "files reftable",
	}

	switch name {
	case "objectformat", "compatobjectformat", "refstorage": // refstorage could also name a folder
		for known := range strings.FieldsSeq(values[name]) {
			if strings.EqualFold(value, known) {
				return true, nil
			}
		}
		return false, fmt.Errorf("the repository has extensions.%s = %q; there are: %s", name, value, values[name])
	case "noop", "noop-v1", "partialclone", "preciousobjects", "relativeworktrees", "submodulepathconfig",
		"worktreeconfig":
		return false, nil // nothing depends on them here: objects are neither fetched nor deleted
	}
	return false, fmt.Errorf("the repository has extensions.%s, which is not supported", name)
}

// formatSettings returns settings as a file of git. Those that have characters which no setting needs are
// left out, so that each stays on its line.
func formatSettings(settings []setting) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	var text strings.Builder
	for _, s := range settings {
		first, last := strings.IndexByte(s.key, '.'), strings.LastIndexByte(s.key, '.')
		if first < 0 || strings.ContainsFunc(s.key+s.value, unicode.IsControl) {
			continue
		}

		fmt.Fprintf(&text, "[%s", s.key[:first])
		if first < last {
			fmt.Fprintf(&text, ` "%s"`, escape.Replace(s.key[first+1:last]))
		}
		fmt.Fprintf(&text, "]\n\t%s = \"%s\"\n", s.key[last+1:], escape.Replace(s.value))
	}
	return text.String()
}
