package main

import (
	"bytes"
	"context"
	"crypto/sha256"
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

	"github.com/actlog/actlog/internal/door/httpd"
)

// The flags for addresses to listen on.
const (
	listenFlag     = "--listen"
	otlpListenFlag = "--otlp-listen"
	otlpGRPCFlag   = "--otlp-grpc-listen"
)

// defaultOTLPListen is where exporters send by default.
const defaultOTLPListen = "127.0.0.1:4318"

// listeners are those of the server, one for each address.
type listeners struct {
	all      []*httpd.Listener
	api      *httpd.Listener
	otlpHTTP *httpd.Listener // nil: none
	otlpGRPC *httpd.Listener // nil: none
	// otlpTaken: another program listens on the default address for OTLP.
	otlpTaken bool
}

// open listens on all addresses, on the one of the API first.
func (c *serveCmd) open(ctx context.Context) (d listeners, err error) {
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

	read [sha256.Size]byte // hash of the file of keys, as keys read it last
}

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
func (g *guardFlags) keys() (keys *httpd.Keys, err error) {
	if g.APIKeys == "" {
		return nil, nil
	}
	text, changed, err := g.readFile()
	g.read = hashOf(text, err)
	if err != nil {
		return nil, fmt.Errorf("--api-keys: %w", err)
	}

	keys, err = httpd.ReadKeys(io.MultiReader(bytes.NewReader(text), strings.NewReader("\n"+g.own)))
	if err != nil {
		return nil, fmt.Errorf("--api-keys %s: %w", g.APIKeys, err)
	}
	keys.Changed = changed
	return keys, nil
}

// readFile reads the file of keys. It returns when that was changed, too.
func (g *guardFlags) readFile() (text []byte, changed time.Time, err error) {
	f, err := os.Open(g.APIKeys)
	if err != nil {
		return nil, changed, err
	}
	defer f.Close()

	info, err := f.Stat() // before it is read: what is changed meanwhile is younger
	if err != nil {
		return nil, changed, err
	}
	text, err = io.ReadAll(f)
	return text, changedAt(info), err
}

// hashOf returns a hash of what was read of a file; of the error if it could not be read. The content counts, not the
// times of the file, so a link that points to another file now, as in a mounted secret, is a change.
func hashOf(text []byte, err error) [sha256.Size]byte {
	if err != nil {
		text = []byte(err.Error())
	}
	return sha256.Sum256(text)
}

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
		return nil, fmt.Errorf("%w; stop the program that listens there, maybe another actlog, or name another address "+
			"with %s", err, flag)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	l.Proxies = proxies
	return l, nil
}

const (
	// sessionsRetry is when to try again to end the sessions of keys that are gone.
	sessionsRetry = time.Second
	// fileEvery is how often the file of keys is looked at for changes.
	fileEvery = time.Second
)

// watch reloads the file of keys on SIGHUP, and when it is not as it was read last: it may have changed before, too,
// while the server waited for its database. A file that is being written is waited for: its content must be the same
// twice. If the file is invalid, the previous keys stay, so that a mistake in an editor locks nobody out. hangups
// receives these signals. At the start and when the keys have changed, it ends the sessions of keys that are gone. The
// returned function stops watching.
func (g *guardFlags) watch(
	hangups <-chan os.Signal, server *httpd.Server, log *slog.Logger, changed func(),
) (stop func()) {
	if g.APIKeys == "" {
		return func() {}
	}

	ctx, cancel := context.WithCancel(context.Background())
	endSessions := func() (again <-chan time.Time) {
		if err := server.EndSessions(ctx); err != nil && ctx.Err() == nil {
			log.Error("could not end the sessions of API keys that are gone; it is tried again, and nobody has a session "+
				"meanwhile", "error", err)
			return time.After(sessionsRetry)
		}
		return nil
	}

	again := endSessions() // before anybody is served
	var watch sync.WaitGroup
	watch.Go(func() {
		look := time.NewTicker(fileEvery)
		defer look.Stop()

		seen := g.read
		for {
			select {
			case <-ctx.Done():
				return
			case <-again:
				again = endSessions()
				continue
			case <-hangups:
			case <-look.C:
				text, _, err := g.readFile()
				before := seen
				if seen = hashOf(text, err); seen != before || seen == g.read {
					continue
				}
			}

			keys, err := g.keys()
			if err != nil {
				log.Error("could not reload the API keys; the previous ones stay in force", "error", err)
				continue
			}
			server.SetKeys(keys)
			changed()
			log.Info("reloaded the API keys", "keys", keys.Len())
			again = endSessions()
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
		return false, usageError(fmt.Sprintf("%s %s can be reached by other machines, and there are no API keys: pass a "+
			"file of keys with --api-keys (actlog key creates them), or --insecure to serve without", flag, address))
	}
	return loopback, nil
}
