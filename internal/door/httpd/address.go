package httpd

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the addresses of proxies that are believed when they say for whom they send.
type Proxies []netip.Prefix

// ParseProxies reads networks, such as 10.0.0.0/8, and single addresses.
func ParseProxies(texts []string) (all Proxies, err error) {
	for _, text := range texts {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}

		network, err := netip.ParsePrefix(text)
		if err != nil {
			var single netip.Addr
			if single, err = netip.ParseAddr(text); err == nil {
				network = netip.PrefixFrom(single, single.BitLen())
			}
		}
		if err != nil || strings.Contains(text, "%") {
			return nil, fmt.Errorf("%.60q is neither an address nor a network such as 10.0.0.0/8", text)
		}

		if a := network.Addr(); a.Is4In6() && network.Bits() >= 96 {
			network = netip.PrefixFrom(a.Unmap(), network.Bits()-96)
		}
		all = append(all, network.Masked())
	}
	return all, nil
}

func (p Proxies) has(a netip.Addr) bool {
	for _, network := range p {
		if network.Contains(a) {
			return true
		}
	}
	return false
}

// client returns the address of the client that made a request: the peer or, if that is one of the proxies, the last
// address of X-Forwarded-For that is none of them. Each proxy appends the address of its own peer, so anything before
// that address may be made up by the client.
func (p Proxies) client(r *http.Request) netip.Addr {
	client := addressOf(r.RemoteAddr)
	if !p.has(client) {
		return client
	}

	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && p.has(client); i-- {
		hop := addressOf(strings.TrimSpace(hops[i]))
		if !hop.IsValid() { // a proxy does not know its peer: more is not known for sure
			break
		}
		client = hop
	}
	return client
}

// addressOf returns the address in a text that may have a port; the zero address if there is none.
func addressOf(text string) netip.Addr {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}

	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// networkOf names whom an address belongs to. Of IPv6, one client has a whole /64.
func networkOf(a netip.Addr) string {
	if a.Is6() {
		if network, err := a.Prefix(64); err == nil {
			return network.String()
		}
	}
	return a.String()
}
