package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/view/words"
)

type mcpCmd struct{ serverFlags }

func (c *mcpCmd) Run(ctx context.Context, e *env, client *client) error {
	in := interruptible(ctx, e.stdin)
	defer in.Close()
	b := &bridge{client: client, out: e.stdout, stderr: e.stderr, calls: map[string]context.CancelFunc{}}
	return b.serve(ctx, in)
}

const (
	// maxMessage bounds a message of an assistant, in bytes. The server takes smaller ones.
	maxMessage = 1 << 20
	// maxToolAnswer bounds a message of the server.
	maxToolAnswer = 16 << 20
)

// The codes of errors of JSON-RPC.
const (
	codeUnreadable = -32700
	codeFailed     = -32000
)

// bridge passes the messages of an assistant, one per line, to the tools of a server, and their answers back. Each
// message is a request of its own: one that fails does not stop the others.
type bridge struct {
	client *client
	stderr io.Writer

	mu      sync.Mutex
	out     io.Writer
	calls   map[string]context.CancelFunc // that are not answered yet, by id
	version string                        // of the protocol, as the server chose it; empty: each message says it
}

// rpcMessage is what the bridge reads of a message.
type rpcMessage struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name, URI string
		RequestID json.RawMessage
		Meta      struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	}
	Result struct{ ProtocolVersion string }
}

// serve passes messages on until there are no more, and waits for the last answers.
func (b *bridge) serve(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxMessage)

	var under sync.WaitGroup
	for lines.Scan() {
		line := bytes.Clone(bytes.TrimSpace(lines.Bytes()))
		if len(line) == 0 {
			continue
		}

		var m rpcMessage
		switch err := json.Unmarshal(line, &m); {
		case err != nil && !json.Valid(line):
			b.fail(json.RawMessage("null"), codeUnreadable, "this line is no message of JSON-RPC")
		case m.Method == "notifications/cancelled":
			b.cancel(m.Params.RequestID)
		case err == nil && m.Method == "": // an answer, and nothing was asked
		default: // the server says what is wrong with it
			call, done := b.begin(ctx, m.ID)
			under.Go(func() {
				defer done()
				b.pass(call, &m, line)
			})
		}
	}

	under.Wait()
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("a message has more than %d bytes", maxMessage)
	case err != nil:
		return fmt.Errorf("read stdin: %w", err)
	}
	return nil
}

// begin notes that a message is under way. done is called when it is answered.
func (b *bridge) begin(ctx context.Context, id json.RawMessage) (call context.Context, done func()) {
	call, cancel := context.WithTimeout(ctx, requestTimeout)
	if len(id) == 0 {
		return call, cancel
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls[string(id)] = cancel
	return call, func() {
		b.mu.Lock()
		delete(b.calls, string(id))
		b.mu.Unlock()
		cancel()
	}
}

// cancel ends a request of the assistant: the server ends the call when its connection closes.
func (b *bridge) cancel(id json.RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cancel := b.calls[string(id)]; cancel != nil {
		cancel()
	}
}

// pass sends a message to the server, and its answer to the assistant. There is none to a notification, or to what was
// cancelled.
func (b *bridge) pass(ctx context.Context, m *rpcMessage, line []byte) {
	answer, err := b.ask(ctx, m, line)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
	case err != nil && len(m.ID) == 0:
		fmt.Fprintf(b.stderr, "actlog: %s\n", err)
	case err != nil:
		b.fail(m.ID, codeFailed, err.Error())
	case len(answer) > 0:
		b.write(answer)
	}
}

// ask returns the answer of the server, in one line; empty: there is none.
func (b *bridge) ask(ctx context.Context, m *rpcMessage, line []byte) (answer []byte, err error) {
	const what = "ask the tools of the server"
	resp, err := b.client.send(ctx, what, http.MethodPost, "/mcp", b.header(m), line)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()

	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // empty if it cannot be read
	if kind == wire.TypeJSON {
		body, err := b.client.readAll(what, io.LimitReader(resp.Body, maxToolAnswer))
		if err != nil {
			return nil, err
		}

		var to rpcMessage
		var one bytes.Buffer
		if json.Unmarshal(body, &to) != nil || json.Compact(&one, body) != nil {
			return nil, fmt.Errorf("%s: the answer cannot be read (is there an Actlog server at %s?)", what, b.client.base)
		}

		if m.Method == "initialize" && to.Result.ProtocolVersion != "" {
			b.mu.Lock()
			b.version = to.Result.ProtocolVersion
			b.mu.Unlock()
		}
		return one.Bytes(), nil
	}

	switch {
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed:
		return nil, fmt.Errorf("%s: there is no /mcp at %s (is an Actlog server there, and no older one?)", what,
			b.client.base)
	case resp.StatusCode == http.StatusBadRequest && kind == "text/plain": // the message is wrong
		body, err := b.client.readAll(what, io.LimitReader(resp.Body, maxMessage))
		if err == nil {
			err = errors.New(words.Clean(string(body)))
		}
		return nil, err
	case resp.StatusCode/100 != 2:
		return nil, b.client.statusError(what, resp)
	case len(m.ID) > 0:
		return nil, fmt.Errorf("%s: %s did not answer", what, b.client.base)
	}
	return nil, nil
}

// header returns what the protocol repeats of a message in headers, so that proxies need not read it.
func (b *bridge) header(m *rpcMessage) http.Header {
	h := http.Header{"Content-Type": {wire.TypeJSON}, "Accept": {wire.TypeJSON + ", text/event-stream"}}
	if m.Params.Meta.Version != "" {
		h.Set("Mcp-Protocol-Version", m.Params.Meta.Version)
		h.Set("Mcp-Method", plainHeader(m.Method))
		if name := m.Params.Name + m.Params.URI; name != "" {
			h.Set("Mcp-Name", plainHeader(name))
		}
		return h
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	if b.version != "" {
		h.Set("Mcp-Protocol-Version", b.version)
	}
	return h
}

// plainHeader returns a text as the value of a header, which has printable ASCII only.
func plainHeader(s string) string {
	strange := func(r rune) bool { return r < ' ' || r > '~' }
	if strings.ContainsFunc(s, strange) || strings.TrimSpace(s) != s || strings.HasPrefix(s, "=?") {
		return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
	}
	return s
}

func (b *bridge) fail(id json.RawMessage, code int, message string) {
	type rpcError struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}

	answer, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   rpcError        `json:"error"`
	}{"2.0", id, rpcError{code, message}})
	if err == nil {
		b.write(answer)
	}
}

func (b *bridge) write(message []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _ = b.out.Write(append(message, '\n')) // an assistant that is gone has closed stdin, too
}
