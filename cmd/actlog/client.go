package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/otlp"
	"github.com/actlog/actlog/internal/wire"
)

// What commands read of the API's plans and steps.
type planView struct {
	CurrentPlanID           string
	RootPlanID              string
	Title                   string
	UserRequest             string
	Name                    string
	State                   string
	Link                    string
	Summary                 string
	ErrorMessage            string
	Completed               bool
	StartTime               *time.Time
	LastSeenAt              *time.Time
	AgentExecutionSequence  []*stepView
	SubPlanExecutionRecords []*planView
	ParentActToolCall       *toolCallView
	UserInputWaitState      *struct{ Title, FormDescription, Type string }
	Figures, Total          figuresView
}

type stepView struct {
	StepID                  string
	AgentName               string
	AgentRequest            string
	State                   string
	Attempt                 int
	Result                  string
	ErrorMessage            string
	LatestMethodName        string
	LatestRoundNumber       int
	StartTime               *time.Time
	Figures                 figuresView
	SubPlanExecutionRecords []*planView
	ThinkActSteps           []*cycleView
}

type cycleView struct {
	Seq             int
	State           string
	ThinkInput      string
	ThinkOutput     string
	ErrorMessage    string
	ModelName       string
	FinishReason    string
	InputCharCount  int64
	InputTokens     int64
	OutputTokens    int64
	ThinkStartTime  *time.Time
	ThinkEndTime    *time.Time
	ActToolInfoList []*toolCallView
}

type toolCallView struct {
	ID           string
	Name         string
	State        string
	Parameters   string
	Result       string
	ErrorMessage string
	StartTime    *time.Time
	EndTime      *time.Time
}

type figuresView struct {
	ModelCalls, ToolCalls, Failures int64
	InputTokens, OutputTokens       int64
	CostUSD                         *float64 `json:"costUsd"`
	DurationMs                      *int64
}

// client asks a server.
type client struct {
	base string
	key  string // empty: none is sent
	http *http.Client
}

// requestTimeout bounds a request whose answer is not a stream.
const requestTimeout = time.Minute

func newClient(f serverFlags) (*client, error) {
	u, err := url.Parse(f.Server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usageError(fmt.Sprintf("--server %s: must be a URL such as %s", f.Server, defaultServer))
	}
	return &client{base: strings.TrimRight(f.Server, "/"), key: f.APIKey, http: &http.Client{}}, nil
}

var errNotOnRecord = errors.New("is not on record")

func (c *client) plan(ctx context.Context, id string) (*planView, error) {
	var p planView
	return &p, c.get(ctx, "plan "+id, planPath(id), &p)
}

func (c *client) step(ctx context.Context, id string) (*stepView, error) {
	var s stepView
	return &s, c.get(ctx, "step "+id, stepPath(id), &s)
}

func planPath(id string) string { return "/api/v1/plans/" + url.PathEscape(id) }
func stepPath(id string) string { return "/api/v1/steps/" + url.PathEscape(id) }

// copy writes what stands at a path as it is.
func (c *client) copy(ctx context.Context, w io.Writer, what, path string) error {
	body, err := c.read(ctx, what, path)
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}

// get reads what stands at a path into a value.
func (c *client) get(ctx context.Context, what, path string, into any) error {
	body, err := c.read(ctx, what, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s: %w (is there an Actlog server at %s?)", what, err, c.base)
	}
	return nil
}

// read gives what stands at a path.
func (c *client) read(ctx context.Context, what, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := c.open(ctx, what, http.MethodGet, path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: reading the answer of %s: %w", what, c.base, err)
	}
	return body, nil
}

// mayWrite makes sure that there is a server that takes records, by sending none.
// One that is busy is one.
func (c *client) mayWrite(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := c.open(ctx, "writing records", http.MethodPost, "/api/v1/records")
	switch {
	case errors.As(err, new(*busyError)):
		return nil
	case err != nil:
		return err
	}
	return resp.Body.Close()
}

// busyError says that the server asks for patience.
type busyError struct {
	error
	after time.Duration
}

func (e *busyError) Unwrap() error { return e.error }

// refusedError says that it is what was sent that the server does not take.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// awayError says that no server answered.
type awayError struct{ error }

func (e *awayError) Unwrap() error { return e.error }

// open asks for what stands at a path. The caller closes the body.
func (c *client) open(ctx context.Context, what, method, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	req.Header.Set("Content-Type", wire.TypeNDJSON) // of the empty body of a POST
	return c.do(what, req)
}

// do makes a request. The caller closes the body.
func (c *client) do(what string, req *http.Request) (*http.Response, error) {
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var sent *url.Error
		if errors.As(err, &sent) { // it repeats the address
			err = sent.Err
		}
		return nil, &awayError{fmt.Errorf("no answer from %s: %w (is a server running there? \"actlog serve\" starts one, --server names another)", c.base, err)}
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNoContent {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.refused(what, resp)
}

// refused says why the server answered otherwise than hoped for, and what helps.
func (c *client) refused(what string, resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what came has to do
	var problem struct{ Detail string }
	if json.Unmarshal(body, &problem) != nil {
		problem.Detail = otlp.Refusal(body)
	}
	said, ours := clean(problem.Detail), problem.Detail != ""
	if !ours {
		said = resp.Status
	}
	err := fmt.Errorf("%s: %s", what, said)
	switch status := resp.StatusCode; {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // else soon
		return &busyError{err, time.Duration(max(seconds, 1)) * time.Second}
	case !ours:
		return fmt.Errorf("%w (is there an Actlog server at %s?)", err, c.base)
	case status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge:
		return &refusedError{err}
	case status == http.StatusUnauthorized && c.key != "":
		return fmt.Errorf("%s: the server does not know this API key: give another as ACTLOG_API_KEY or --api-key", what)
	case status == http.StatusUnauthorized:
		return fmt.Errorf("%s: the server wants an API key: give it as ACTLOG_API_KEY or --api-key", what)
	case status == http.StatusForbidden && c.key != "":
		return fmt.Errorf("%w: give another as ACTLOG_API_KEY or --api-key", err)
	case status == http.StatusNotFound:
		return fmt.Errorf("%s %w at %s", what, errNotOnRecord, c.base)
	}
	return err
}
