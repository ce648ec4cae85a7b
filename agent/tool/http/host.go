package http

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// rules say where requests may go, and with what.
type rules struct {
	hosts   []host
	methods []string
	headers []hostHeaders
}

// hostHeaders are sent to a host besides what a model says.
type hostHeaders struct {
	host   host
	values map[string]string
}

// host is an entry of the hosts that requests may go to.
type host struct {
	scheme string // empty: http and https
	name   string // without "*."
	below  bool   // all names below it, and not the name itself
	port   string // empty: that of the scheme
}

var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

func readHost(entry string) (h host, err error) {
	rest := strings.ToLower(entry)
	if scheme, after, ok := strings.Cut(rest, "://"); ok {
		if h.scheme, rest = scheme, after; scheme != "http" && scheme != "https" {
			return h, fmt.Errorf("%q: want http:// or https://", entry)
		}
	}
	if rest, h.below = strings.CutPrefix(rest, "*."); h.below && !strings.Contains(rest, ".") {
		return h, fmt.Errorf("%q: too many hosts; name at least the domain, such as *.example.com", entry)
	}

	h.name = rest
	if name, port, err := net.SplitHostPort(rest); err == nil {
		h.name, h.port = name, port
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return h, fmt.Errorf("%q: no such port", entry)
		}
	}
	h.name = strings.Trim(h.name, "[]")
	if _, err := netip.ParseAddr(h.name); err != nil && !hostName.MatchString(h.name) {
		return h, fmt.Errorf("%q is no host, such as api.example.com or *.example.com", entry)
	}
	return h, nil
}

// covers reports whether a name of a host, with its port if the entry has one, is one of the entry.
func (h host) covers(name string) bool {
	name = strings.ToLower(name)
	if h.port != "" {
		at, port, err := net.SplitHostPort(name)
		if err != nil || port != h.port {
			return false
		}
		name = at
	}

	if h.below {
		return strings.HasSuffix(name, "."+h.name)
	}
	return name == h.name
}

// matches reports whether a URL leads to a host of the entry.
func (h host) matches(u *url.URL) bool {
	if h.scheme != "" && h.scheme != u.Scheme {
		return false
	}

	standard := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	port := cmp.Or(u.Port(), standard)
	if h.port == "" {
		return port == standard && h.covers(u.Hostname())
	}
	return h.covers(net.JoinHostPort(u.Hostname(), port))
}

const maxURL = 8 << 10

// parse reads a URL that a model or a server wrote.
func parse(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, fmt.Errorf("url: it has more than %d bytes", maxURL)
	}

	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("url: it is no URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("url: it must begin with https:// or http://")
	case u.User != nil:
		return nil, errors.New("url: it must not have a user or a password; the program has the credentials of each host")
	case u.Hostname() == "" || u.Opaque != "":
		return nil, errors.New("url: it has no host")
	}

	u.Host = strings.ToLower(u.Host)
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// allow returns what is sent to the host of a URL besides what a model says, or why nothing may be sent there.
func (r *rules) allow(u *url.URL) (map[string]string, error) {
	for _, h := range r.hosts {
		if !h.matches(u) {
			continue
		}

		secret := r.headersOf(u)
		if len(secret) > 0 && u.Scheme == "http" && h.scheme != "http" {
			return nil, fmt.Errorf("url: requests to %s have credentials and must be encrypted; use https://", u.Host)
		}
		return secret, nil
	}
	return nil, fmt.Errorf("url: requests to %s://%s are not allowed; allowed are: %s", u.Scheme, u.Host, r.names())
}

func (r *rules) headersOf(u *url.URL) map[string]string {
	for _, h := range r.headers {
		if h.host.matches(u) {
			return h.values
		}
	}
	return nil
}

// names returns the hosts for a message.
func (r *rules) names() string {
	const most = 20
	var names []string
	for _, h := range r.hosts[:min(len(r.hosts), most)] {
		names = append(names, h.String())
	}
	return strings.Join(names, ", ")
}

func (h host) String() string {
	name := h.name
	if h.below {
		name = "*." + name
	}
	if h.port != "" {
		name = net.JoinHostPort(name, h.port)
	}
	if h.scheme != "" {
		name = h.scheme + "://" + name
	}
	return name
}
