package http

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// errAddress says that a host has an address that requests must not go to.
var errAddress = errors.New(
	"it has an address of a private network, or one for special purposes, where requests must not go")

// metadata are addresses at which clouds have credentials of their machines, and that are not link-local.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // Amazon
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("192.0.0.192"),     // Oracle
	netip.MustParseAddr("168.63.129.16"),   // Azure
}

// guard returns what checks each address before a connection to it is opened, whatever name led there and
// whatever that name meant a moment ago.
func guard(allowPrivate bool) func(network, address string, c syscall.RawConn) error {
	public := ssrf.New(ssrf.WithAnyPort())
	return func(network, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || network != "tcp4" && network != "tcp6" {
			return errAddress
		}

		ip := at.Addr().Unmap()
		if slices.Contains(metadata, ip) {
			return errAddress
		}
		if allowPrivate && !ip.IsLinkLocalUnicast() && !ip.IsMulticast() && !ip.IsUnspecified() {
			return nil
		}
		if ip.Zone() != "" || public.SafeAddr(ip) != nil {
			return errAddress
		}
		return nil
	}
}

const (
	dialTimeout        = 10 * time.Second
	maxResponseHeaders = 64 << 10
)

// newClient returns a client that follows no redirect by itself. Each request has a connection of its own, over
// HTTP/1.1, so that none is sent twice: a transport would send one again that has an Idempotency-Key if an old
// connection broke.
func newClient(o Options) *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout, Control: guard(o.AllowPrivate)}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout, DisableKeepAlives: true,
			DisableCompression: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
			MaxResponseHeaderBytes: maxResponseHeaders, WriteBufferSize: 16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// unreachable returns, for a model, why a request could not be sent.
func unreachable(host string, err error) error {
	if errors.Is(err, errAddress) {
		return fmt.Errorf("%s: %w", host, errAddress)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Errorf("%s cannot be found: %s", host, dns.Err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%s cannot be reached: %w", host, op.Err)
	}
	return fmt.Errorf("%s cannot be reached: %w", host, withoutURL(err))
}

// withoutURL returns an error without the URL that the client puts in front.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
