package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"syscall"

	"github.com/actlog/actlog/internal/httpd"
)

// The flags for addresses to listen on.
const (
	listenFlag     = "--listen"
	otlpListenFlag = "--otlp-listen"
	otlpGRPCFlag   = "--otlp-grpc-listen"
)

// defaultOTLPListen is where exporters send by default.
const defaultOTLPListen = "127.0.0.1:4318"

// doors are the addresses that the server listens on.
type doors struct {
	all      []*httpd.Listener
	api      *httpd.Listener
	otlpHTTP *httpd.Listener // nil: none
	otlpGRPC *httpd.Listener // nil: none
}

// open listens on all addresses, on the one of the API first.
func (c *serveCmd) open(ctx context.Context, log *slog.Logger) (d doors, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, httpd.Close(ctx, d.all))
		}
	}()
	add := func(flag, address string) (*httpd.Listener, error) {
		loopback, err := checkListen(flag, address, c.Insecure || c.APIKeys != "")
		if err != nil {
			return nil, err
		}
		l, err := httpd.Listen(ctx, address, loopback)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return nil, fmt.Errorf("%w; stop the program that listens there, maybe another actlog, or name another address with %s", err, flag)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		d.all = append(d.all, l)
		return l, nil
	}
	if d.api, err = add(listenFlag, c.Listen); err != nil {
		return d, err
	}
	switch c.OTLPListen {
	case "off":
	case "":
		d.otlpHTTP, err = add(otlpListenFlag, defaultOTLPListen)
		if errors.Is(err, syscall.EADDRINUSE) {
			log.Warn("the default address for OTLP is in use; exporters can send to the address of this server, or to another that you set with --otlp-listen", "usual", defaultOTLPListen, "own", d.api.URL())
			err = nil
		}
	default:
		d.otlpHTTP, err = add(otlpListenFlag, c.OTLPListen)
	}
	if err == nil && c.OTLPGRPCListen != "" {
		d.otlpGRPC, err = add(otlpGRPCFlag, c.OTLPGRPCListen)
	}
	return d, err
}

// checkListen refuses addresses that other machines can reach, unless they are allowed. It
// reports whether the address is a loopback one.
func checkListen(flag, address string, meant bool) (loopback bool, err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, usageError(fmt.Sprintf("%s %s: must be HOST:PORT", flag, address))
	}
	ip, err := netip.ParseAddr(host)
	loopback = host == "localhost" || err == nil && ip.Unmap().IsLoopback()
	if !loopback && !meant {
		return false, usageError(fmt.Sprintf("%s %s can be reached by other machines, and there are no API keys: pass a file of keys with --api-keys (actlog key creates them), or --insecure to serve without", flag, address))
	}
	return loopback, nil
}
