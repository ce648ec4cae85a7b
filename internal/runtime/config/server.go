package config

import (
	"regexp"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/mcp"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
)

// Server is an MCP server: a command or a URL. [mcp.Server] says what the fields mean.
type Server struct {
	Command         []Value          `json:"command,omitempty"`
	Env             map[string]Value `json:"env,omitempty"`
	URL             Value            `json:"url,omitzero"`
	Headers         map[string]Value `json:"headers,omitempty"`
	Exclude         []string         `json:"exclude,omitempty"`
	Trusted         bool             `json:"trusted,omitempty"`
	Timeout         define.Duration  `json:"timeout,omitempty"`
	RegisterTimeout define.Duration  `json:"registerTimeout,omitempty"`
	Sandbox         Sandbox          `json:"sandbox,omitzero"`
}

func readServer(name string, n node, dir string) Server {
	var s Server
	if err := tool.CheckServerName(name); err != nil && tool.CheckName(name) == nil { // else it was noted
		n.problem("%v", err)
	}

	n.options(fields{
		"command":         func(n node) { s.Command = each(n, func(n node) Value { return n.value(false) }) },
		"env":             func(n node) { s.Env = n.values(checkVariable, func(n node) Value { return n.value(true) }) },
		"url":             func(n node) { s.URL = n.url(true) },
		"headers":         func(n node) { s.Headers = n.values(checkHeader, node.header) },
		"exclude":         func(n node) { s.Exclude = n.texts() },
		"trusted":         func(n node) { s.Trusted = n.boolean() },
		"timeout":         func(n node) { s.Timeout = n.duration() },
		"registerTimeout": func(n node) { s.RegisterTimeout = n.duration() },
		"sandbox":         func(n node) { s.Sandbox = n.sandbox(dir) },
	}, func() error { return s.open().Check() })
	return s
}

func checkVariable(name string) string {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return "a variable cannot have this name"
	}
	return ""
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

func checkHeader(name string) string {
	if !headerName.MatchString(name) {
		return "a header cannot have this name"
	}
	return ""
}

// open returns the server as package mcp wants it, with its secrets.
func (s Server) open() mcp.Server {
	return mcp.Server{
		Command: revealEach(s.Command), Env: revealAll(s.Env), URL: s.URL.Reveal(), Headers: revealAll(s.Headers),
		Exclude: s.Exclude, Trusted: s.Trusted, Timeout: time.Duration(s.Timeout),
		RegisterTimeout: time.Duration(s.RegisterTimeout), Sandbox: s.Sandbox.open(nil),
	}
}

func revealAll(values map[string]Value) map[string]string {
	texts := make(map[string]string, len(values))
	for name, v := range values {
		texts[name] = v.Reveal()
	}
	return texts
}
