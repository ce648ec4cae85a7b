package httpd_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/apitest"
)

// TestAddressOfAClient: S10. The address is the peer's or, if that is a proxy that is trusted, the last one of
// X-Forwarded-For that is none.
func TestAddressOfAClient(t *testing.T) {
	t.Parallel()
	proxies, err := httpd.ParseProxies([]string{
		"10.0.0.0/8", " 192.0.2.7", "2001:db8:1::/48", "::ffff:172.16.0.0/108", "",
	})
	if err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct {
		peer string
		told []string
		want string
	}{
		{"198.51.100.1:5", nil, "198.51.100.1"},
		{"198.51.100.1:5", []string{"203.0.113.1"}, "198.51.100.1"}, // anybody can say so
		{"10.1.2.3:5", nil, "10.1.2.3"},
		{"10.1.2.3:5", []string{""}, "10.1.2.3"},
		{"10.1.2.3:5", []string{"203.0.113.1"}, "203.0.113.1"},
		{"[::ffff:10.1.2.3]:5", []string{"203.0.113.1"}, "203.0.113.1"},
		{"10.1.2.3:5", []string{"::ffff:203.0.113.1"}, "203.0.113.1"},
		{"10.1.2.3:5", []string{"8.8.8.8, 203.0.113.1"}, "203.0.113.1"}, // the client made up the first
		{"10.1.2.3:5", []string{"8.8.8.8", "203.0.113.1"}, "203.0.113.1"},
		{"10.1.2.3:5", []string{"203.0.113.1,10.9.9.9", "192.0.2.7,172.16.9.9"}, "203.0.113.1"},
		{"10.1.2.3:5", []string{"10.9.9.9,10.8.8.8"}, "10.9.9.9"},
		{"10.1.2.3:5", []string{"203.0.113.1:4711"}, "203.0.113.1"},
		{"10.1.2.3:5", []string{"[2001:db8:2::1]:4711"}, "2001:db8:2::1"},
		{"10.1.2.3:5", []string{"[2001:db8:2::1]"}, "2001:db8:2::1"},
		{"[2001:db8:1::9]:5", []string{"2001:db8:2::1"}, "2001:db8:2::1"},
		{"[fe80::1%eth0]:5", []string{"2001:db8:2::1"}, "fe80::1"},
		{"10.1.2.3:5", []string{"203.0.113.1, unknown"}, "10.1.2.3"}, // a proxy does not know its peer
		{"10.1.2.3:5", []string{"203.0.113.1, unknown, 10.9.9.9"}, "10.9.9.9"},
		{"10.1.2.3:5", []string{"203.0.113.1,"}, "10.1.2.3"},
	} {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{"X-Forwarded-For": tt.told}}
		if got := httpd.AddressOf(proxies, r); got != tt.want {
			t.Errorf("%s %q: %s, want %s", tt.peer, tt.told, got, tt.want)
		}
	}

	for _, text := range []string{"proxy.example", "10.0.0.0/33", "10.0.0", "*", "fe80::1%eth0"} {
		if _, err := httpd.ParseProxies([]string{text}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSharesBehindAProxy: clients of a proxy that is trusted have shares of their own, and those of an IPv6 network
// one. The log has their addresses. Of another proxy nothing is believed.
func TestSharesBehindAProxy(t *testing.T) {
	t.Parallel()
	for trusted, want := range map[string]string{"127.0.0.0/8": "200 200 429 200", "192.0.2.1": "200 429 429 429"} {
		proxies, err := httpd.ParseProxies([]string{trusted})
		if err != nil {
			t.Fatal(err)
		}

		log := new(apitest.Log)
		c := serveWith(t, options{Log: log, Server: func(c *apitest.Config) {
			c.HTTP.Proxies, c.HTTP.MaxStreams = proxies, 4
		}})

		var got []string
		for i, client := range []string{"203.0.113.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::2"} {
			status, _ := begin(t, c, "/api/v1/events", "", "X-Forwarded-For", "8.8.8.8, "+client, "X-Request-Id",
				string(rune('a'+i)))
			got = append(got, status)
		}

		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: %s, want %s", trusted, got, want)
		}
		address := map[bool]string{true: "2001:db8::2", false: "127.0.0.1"}[trusted == "127.0.0.0/8"]
		if found := log.Lines("msg=request", "id=c", "address="+address); len(found) != 1 {
			t.Errorf("%s: no line with %s in\n%s", trusted, address, log)
		}
	}
}
