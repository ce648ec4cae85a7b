package main

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Secrets of connection strings, and the environment variables in which clients of Postgres look
// for them. For the others there is no variable, but a service file may have them.
var secretParameters = map[string]string{
	"password": "PGPASSWORD", "passfile": "PGPASSFILE",
	"sslpassword": "", "oauth_client_secret": "", "scram_client_key": "", "scram_server_key": "",
}

type connInfo struct {
	public  string // the string without its secrets and its options
	secrets map[string]string
	options string // for the session, such as -c work_mem=64MB; empty: none
}

// add adds a parameter if it is a secret or the options, and reports whether it is.
func (c *connInfo) add(name, value string) bool {
	if name == "options" {
		c.options = value
		return true
	}

	_, secret := secretParameters[name]
	if secret {
		c.secrets[name] = value
	}
	return secret
}

// parseConnInfo parses a connection string of any form that libpq takes: a URL, keywords and
// values, or the name of a database. It parses as libpq does, so that no secret is overlooked.
// The error does not show the string.
func parseConnInfo(s string) (connInfo, error) {
	c := connInfo{public: s, secrets: map[string]string{}}
	for _, scheme := range []string{"postgresql://", "postgres://"} {
		if rest, ok := strings.CutPrefix(s, scheme); ok {
			return c, c.parseURL(scheme, rest)
		}
	}

	if strings.Contains(s, "=") {
		return c, c.parseKeywords(s)
	}
	return c, nil
}

func (c *connInfo) parseURL(scheme, rest string) error {
	if end := strings.IndexAny(rest, "@/"); end >= 0 && rest[end] == '@' {
		user, password, found := strings.Cut(rest[:end], ":")
		if found {
			plain, err := url.PathUnescape(password)
			if err != nil {
				return usageError("--database-url: the password must have % as %25")
			}
			c.add("password", plain)
		}
		rest = user + rest[end:]
	}

	rest, query, found := strings.Cut(rest, "?")
	c.public = scheme + rest
	if !found {
		return nil
	}

	var kept []string
	for parameter := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		name, err := url.PathUnescape(name)
		if err == nil {
			value, err = url.PathUnescape(value)
		}
		if err != nil {
			return usageError("--database-url: parameters must have % as %25")
		}

		if !c.add(name, value) {
			kept = append(kept, parameter)
		}
	}

	if len(kept) > 0 {
		c.public += "?" + strings.Join(kept, "&")
	}
	return nil
}

func (c *connInfo) parseKeywords(s string) error {
	const space = " \t\n\r\v\f"
	var kept []string
	for s = strings.TrimLeft(s, space); s != ""; s = strings.TrimLeft(s, space) {
		before := s
		name, value, found := strings.Cut(s, "=")
		if name = strings.TrimRight(name, space); !found || name == "" || strings.ContainsAny(name, space) {
			return usageError("--database-url: must be a URL, or words such as host=db.example user=actlog")
		}

		s = strings.TrimLeft(value, space)
		quoted := strings.HasPrefix(s, "'")
		s = strings.TrimPrefix(s, "'")

		var plain strings.Builder
		for ; s != ""; s = s[1:] {
			if quoted && s[0] == '\'' || !quoted && strings.Contains(space, s[:1]) {
				break
			}
			if s[0] == '\\' && len(s) > 1 {
				s = s[1:]
			}
			plain.WriteByte(s[0])
		}

		if quoted && s == "" {
			return usageError("--database-url: a quote ' is not closed")
		}
		if quoted {
			s = s[1:]
		}

		if !c.add(name, plain.String()) {
			kept = append(kept, before[:len(before)-len(s)])
		}
	}

	c.public = strings.Join(kept, " ")
	return nil
}

// with returns a connection string that has no options with those of c, and more, which win. Options in the string also
// win over those of the environment and of a service file.
func (c connInfo) with(address, more string) string {
	options := strings.TrimSpace(c.options + " " + more)
	switch {
	case strings.Contains(address, "://"):
		return address + nextParameter(address) + "options=" + strings.ReplaceAll(url.QueryEscape(options), "+", "%20")
	case address != "" && !strings.Contains(address, "="): // the name of a database
		address = "dbname=" + quoted(address)
	}

	return strings.TrimSpace(address + " options=" + quoted(options))
}

// nextParameter is what stands between a URL and one more parameter.
func nextParameter(url string) string {
	if strings.Contains(url, "?") {
		return "&"
	}
	return "?"
}

// quoted returns a value of a keyword of a connection string.
func quoted(value string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
}

// secretService is the name under which a service file has secrets.
const secretService = "actlog_secrets"

// hide moves the secrets to where other users cannot see them: to environment variables, or to
// a service file in a folder that the caller removes. It returns a connection string that has
// none, and the variables.
func (c connInfo) hide(folder string) (address string, env []string, err error) {
	var service strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.secrets)) {
		value := c.secrets[name]
		if variable := secretParameters[name]; variable != "" {
			env = append(env, variable+"="+value)
			continue
		}
		if strings.TrimSpace(value) != value || strings.ContainsAny(value, "\r\n") {
			return "", nil, usageError(fmt.Sprintf("--database-url: %s must have no space around it and no line breaks", name))
		}
		fmt.Fprintf(&service, "%s=%s\n", name, value)
	}

	if service.Len() == 0 {
		return c.public, env, nil
	}
	if strings.Contains(c.public, "service=") || os.Getenv("PGSERVICE") != "" {
		return "", nil, usageError("--database-url: write its secrets, other than the password, into the service file " +
			"that it names")
	}

	file := filepath.Join(folder, "pg_service.conf")
	if err := os.WriteFile(file, []byte("["+secretService+"]\n"+service.String()), 0o600); err != nil {
		return "", nil, err
	}

	join := " "
	if strings.Contains(c.public, "://") {
		join = nextParameter(c.public)
	}
	return c.public + join + "service=" + secretService, append(env, "PGSERVICEFILE="+file), nil
}
