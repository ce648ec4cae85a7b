package http

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

// Tools returns http.request for the methods that only read, and http.send for those that write, if any is allowed. The
// error is an *OptionError.
func Tools(o Options) ([]tool.Tool, error) {
	c, err := newSender(o)
	if err != nil {
		return nil, err
	}
	return c.tools(), nil
}

func (c *sender) tools() (tools []tool.Tool) {
	allowed := func(some []string) (both []string) {
		return slices.DeleteFunc(slices.Clone(c.rules.methods), func(m string) bool { return !slices.Contains(some, m) })
	}
	where := fmt.Sprintf(" Hosts: %s. Headers with credentials are added where the host needs them.", c.rules.names())

	if methods := allowed(reading); len(methods) > 0 {
		tools = append(tools, tool.CallFunc("http.request", fmt.Sprintf(
			"Sends an HTTP request that only reads (%s) and returns the answer.", strings.Join(methods, ", "))+where, c.request,
			tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry, Timeout: c.timeout})))
	}
	if methods := allowed(writing); len(methods) > 0 {
		tools = append(tools, tool.CallFunc("http.send", fmt.Sprintf(
			"Sends an HTTP request that changes something (%s) and returns the answer. Redirects are not followed.",
			strings.Join(methods, ", "))+where, c.send,
			tool.WithPolicy(tool.Policy{Approval: true, Writes: true, Timeout: c.timeout}),
			tool.WithTouches(c.touches), tool.WithPreview(c.preview)))
	}
	return tools
}

// request sends a request that only reads, and follows redirects.
func (c *sender) request(ctx context.Context, _ tool.Call, in requestArguments) (tool.Result, error) {
	p, err := c.rules.prepare(arguments{Method: in.Method, URL: in.URL, Headers: in.Headers}, reading, "")
	if err != nil {
		return tool.Result{}, err
	}

	for hop := 0; ; hop++ {
		a, err := c.do(ctx, p)
		if err != nil {
			return tool.Result{}, err
		}

		next, err := c.rules.redirected(p, a)
		switch {
		case err != nil:
			return tool.Failure(fmt.Sprintf("%s answered with a redirect that is not followed: %v", p.url, err)), nil
		case next == nil:
			return a.result(p, c.hide), nil
		case hop == maxRedirects:
			return tool.Failure(fmt.Sprintf("There were more than %d redirects, the last to %s.", maxRedirects, next.url)), nil
		}
		p = next
	}
}

func (c *sender) touches(_ context.Context, in arguments) ([]string, error) {
	return []string{in.Method + " " + in.URL}, nil
}

func (c *sender) preview(_ context.Context, call tool.Call, in arguments) (tool.Preview, error) {
	p, err := c.rules.prepare(in, writing, call.ID)
	if err != nil {
		return tool.Preview{}, err
	}
	return tool.NewPreview(tool.PreviewRequest, p.String()), nil
}

func (c *sender) send(ctx context.Context, call tool.Call, in arguments) (tool.Result, error) {
	p, err := c.rules.prepare(in, writing, call.ID)
	if err != nil {
		return tool.Result{}, err
	}
	if err := call.CheckApproved(tool.NewPreview(tool.PreviewRequest, p.String())); err != nil {
		return tool.Result{}, err
	}

	a, err := c.do(ctx, p)
	if lost, ok := errors.AsType[*lostError](err); ok {
		return tool.Result{}, fmt.Errorf("%s %s: %w: %w", p.method, p.url, lost, tool.ErrUnknown)
	}
	if err != nil {
		return tool.Result{}, err
	}
	return a.result(p, c.hide), nil
}
