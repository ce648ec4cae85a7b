package http

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"

	"github.com/actlog/actlog/agent/tool"
)

// Guard returns what checks addresses.
func Guard(allowPrivate bool) func(network, address string) error {
	g := guard(allowPrivate)
	return func(network, address string) error { return g(network, address, nil) }
}

// ToolsAt returns the tools for servers of a test: names mean these addresses, and certificates are theirs. The
// addresses are checked as all are.
func ToolsAt(o Options, addresses map[string]string, roots *x509.CertPool) ([]tool.Tool, error) {
	c, err := newSender(o)
	if err != nil {
		return nil, err
	}

	transport := c.client.Transport.(*http.Transport)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if to, ok := addresses[address]; ok {
			address = to
		}
		return dial(ctx, network, address)
	}
	transport.TLSClientConfig.RootCAs = roots
	return c.tools(), nil
}
