package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

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
	// otlpTaken: another program listens on the default address for OTLP.
	otlpTaken bool
}

// open listens on all addresses, on the one of the API first.
func (c *serveCmd) open(ctx context.Context) (d doors, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, httpd.Close(ctx, d.all))
		}
	}()
	add := func(flag, address string) (*httpd.Listener, error) {
		l, err := c.listen(ctx, flag, address)
		if err == nil {
			d.all = append(d.all, l)
		}
		return l, err
	}
	if d.api, err = add(listenFlag, c.Listen); err != nil {
		return d, err
	}
	switch c.OTLPListen {
	case "off":
	case "":
		d.otlpHTTP, err = add(otlpListenFlag, defaultOTLPListen)
		if errors.Is(err, syscall.EADDRINUSE) {
			d.otlpTaken, err = true, nil
		}
	default:
		d.otlpHTTP, err = add(otlpListenFlag, c.OTLPListen)
	}
	if err == nil && c.OTLPGRPCListen != "" {
		d.otlpGRPC, err = add(otlpGRPCFlag, c.OTLPGRPCListen)
	}
	return d, err
}

// guardFlags say who may use an address.
type guardFlags struct {
	APIKeys  string `help:"File of the API keys that clients need, as actlog key creates them; reloaded when it changes." name:"api-keys" placeholder:"FILE" type:"path"`
	Insecure bool   `help:"Allow an address that other machines can reach, without API keys."`

	AllowedHosts []string `help:"Names by which clients reach the server, beside its addresses, loopback names and the name of the machine. Without API keys, requests for other hosts are refused." name:"allowed-hosts" placeholder:"NAME"`
	TrustedProxy []string `help:"Addresses or networks of the proxies in front, such as 10.0.0.0/8: they say in X-Forwarded-For which client sent a request. Default: none is believed." name:"trusted-proxy" placeholder:"CIDR"`

	own string // a line like those of the file, for a key of this process; empty: none
}

// guard says who may use the server.
func (g *guardFlags) guard() (config httpd.Config, err error) {
	for _, name := range g.AllowedHosts {
		if name == "" || strings.ContainsAny(name, "*/ ") {
			return config, usageError(fmt.Sprintf("--allowed-hosts: %.60q is no name of a host", name))
		}
	}
	config.Hosts, config.CheckHosts = g.AllowedHosts, g.APIKeys == ""
	if config.Proxies, err = g.proxies(); err != nil {
		return config, err
	}
	config.Keys, err = g.keys()
	return config, err
}

func (g *guardFlags) proxies() (httpd.Proxies, error) {
	proxies, err := httpd.ParseProxies(g.TrustedProxy)
	if err != nil {
		return nil, usageError("--trusted-proxy: " + err.Error())
	}
	return proxies, nil
}

// keys reads the file of keys; nil if none is needed.
func (g *guardFlags) keys() (*httpd.Keys, error) {
	if g.APIKeys == "" {
		return nil, nil
	}
	f, err := os.Open(g.APIKeys)
	if err != nil {
		return nil, fmt.Errorf("--api-keys: %w", err)
	}
	defer f.Close()
	info, err := f.Stat() // before it is read: what is changed meanwhile is younger
	if err != nil {
		return nil, fmt.Errorf("--api-keys: %w", err)
	}
	keys, err := httpd.ReadKeys(io.MultiReader(f, strings.NewReader("\n"+g.own)))
	if err != nil {
		return nil, fmt.Errorf("--api-keys %s: %w", g.APIKeys, err)
	}
	keys.Changed = changedAt(info)
	return keys, nil
}

// listen listens on an address that a flag names.
func (g *guardFlags) listen(ctx context.Context, flag, address string) (*httpd.Listener, error) {
	loopback, err := checkListen(flag, address, g.Insecure || g.APIKeys != "")
	if err != nil {
		return nil, err
	}
	proxies, err := g.proxies()
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
	l.Proxies = proxies
	return l, nil
}

// sessionsRetry is when to try again to end the sessions of keys that are gone.
const sessionsRetry = time.Second

// watch reloads the file of keys when it changes and on SIGHUP. If the file is invalid, the previous keys stay, so that a
// mistake in an editor locks nobody out. hangups receives these signals. At the start and when the keys have changed, it ends the sessions of
// keys that are gone. The returned function stops watching.
func (g *guardFlags) watch(hangups <-chan os.Signal, server *httpd.Server, log *slog.Logger, changed func()) (stop func()) {
	if g.APIKeys == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	endSessions := func() (again <-chan time.Time) {
		if err := server.EndSessions(ctx); err != nil && ctx.Err() == nil {
			log.Error("could not end the sessions of API keys that are gone; it is tried again, and nobody has a session meanwhile", "error", err)
			return time.After(sessionsRetry)
		}
		return nil
	}
	changes := fileChanges(ctx, g.APIKeys)
	again := endSessions() // before anybody is served
	var watch sync.WaitGroup
	watch.Go(func() {
		for ; ; again = endSessions() {
			select {
			case <-ctx.Done():
				return
			case <-again:
				continue
			case <-hangups:
			case <-changes:
			}

			keys, err := g.keys()
			if err != nil {
				log.Error("could not reload the API keys; the previous ones stay in force", "error", err)
				continue
			}
			server.SetKeys(keys)
			changed()
			log.Info("reloaded the API keys", "keys", keys.Len())
		}
	})
	return func() {
		cancel()
		watch.Wait()
	}
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
