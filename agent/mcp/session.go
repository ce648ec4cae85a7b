package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actlog/actlog/agent/tool"
)

// The members of a call's _meta that say which call it is.
const (
	callIDKey = "actlog/toolCallId"
	planIDKey = "actlog/planId"
	// tokenKey is what the protocol calls what notifications of progress are known by.
	tokenKey = "progressToken"
)

func metaOf(call tool.Call, token string) sdk.Meta {
	m := sdk.Meta{callIDKey: call.ID, tokenKey: token}
	if call.PlanID != "" {
		m[planIDKey] = call.PlanID
	}
	return m
}

// session is one connection to a server, from the handshake until either side ends it.
type session struct {
	log     *slog.Logger
	http    bool // else over stdin and stdout
	client  *sdk.ClientSession
	ctx     context.Context // ends the calls when this side closes the session
	cancel  context.CancelFunc
	cleanUp func()        // ends the server, or the connections to it
	gone    chan struct{} // closed when the connection has ended
	cleaned chan struct{} // closed when nothing of it is left

	mu    sync.Mutex
	calls map[*running]bool
	begun int // how many calls were made
}

// running is a call that is being made.
type running struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	token  string // of its progress
	ask    func(context.Context, tool.Question) (tool.Answer, error)
	asked  int
}

// boundedHere turns off the SDK's own bound of a message: those that [exact] has made longer would go over it.
const boundedHere = -1

// connect starts the server, or reaches it, and shakes hands.
func connect(ctx context.Context, s Server, log *slog.Logger) (*session, error) {
	c := &session{
		log: log, http: s.URL != "", gone: make(chan struct{}), cleaned: make(chan struct{}), calls: map[*running]bool{},
	}

	var transport sdk.Transport
	explain := func(err error) error { return err }
	if c.http {
		client, closeIdle := httpClient(s)
		transport = &sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: boundedHere}
		c.cleanUp = closeIdle
	} else {
		p, err := start(s, log)
		if err != nil {
			return nil, err
		}
		transport = &sdk.IOTransport{Reader: p.stdout, Writer: p.stdin, MaxLineLength: boundedHere}
		c.cleanUp, explain = p.stop, p.explain
	}

	client := sdk.NewClient(&sdk.Implementation{Name: "actlog", Version: "1"}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{
			Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{},
		}},
		ElicitationHandler:          c.elicit,
		ProgressNotificationHandler: c.progress,
		// Questions are answered by the caller of the tool, who may stop here and go on later.
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})
	client.AddReceivingMiddleware(boundedQuestions)
	var err error
	if c.client, err = client.Connect(ctx, transport, nil); err != nil {
		c.cleanUp()
		return nil, explain(plain(err))
	}

	c.ctx, c.cancel = context.WithCancel(context.Background())
	go func() {
		err := c.client.Wait() // then the SDK has ended all calls
		close(c.gone)
		c.disconnect()
		c.cleanUp()
		close(c.cleaned)
		log.Debug("disconnected from MCP server", "err", plain(err))
	}()
	return c, nil
}

// close ends the connection and waits until nothing of it is left.
func (c *session) close() {
	c.end()
	<-c.cleaned
}

// end ends the calls that are being made, and the connection.
func (c *session) end() {
	c.cancel()
	c.disconnect()
}

func (c *session) disconnect() {
	defer time.AfterFunc(grace, c.cleanUp).Stop()
	if err := c.client.Close(); err != nil {
		c.log.Debug("close the connection to an MCP server", "err", plain(err))
	}
}

// closeIfStuck ends the session if the server still holds up this side some time after ctx has ended: the
// SDK waits without an end for a server that does not read. The caller calls done when it got through.
func (c *session) closeIfStuck(ctx context.Context) (done func()) {
	through := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-through:
		case <-time.After(grace):
			c.log.Warn("MCP server does not read; its connection is ended")
			c.end()
		}
	})

	return func() {
		stop()
		close(through)
	}
}

func (c *session) alive() bool {
	select {
	case <-c.gone:
		return false
	default:
		return c.ctx.Err() == nil
	}
}

const maxTools = 1000

func (c *session) tools(ctx context.Context) ([]*sdk.Tool, error) {
	if init := c.client.InitializeResult(); init == nil || init.Capabilities == nil || init.Capabilities.Tools == nil {
		return nil, nil
	}
	defer c.closeIfStuck(ctx)()

	var all []*sdk.Tool
	for t, err := range c.client.Tools(ctx, nil) {
		if err != nil {
			return nil, plain(err)
		}
		if len(all) == maxTools {
			return nil, fmt.Errorf("it has more than %d tools", maxTools)
		}
		all = append(all, t)
	}
	return all, nil
}

// maxRounds bounds how often a server may ask during one call.
const maxRounds = 10

// errRefused says that a call did not begin.
var errRefused = errors.New("the server did not take the call")

// call calls a tool by the name that the server has for it.
func (c *session) call(ctx context.Context, name string, call tool.Call) (tool.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(fmt.Errorf("the connection was closed: %w", tool.ErrUnknown)) })()
	defer c.closeIfStuck(ctx)()

	r := &running{ctx: ctx, cancel: cancel, ask: call.Ask}
	c.mu.Lock()
	c.begun++
	r.token = strconv.Itoa(c.begun)
	c.calls[r] = true
	c.mu.Unlock()

	defer func() {
		c.mu.Lock()
		delete(c.calls, r)
		c.mu.Unlock()
	}()

	params := sdk.CallToolParams{Meta: metaOf(call, r.token), Name: name, Arguments: call.Arguments}
	asked := roundOf(call.State)
	for asked == nil || asked.Number <= maxRounds {
		next := params // the SDK adds to it
		if asked != nil {
			var err error
			next.RequestState = asked.State
			if next.InputResponses, err = asked.answers(ctx, call.Ask); err != nil {
				return tool.Result{}, err
			}
		}

		sent := new(atomic.Bool)
		result, err := c.client.CallTool(context.WithValue(ctx, sentKey{}, sent), &next)
		switch {
		case err != nil:
			return c.outcome(ctx, err, sent.Load())
		case !result.NeedsInput():
			return resultOf(result), nil
		case len(result.InputRequests) == 0:
			return tool.Failure("The server is busy. Try again later."), nil
		}

		if asked, err = asked.next(result); err != nil {
			return tool.Result{}, err
		}
	}
	return tool.Failure(fmt.Sprintf("The server asked more than %d times.", maxRounds)), nil
}

// outcome returns how a call ended that has no result. Whether it was sent is known over HTTP alone:
// when the SDK gives up a connection, all its calls end with the one error.
func (c *session) outcome(ctx context.Context, err error, sent bool) (tool.Result, error) {
	const rejected = -32005 // the SDK's own, of a request that HTTP did not carry
	switch refused, ok := errors.AsType[*jsonrpc.Error](err); {
	case ctx.Err() != nil && (sent || !c.http || c.ctx.Err() == nil):
		return tool.Result{}, context.Cause(ctx)
	// The SDK says ErrConnectionClosed before it sends a call.
	case c.http && !sent, errors.Is(err, sdk.ErrConnectionClosed):
		return tool.Result{}, fmt.Errorf("%w: %w", errRefused, plain(err))
	case ok && refused.Code != rejected:
		return tool.Failure(refused.Message), nil
	}

	return tool.Result{}, fmt.Errorf("%w: %w", tool.ErrUnknown, plain(err))
}

// plain returns an error without the URL of the server, which may hold a secret.
func plain(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}

// boundedQuestions refuses questions with a schema that the SDK could not use to check the answer without an end.
func boundedQuestions(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if params, ok := req.GetParams().(*sdk.ElicitParams); ok && params != nil {
			q, err := question(params)
			if err == nil && q.Schema != nil {
				_, err = tool.Checker(q.Schema)
			}
			if err != nil {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the question cannot be asked: " + err.Error()}
			}
		}
		return next(ctx, method, req)
	}
}

// checkAnswer returns an error if an answer does not fit the schema of its question, before the SDK checks it, which
// has no bounds.
func checkAnswer(q tool.Question, a tool.Answer) error {
	if a.Decision != tool.Accept || a.Values == nil || q.Schema == nil {
		return nil
	}

	check, err := tool.Checker(q.Schema)
	if err != nil {
		return err
	}
	values, err := json.Marshal(a.Values)
	if err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	return check(string(values))
}

// progress passes on how far a call has come. What names no call that is being made says nothing.
func (c *session) progress(_ context.Context, n *sdk.ProgressNotificationClientRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.calls {
		if n.Params.ProgressToken == r.token {
			tool.Progress(r.ctx, n.Params.Progress, n.Params.Total, n.Params.Message)
		}
	}
}

// elicit answers a question that a server asks in protocols before 2026-07-28. Such a question does
// not say which call it belongs to, so it is answered only if there is one call.
func (c *session) elicit(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	r := c.only()
	if r == nil || r.ask == nil {
		c.log.Warn("a question of an MCP server was cancelled: no single call is under way, or its caller cannot ask anybody")
		return &sdk.ElicitResult{Action: string(tool.Cancel)}, nil
	}

	q, err := question(req.Params)
	if err != nil {
		return nil, err
	}

	c.mu.Lock()
	r.asked++
	q.Key, q.Held = fmt.Sprintf("%d.1", r.asked), true
	c.mu.Unlock()

	answer, err := r.ask(r.ctx, q)
	if err != nil {
		r.cancel(err)
		return &sdk.ElicitResult{Action: string(tool.Cancel)}, nil
	}
	if err := checkAnswer(q, answer); err != nil {
		return nil, &jsonrpc.Error{
			Code: jsonrpc.CodeInvalidParams, Message: "the answer does not fit the question: " + err.Error(),
		}
	}
	return elicited(answer), nil
}

// only returns the call that is being made, if it is one.
func (c *session) only() *running {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) != 1 {
		return nil
	}
	for r := range c.calls {
		return r
	}
	return nil
}
