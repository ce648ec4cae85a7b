package httpd

import (
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// Names of hosts are checked so that no web page reaches the record by a name of its own that leads here: for a
// browser, it would be a page of this server. No page can have an address or a loopback name that way.

// checkHost refuses requests for other hosts than those of some names: a loopback name, or, of a door that other
// machines can reach, an address of any kind and the name of this machine.
func checkHost(names []string, loopbackOnly bool) echo.MiddlewareFunc {
	own := make([]string, len(names))
	for i, name := range names {
		own[i] = hostName(name)
	}
	if machine, err := os.Hostname(); err == nil && !loopbackOnly {
		own = append(own, hostName(machine))
	}

	detail := "this server answers to its address, to the name of its machine, to loopback names such as localhost, " +
		"and to the names of --allowed-hosts"
	if loopbackOnly {
		detail = "this server answers to loopback names only, such as localhost"
	}

	known := func(r *http.Request) bool {
		name := hostName(r.Host)
		if isLoopback(name) || slices.Contains(own, name) {
			return true
		}
		return !loopbackOnly && (isAddress(name) || name == "" && !r.ProtoAtLeast(1, 1)) // browsers always name a host
	}

	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !known(c.Request()) {
				return Refused(http.StatusForbidden, detail)
			}
			return next(c)
		}
	}
}

// hostName returns a host without a port, as names are compared.
func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

func isAddress(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

// isLoopback reports whether a name means this machine.
func isLoopback(name string) bool {
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}
