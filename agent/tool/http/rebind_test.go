package http_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/actlog/actlog/agent/tool"
	tools "github.com/actlog/actlog/agent/tool/http"
)

// names answers questions about names: the first for an address with 127.0.0.1, later ones with that of the credentials
// of a cloud.
func names(t *testing.T) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })

	go func() {
		b, asked := make([]byte, 1<<10), 0
		for {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}

			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}

			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				address := [4]byte{127, 0, 0, 1}
				if asked++; asked > 1 {
					address = [4]byte{169, 254, 169, 254}
				}
				header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
				m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: address}}}
			}
			if packed, err := m.Pack(); err == nil {
				_, _ = server.WriteTo(packed, from) // who asked asks again
			}
		}
	}()

	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// A name that means another address in the middle of a call leads nowhere.
func TestNameThatChanges(t *testing.T) {
	before := net.DefaultResolver
	net.DefaultResolver = names(t)
	defer func() { net.DefaultResolver = before }()

	var came atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came.Add(1)
		http.Redirect(w, r, "/credentials", http.StatusFound)
	}))
	defer s.Close()

	host := "http://rebind.test:" + s.URL[strings.LastIndex(s.URL, ":")+1:]
	all, err := tools.Tools(tools.Options{Hosts: []string{host}, AllowPrivate: true, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}

	call := tool.Call{ID: "call-1", Arguments: []byte(`{"url": "` + host + `/"}`)}
	result, err := tool.Do(t.Context(), all[0], all[0].Spec().Policy, call, 0)
	if err != nil || !result.Failed || !strings.Contains(result.Text, "it has an address") || came.Load() != 1 {
		t.Errorf("%q, %v; %d requests", result.Text, err, came.Load())
	}
}
