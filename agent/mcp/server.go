package mcp

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/actlog/actlog/agent/sandbox"
)

// Default time-outs.
const (
	DefaultRegisterTimeout = 30 * time.Second
	DefaultTimeout         = 10 * time.Second
)

// Server is the configuration of an MCP server: a command or a URL.
type Server struct {
	// Command is a program with its arguments, which speaks MCP over its standard input and output.
	Command []string `yaml:"command,omitempty"`
	// Env are variables for the command, besides PATH and HOME.
	Env map[string]string `yaml:"env,omitempty"`
	// URL is the endpoint of a server that speaks streamable HTTP.
	URL string `yaml:"url,omitempty"`
	// Headers are sent with each request to the URL, for example Authorization.
	Headers map[string]string `yaml:"headers,omitempty"`
	// Exclude are tools that are not offered: names as the server has them, or patterns with "*".
	Exclude []string `yaml:"exclude,omitempty"`
	// Trusted makes the hints count that the server gives for its tools: "read only" means that the
	// tool does not write, this or "idempotent" that a call whose outcome is unknown is made again, and
	// "destructive" that a human approves each call. Without Trusted, each tool
	// counts as one that writes, and a human approves each call, unless a rule says otherwise: see
	// [tool.Rules.Of].
	Trusted bool `yaml:"trusted,omitempty"`
	// Timeout bounds a call. 0 means DefaultTimeout.
	Timeout time.Duration `yaml:"timeout,omitempty"`
	// RegisterTimeout bounds connecting and listing the tools. 0 means DefaultRegisterTimeout.
	RegisterTimeout time.Duration `yaml:"registerTimeout,omitempty"`
	// Sandbox is what the command can reach. An empty mode is DefaultSandbox.
	Sandbox sandbox.Sandbox `yaml:"sandbox,omitempty"`
}

// DefaultSandbox keeps the command of a server from other processes, ours among them. It reaches all files of
// the user: what servers need is too different.
const DefaultSandbox = sandbox.Processes

func (s Server) sandbox() sandbox.Sandbox {
	box := s.Sandbox
	box.Mode = cmp.Or(box.Mode, DefaultSandbox)
	return box
}

// Check returns an error that names the field if the configuration cannot be used.
func (s Server) Check() error {
	switch {
	case len(s.Command) == 0 && s.URL == "":
		return errors.New("command: a server needs a command or a url")
	case len(s.Command) > 0 && s.URL != "":
		return errors.New("url: a server has a command or a url, not both")
	case len(s.Command) > 0 && s.Command[0] == "":
		return errors.New("command: the program is empty")
	case len(s.Command) > 0 && len(s.Headers) > 0:
		return errors.New("headers: they are for servers with a url")
	case s.URL != "" && len(s.Env) > 0:
		return errors.New("env: it is for servers with a command")
	case s.URL != "" && (s.Sandbox.Mode != "" || len(s.Sandbox.Read)+len(s.Sandbox.Write) > 0):
		return errors.New("sandbox: it is for servers with a command")
	case s.Timeout < 0:
		return errors.New("timeout: it is negative")
	case s.RegisterTimeout < 0:
		return errors.New("registerTimeout: it is negative")
	}

	if s.URL == "" {
		if err := s.sandbox().Check(); err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
		return nil
	}

	// The URL may hold a secret, so no error has it.
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("url: it must be of the form http://host/path or https://host/path")
	}
	return nil
}

// Secrets are the variables and headers.
func (s Server) Secrets() []string {
	return slices.AppendSeq(slices.Collect(maps.Values(s.Env)), maps.Values(s.Headers))
}

func (s Server) withDefaults() Server {
	s.Timeout = cmp.Or(s.Timeout, DefaultTimeout)
	s.RegisterTimeout = cmp.Or(s.RegisterTimeout, DefaultRegisterTimeout)
	return s
}

// key is the same for configurations that can share a connection.
func (s Server) key() (string, error) {
	b, err := json.Marshal([]any{s.Command, s.Env, s.URL, s.Headers, s.Sandbox})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(b)), nil
}
