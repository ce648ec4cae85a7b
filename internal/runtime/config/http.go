package config

import (
	"slices"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/http"
	"github.com/actlog/actlog/internal/runtime/define"
)

// HTTP are the tools that send requests to other servers. [http.Options] says what the fields mean.
type HTTP struct {
	Hosts        []string                    `json:"hosts"`
	Methods      []string                    `json:"methods,omitempty"`
	Headers      map[string]map[string]Value `json:"headers,omitempty"` // by host
	AllowPrivate bool                        `json:"allowPrivate,omitempty"`
	MaxBytes     int                         `json:"maxBytes,omitempty"`
	Timeout      define.Duration             `json:"timeout,omitempty"`
}

func readHTTP(n node) (h HTTP) {
	n.options(fields{
		"hosts":   func(n node) { h.Hosts = n.words() },
		"methods": func(n node) { h.Methods = n.words() },
		"headers": func(n node) {
			h.Headers = map[string]map[string]Value{}
			n.entries(func(host string, n node) { h.Headers[host] = n.values(checkHeader, node.header) })
		},
		"allowPrivate": func(n node) { h.AllowPrivate = n.boolean() },
		"maxBytes":     func(n node) { h.MaxBytes = int(n.positive(http.MaxBytes)) },
		"timeout":      func(n node) { h.Timeout = n.duration() },
	}, func() error { return h.options().Check() }, "hosts")
	return h
}

func (h *HTTP) options() http.Options {
	o := http.Options{
		Hosts: h.Hosts, Methods: h.Methods, AllowPrivate: h.AllowPrivate, MaxBytes: h.MaxBytes,
		Timeout: time.Duration(h.Timeout), Headers: make(map[string]map[string]string, len(h.Headers)),
	}
	for host, headers := range h.Headers {
		o.Headers[host] = revealAll(headers)
	}
	return o
}

func (h *HTTP) open() ([]tool.Tool, error) { return http.Tools(h.options()) }

func (h *HTTP) tools() (names []string) {
	if h == nil {
		return nil
	}

	has := func(some ...string) bool {
		return slices.ContainsFunc(h.Methods, func(m string) bool { return slices.Contains(some, m) })
	}
	if len(h.Methods) == 0 || has("GET", "HEAD", "OPTIONS") {
		names = append(names, "http.request")
	}
	if has("POST", "PUT", "PATCH", "DELETE") {
		names = append(names, "http.send")
	}
	return names
}
