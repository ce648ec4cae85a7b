//go:build attack

package attack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// tools are the MCP servers of a house, and the ledger of what they were asked to do.
type tools struct {
	server *httptest.Server

	mu     sync.Mutex
	ledger []effect
	raw    []string // the bodies of the calls, as they came
	came   chan struct{}
	gates  map[string]chan struct{} // of the calls of slow, by mark
}

// effect is a call that a server received.
type effect struct{ Server, Tool, Arguments, CallID string }

// hints of a tool, as its server gives them.
var (
	no, yes = false, true

	readOnly       = &sdk.ToolAnnotations{ReadOnlyHint: true}
	harmless       = &sdk.ToolAnnotations{DestructiveHint: &no}
	idempotent     = &sdk.ToolAnnotations{IdempotentHint: true}
	readAndHarmful = &sdk.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &yes}
	destructive    = &sdk.ToolAnnotations{DestructiveHint: &yes}
)

// bank and shady have the same tools: what differs is whether the configuration trusts them.
var toolHints = map[string]*sdk.ToolAnnotations{
	"note": harmless, "pay": nil, "slow": harmless,
	"look": readOnly, "touch": harmless, "again": idempotent, "bare": nil, "lie": readAndHarmful, "wipe": destructive,
}

func startTools(t *testing.T) *tools {
	t.Helper()
	s := &tools{came: make(chan struct{}), gates: map[string]chan struct{}{}}
	mux := http.NewServeMux()
	var servers []*sdk.Server
	for _, name := range []string{"bank", "shady"} {
		server := s.serverOf(name)
		servers = append(servers, server)
		handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
		mux.Handle("/"+name, s.keepRaw(handler))
	}

	s.server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.mu.Lock()
		for mark := range s.gates {
			s.openGate(mark)
		}
		s.mu.Unlock()

		for _, server := range servers {
			for session := range server.Sessions() {
				_ = session.Close() // its client may have gone without a word
			}
		}
		s.server.CloseClientConnections()
		s.server.Close()
	})
	return s
}

func (s *tools) url(name string) string { return s.server.URL + "/" + name }

func (s *tools) serverOf(name string) *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, nil)
	for tool, hints := range toolHints {
		schema := object{
			"type": "object", "properties": object{"item": object{"type": "string"}, "run": object{"type": "string"}},
		}
		server.AddTool(&sdk.Tool{Name: tool, Description: "Has an effect.", InputSchema: schema, Annotations: hints},
			func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				id, _ := r.Params.Meta["actlog/toolCallId"].(string)
				e := effect{name, tool, string(r.Params.Arguments), id}
				s.note(e)
				if tool == "slow" {
					select {
					case <-s.gate(markIn(e.Arguments)):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}

				var in struct{ Item string }
				_ = json.Unmarshal(r.Params.Arguments, &in)
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: tool + " " + in.Item + " is done"}}}, nil
			})
	}
	return server
}

// keepRaw keeps the bodies of calls of tools.
func (s *tools) keepRaw(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if bytes.Contains(body, []byte(`"tools/call"`)) {
				s.mu.Lock()
				s.raw = append(s.raw, string(body))
				s.mu.Unlock()
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (s *tools) note(e effect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = append(s.ledger, e)
	close(s.came)
	s.came = make(chan struct{})
}

// of returns what was done for a run, in order.
func (s *tools) of(mark string) (all []effect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.ledger {
		if strings.Contains(e.Arguments, mark) {
			all = append(all, e)
		}
	}
	return all
}

// rawOf returns the bodies of the calls of a run.
func (s *tools) rawOf(mark string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.raw), func(body string) bool { return !strings.Contains(body, mark) })
}

// gate is what a call of slow waits for.
func (s *tools) gate(mark string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[mark] == nil {
		s.gates[mark] = make(chan struct{})
	}
	return s.gates[mark]
}

// release lets the calls of slow of a run end.
func (s *tools) release(mark string) {
	s.gate(mark)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openGate(mark)
}

func (s *tools) openGate(mark string) {
	select {
	case <-s.gates[mark]:
	default:
		close(s.gates[mark])
	}
}

// awaitTool waits until a tool was called by a run.
func (s *tools) awaitTool(ctx context.Context, mark, tool string) bool {
	for {
		s.mu.Lock()
		came := s.came
		s.mu.Unlock()

		if slices.ContainsFunc(s.of(mark), func(e effect) bool { return e.Tool == tool }) {
			return true
		}
		select {
		case <-came:
		case <-ctx.Done():
			return false
		}
	}
}
