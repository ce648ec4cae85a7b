package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
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
	StartTime               *time.Time
	AgentExecutionSequence  []*stepView
	SubPlanExecutionRecords []*planView
	ParentActToolCall       *toolCallView
	UserInputWaitState      *struct{ Title string }
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

func newClient(f serverFlags) *client {
	return &client{base: strings.TrimRight(f.Server, "/"), key: f.APIKey, http: &http.Client{Timeout: time.Minute}}
}

var errNotOnRecord = errors.New("not on record")

func (c *client) plan(ctx context.Context, id string) (*planView, error) {
	var p planView
	return &p, c.get(ctx, "plan", "/api/v1/plans/", id, &p)
}

func (c *client) step(ctx context.Context, id string) (*stepView, error) {
	var s stepView
	return &s, c.get(ctx, "step", "/api/v1/steps/", id, &s)
}

func (c *client) list(ctx context.Context, path string, into any) error {
	return c.get(ctx, "list", path, "", into)
}

func (c *client) get(ctx context.Context, what, path, id string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path+url.PathEscape(id), nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", c.base, err)
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("no answer from %s (is \"actlog serve\" running? --server names another): %w", c.base, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return fmt.Errorf("reading %s %s: %w", what, id, err)
	case resp.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("reading %s %s: the server wants an API key, and not this one: set ACTLOG_API_KEY", what, id)
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s %s: %w", what, id, errNotOnRecord)
	case resp.StatusCode != http.StatusOK:
		var problem struct{ Detail string }
		_ = json.Unmarshal(body, &problem) // else the status has to do
		return fmt.Errorf("reading %s %s: %s %s", what, id, resp.Status, problem.Detail)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("reading %s %s: %w", what, id, err)
	}
	return nil
}
