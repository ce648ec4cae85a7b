package folder

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Allowed are the files of a folder that tools may use although they look as if they held secrets, or have
// more than one name.
type Allowed struct {
	root   string // absolute
	rules  ignore
	hidden hidden // whatever the rules say
}

// Allow returns what patterns allow in a folder. They are those of .gitignore files, whether letters are small
// or not. What is in a folder that is allowed is allowed.
func Allow(root string, patterns ...string) Allowed {
	return Allowed{root: root, rules: ignore{}.with(".", strings.ToLower(strings.Join(patterns, "\n")))}
}

// Hide returns what is allowed without some files and folders of this machine, by their absolute paths.
func (a Allowed) Hide(paths ...string) Allowed {
	a.root, a.hidden = real(a.root), hide(paths)
	return a
}

// Hidden returns an error if a file, which is named by its path in the folder, is hidden or in a folder that is.
func (a Allowed) Hidden(at string) error {
	if !a.hidden.has(filepath.Join(a.root, filepath.FromSlash(at))) {
		return nil
	}
	return errHidden(at)
}

func errHidden(at string) error {
	return fmt.Errorf("%s is the server's own (its data, keys or configuration), so it is not available", at)
}

// has reports whether a file, or a folder that it is in, is allowed.
func (a Allowed) has(at string) bool {
	at = strings.ToLower(at)
	if a.rules.out(at, false) {
		return true
	}

	for at = path.Dir(at); at != "." && at != "/"; at = path.Dir(at) {
		if a.rules.out(at, true) {
			return true
		}
	}
	return false
}

// Secret returns an error if a file, which is named by its path in the folder, is hidden or may hold secrets.
func (a Allowed) Secret(at string) error {
	if err := a.Hidden(at); err != nil {
		return err
	}
	if !secret(filepath.ToSlash(a.root)+"/"+at) || a.has(at) {
		return nil
	}
	return fmt.Errorf("%s may hold secrets, so it is not available, unless allow in the configuration of the toolset "+
		"names it", at)
}

// HardLink returns an error if a file, which is named by its path in the folder, has more than one name: the
// others may be outside of the folder. It is also an error if one of them is hidden.
func (a Allowed) HardLink(at string, info fs.FileInfo) error {
	if a.hidden.is(info) {
		return errHidden(at)
	}
	if !HasOtherNames(info) || a.has(at) {
		return nil
	}
	return fmt.Errorf("%s is a hard link: the file has another name, which may be outside of the folder, "+
		"so it is not available, unless allow in the configuration of the toolset names it", at)
}

// secretPaths are files that programs keep secrets in, and folders with such files, by the end of their path.
var secretPaths = []string{
	".ssh", ".gnupg", ".password-store", ".azure", ".config/gcloud", ".terraform.d", "run/secrets",
	".aws/credentials", ".aws/config", ".aws/sso", ".aws/cli",
	".kube/config", ".docker/config.json", ".config/gh/hosts.yml",
	".cargo/credentials", ".gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml",
	"etc/shadow", "etc/shadow-", "etc/gshadow", "etc/gshadow-",
	".actlog", // the private Postgres, with its password
}

// secretNames are patterns of the names of files that hold secrets.
var secretNames = []string{
	".env", ".env.*", "*.env", ".envrc", "env.local", "env.*.local",
	"*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.pkcs12", "*.jks", "*.jceks", "*.keystore", "*.bks", "*.ppk", "*.kdbx",
	"*.keytab", "*.ovpn",
	"id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "*_rsa", "*_dsa", "*_ecdsa", "*_ed25519",
	".netrc", "_netrc", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", "htpasswd", ".htdigest", ".authinfo",
	".pgpass", "pgpass.conf", ".pg_service.conf", ".my.cnf", ".mylogin.cnf", ".dockercfg", ".dockerconfigjson",
	".s3cfg", ".boto", ".vault-token", ".terraformrc", "terraform.rc", "credentials.tfrc.json", "*.tfstate",
	"*.tfstate.*", "*.tfvars", "*.tfvars.json",
	"kubeconfig", "*.kubeconfig", "kubeconfig.*", "token.json", ".token", "auth.json", "oauth_creds.json",
	"*-key.json", "*_key.json", "wp-config*.php",
	"service-account*.json", "service_account*.json", "serviceaccount*.json", "*-service-account.json",
	"*_service_account.json",
	"*firebase-adminsdk*.json", "gha-creds-*.json", "client_secret*.json", "client-secret*.json",
	".*_history",
}

// publicNames are patterns of the names of files that look like those, and are for everybody. Certificates are not
// among them: their files often hold the private key, too.
var publicNames = []string{"*.pub.pem", "public.pem", "pubkey.pem", "public-key.*", "public_key.*"}

// secretWords make a file of data one that holds secrets, if its name begins or ends with one of them.
var secretWords = []string{"secret", "secrets", "credential", "credentials", "passwd", "password", "passwords"}

// topicWords make a file one about secrets.
var topicWords = map[string]bool{
	"reset": true, "forgot": true, "change": true, "policy": true, "strength": true, "form": true,
}

// dataSuffixes are those of files of data, which are not code or documentation.
var dataSuffixes = map[string]bool{
	"": true, ".yaml": true, ".yml": true, ".json": true, ".toml": true, ".ini": true, ".cfg": true, ".conf": true,
	".config":     true,
	".properties": true, ".xml": true, ".txt": true, ".csv": true, ".db": true, ".sqlite": true, ".enc": true,
}

// codeSuffixes are those of code and documentation. PHP and shell are not among them: configurations are written in
// them.
var codeSuffixes = map[string]bool{
	".ts": true, ".tsx": true, ".mts": true, ".cts": true, ".js": true, ".jsx": true, ".mjs": true, ".cjs": true,
	".vue": true,
	".go":  true, ".py": true, ".rb": true, ".rs": true, ".java": true, ".kt": true, ".cs": true, ".c": true, ".h": true,
	".cpp": true,
	".md":  true, ".mdx": true, ".rst": true, ".html": true, ".css": true,
}

// copied is how the names of copies end that people and editors make, such as .bak, .old2, .~1~ and .pem.txt.
var copied = regexp.MustCompile(`(\.(bak|backup|old|orig|save|copy|tmp|sw[a-z]|txt)([-_.]?[0-9]+)*|\.~[0-9]+~|~)$`)

// templateSuffixes are those of what programs make a file from, such as secrets.yaml.j2.
var templateSuffixes = map[string]bool{".j2": true, ".jinja": true, ".jinja2": true, ".tpl": true, ".erb": true}

// sampleWords make a file one that shows what to write.
var sampleWords = map[string]bool{
	"example": true, "examples": true, "sample": true, "template": true, "tmpl": true, "dist": true, "schema": true,
}

// secret reports whether a file may hold secrets, by its path.
func secret(at string) bool {
	at = "/" + strings.ToLower(at)
	for _, name := range secretPaths {
		if strings.Contains(at+"/", "/"+name+"/") || strings.HasSuffix(path.Dir(at)+"/"+stem(path.Base(at)), "/"+name) {
			return true
		}
	}

	name := path.Base(at)
	for {
		if secretName(name) {
			return true
		}
		// A copy holds what the file holds. Editors put a dot before the names of some.
		original, isCopy := cutCopy(name)
		if !isCopy {
			return false
		}
		if undotted, dotted := strings.CutPrefix(original, "."); dotted && secretName(undotted) {
			return true
		}
		name = original
	}
}

func secretName(name string) bool {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '.' || r == '-' || r == '_' })
	for _, word := range words {
		if sampleWords[word] {
			return false
		}
	}
	switch {
	case codeSuffixes[path.Ext(name)], matches(publicNames, name):
		return false
	case matches(secretNames, name):
		return true
	}

	if !dataSuffixes[path.Ext(strings.TrimPrefix(name, "."))] {
		return false
	}
	if ext := path.Ext(name); ext != "" && len(words) > 1 {
		words = words[:len(words)-1]
	}
	if slices.ContainsFunc(words, func(word string) bool { return topicWords[word] }) {
		return false
	}

	return len(words) > 0 &&
		(slices.Contains(secretWords, words[0]) || slices.Contains(secretWords, words[len(words)-1]))
}

// stem returns a name without its last suffix.
func stem(name string) string {
	if ext := path.Ext(name); ext != name {
		return strings.TrimSuffix(name, ext)
	}
	return name
}

// cutCopy returns the name of what a file is a copy, or the template, of, by its name.
func cutCopy(name string) (original string, isCopy bool) {
	if at := copied.FindStringIndex(name); at != nil && at[0] > 0 {
		return name[:at[0]], true
	}
	if original = stem(name); templateSuffixes[path.Ext(name)] && path.Ext(original) != "" {
		return original, true
	}
	return name, false
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}
