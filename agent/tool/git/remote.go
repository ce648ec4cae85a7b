package git

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// Remote is another repository that git.push and git.pull may use. What the repository's own configuration says of its
// remotes does not count.
type Remote struct {
	// URL is https://, ssh://, file:// with an absolute path, or http:// of this machine. It holds no user and no
	// password, but for the user of ssh.
	URL string
	// Token is what the server takes for a password, and Username the name that goes with it: x-access-token if it is
	// empty. They are for https.
	Token, Username string
	// Header is a whole line of HTTP instead, such as "Authorization: Bearer ...".
	Header string
	// KeyFile and KnownHosts are the private key and the known hosts of ssh, by their absolute paths. Both are needed.
	KeyFile, KnownHosts string
}

var (
	remoteName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,49}$`)
	headerLine = regexp.MustCompile(`^[A-Za-z0-9-]+: [\x21-\x7e][\x20-\x7e]*$`)
	printable  = regexp.MustCompile(`^[\x21-\x7e]*$`)
	sshUser    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	hostName   = regexp.MustCompile(`^[A-Za-z0-9_\[:][A-Za-z0-9_.:\]-]*$`)
)

// Check returns what is wrong with a remote, after the name of the field and ": ". It quotes no secret.
func (m Remote) Check() error {
	u, err := url.Parse(m.URL)
	if err != nil || !printable.MatchString(m.URL) {
		return errors.New("url: it is no URL") // the error of the parser has the whole of it
	}

	switch {
	case u.RawQuery != "" || u.Fragment != "" || u.Opaque != "":
		return errors.New("url: it has more than a host and a path")
	case u.Scheme != "ssh" && u.User != nil:
		return errors.New("url: it has a user or a password; put them into username and token")
	case m.Token != "" && m.Header != "":
		return errors.New("token: it does not go with header")
	case m.Username != "" && m.Token == "":
		return errors.New("username: it goes with token, which is missing")
	case !printable.MatchString(m.Token) || !printable.MatchString(m.Username) || strings.Contains(m.Username, ":"):
		return errors.New("token: it has characters that no token has")
	case m.Header != "" && !headerLine.MatchString(m.Header):
		return errors.New("header: want a line such as Authorization: Bearer TOKEN")
	}
	return m.checkScheme(u)
}

func (m Remote) checkScheme(u *url.URL) error {
	web := m.Token != "" || m.Header != ""
	ssh := m.KeyFile != "" || m.KnownHosts != ""

	switch {
	case u.Scheme != "file" && !hostName.MatchString(u.Host):
		return errors.New("url: it has no host")
	case u.Scheme == "https" || u.Scheme == "http":
		if ssh {
			return errors.New("keyFile: it is for ssh")
		}
		if u.Scheme == "http" && !isHere(u.Hostname()) {
			return errors.New("url: want https; http is for servers of this machine only")
		}
		return nil
	case web:
		return errors.New("url: token, username and header are for https")
	case u.Scheme == "ssh":
		return m.checkSSH(u)
	case u.Scheme == "file":
		if u.Host != "" || !filepath.IsAbs(u.Path) || ssh {
			return errors.New("url: want file:// and an absolute path, and nothing else")
		}
		return nil
	}
	return errors.New("url: want https, ssh or file")
}

// isHere reports whether a host is this machine.
func isHere(host string) bool {
	address := net.ParseIP(host)
	return host == "localhost" || address != nil && address.IsLoopback()
}

func (m Remote) checkSSH(u *url.URL) error {
	_, hasPassword := u.User.Password()
	switch {
	case hasPassword || u.User != nil && !sshUser.MatchString(u.User.Username()):
		return errors.New("url: want a user and no password")
	case !filepath.IsAbs(m.KeyFile) || !filepath.IsAbs(m.KnownHosts):
		return errors.New("url: ssh needs keyFile and knownHosts, as absolute paths")
	case strings.ContainsAny(m.KeyFile+m.KnownHosts, "'\"\\%$~\n\x00"):
		return errors.New("keyFile: the paths of keyFile and knownHosts have characters that ssh would read")
	}
	return nil
}

// CheckRemoteName returns an error if no remote can have a name.
func CheckRemoteName(name string) error {
	if !remoteName.MatchString(name) {
		return errors.New("the name of a remote has at most 50 letters, digits, '-' and '_'")
	}
	return nil
}

func checkRemotes(remotes map[string]Remote) error {
	var errs []error
	for name, m := range remotes {
		if err := CheckRemoteName(name); err != nil {
			errs = append(errs, fmt.Errorf("remotes: %q: %w", name, err))
		}
		if err := m.Check(); err != nil {
			errs = append(errs, fmt.Errorf("remotes.%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// environment returns the variables with which git reaches a remote. They hold its secrets, which are no arguments.
func (m Remote) environment(u *url.URL) []string {
	env := []string{"GIT_ALLOW_PROTOCOL=" + u.Scheme, "GIT_ASKPASS=false", "SSH_ASKPASS=false", "GIT_PROTOCOL_FROM_USER=0"}
	if header := m.header(); header != "" {
		env = append(env, "GIT_CONFIG_COUNT=1",
			"GIT_CONFIG_KEY_0=http."+u.Scheme+"://"+u.Host+"/.extraHeader", "GIT_CONFIG_VALUE_0="+header)
	}
	if u.Scheme == "ssh" {
		env = append(env, "GIT_SSH_VARIANT=ssh",
			"GIT_SSH_COMMAND=ssh -F none -o BatchMode=yes -o IdentitiesOnly=yes -o IdentityAgent=none"+
				" -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no -o StrictHostKeyChecking=yes -o "+
				"GlobalKnownHostsFile=none"+
				" -o ClearAllForwardings=yes -o PermitLocalCommand=no -o ConnectTimeout=15"+
				" -o 'UserKnownHostsFile=\""+m.KnownHosts+"\"' -o 'IdentityFile=\""+m.KeyFile+"\"'")
	}
	return env
}

func (m Remote) header() string {
	if m.Token == "" {
		return m.Header
	}

	name := cmp.Or(m.Username, "x-access-token")
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+m.Token))
}

// secrets returns the texts that nobody may read.
func (m Remote) secrets() (all []string) {
	header := m.header()
	_, value, _ := strings.Cut(header, ": ")
	_, credentials, _ := strings.Cut(value, " ")
	for _, secret := range []string{m.Token, header, value, credentials} {
		if secret != "" {
			all = append(all, secret)
		}
	}
	return all
}
