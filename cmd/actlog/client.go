package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/internal/view/words"
)

// planView and the types below it are what the commands read of the API's plans and steps.
type planView struct {
	CurrentPlanID string
	RootPlanID    string
	Title         string
	UserRequest   string
	Name          string
	Executor      string
	State         string
	Placeholder   bool
	AlsoUnder     []string
	Omitted       *omittedView
	copied
	Link                    tree.Link
	Summary                 string
	ErrorMessage            string
	Completed               bool
	StartTime               *time.Time
	LastSignOfLife          *time.Time
	AgentExecutionSequence  []*stepView
	SubPlanExecutionRecords []*planView
	ParentActToolCall       *toolCallView
	UserInputWaitState      *struct{ Title, FormDescription, Type string }
	Figures, Total          figuresView
}

type omittedView struct {
	Plans   int64
	PlanIDs []string // those whose sub-plans are not shown
}

type stepView struct {
	PlanID       string
	StepID       string
	StepIndex    *int64
	AgentName    string
	AgentRequest string
	// AgentDescription is, of a node of a graph, its name.
	AgentDescription string
	State            string
	attempted
	copied
	Result                  string
	ErrorMessage            string
	StartTime               *time.Time
	Figures                 figuresView
	SubPlanExecutionRecords []*planView
	ThinkActSteps           []*cycleView
}

// attempted is what a step, a cycle or a tool call says of its attempts.
type attempted struct {
	Attempt  int
	Attempts []attemptView
}

// copied is what a row says of the row of another run that it is a copy of; empty: it is none.
type copied struct{ ForkedFrom string }

type attemptView struct {
	Attempt            int
	State              string
	StartTime, EndTime *time.Time
	ErrorKind          string
	ErrorMessage       string
}

type cycleView struct {
	Seq   int
	State string
	attempted
	copied
	ThinkInput      string
	ThinkOutput     string
	Message         json.RawMessage
	ErrorMessage    string
	ModelName       string
	FallbackFrom    json.RawMessage
	FinishReason    string
	InputCharCount  int64
	InputTokens     int64
	OutputTokens    int64
	ThinkStartTime  *time.Time
	ThinkEndTime    *time.Time
	ActToolInfoList []*toolCallView
}

type toolCallView struct {
	ID             string
	ProviderCallID string
	Name           string
	State          string
	attempted
	copied
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

// runView is what the commands read of a run.
type runView struct {
	PlanID, RootPlanID, Executor, Name, Title string
	State                                     string
	Result                                    json.RawMessage
	Error, ErrorKind                          string
	Waits                                     []waitView
	WaitingFor                                []string
	Takeovers                                 int64
	CreatedAt, StartTime, EndTime             *time.Time
	Total                                     figuresView
}

// took formats the duration; it is empty while that is unknown.
func (f figuresView) took() string {
	if f.DurationMs == nil {
		return ""
	}
	return words.Duration(time.Duration(*f.DurationMs) * time.Millisecond)
}

// client calls the API of a server.
type client struct {
	base string
	key  string // empty: requests carry no key
	http http.Client
}

// requestTimeout limits a request whose answer is not a stream.
const requestTimeout = time.Minute

// ProvideClient makes kong pass a client of the server to the Run method of a command.
func (f serverFlags) ProvideClient() (*client, error) {
	u, err := url.Parse(f.Server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usageError(fmt.Sprintf("--server %s: must be a URL such as %s", f.Server, defaultServer))
	}
	return &client{base: strings.TrimRight(f.Server, "/"), key: f.APIKey}, nil
}

var errNotOnRecord = errors.New("is not on record")

// lateError is a request that came too late: what it is about has ended, or is decided.
type lateError struct{ error }

func (e lateError) Unwrap() error { return e.error }

// rootFlag chooses one of several trees.
type rootFlag struct {
	Root string `help:"Id of the root plan, if several trees have a plan of this id. Default: the root plan of this id, else the newest." placeholder:"ROOT"`
}

func (f rootFlag) query() url.Values {
	q := url.Values{}
	if f.Root != "" {
		q.Set("root", f.Root)
	}
	return q
}

func (c *client) plan(ctx context.Context, id string, query url.Values) (*planView, error) {
	var p planView
	return &p, c.get(ctx, named("plan", id), withQuery(planPath(id), query), &p)
}

// failuresView is what failed in a plan, the cause first.
type failuresView struct {
	Recovered bool
	Cause     string // its address
	Items     []struct {
		causeView
		Path []placeView
	}
}

// causeView is a row that failed, or asks.
type causeView struct {
	placeView
	State                 string
	ErrorKind, Text, Tool string
	Recovered             bool // only in lists
}

// causeChars is how much of a cause is shown on a line, in characters.
const causeChars = 200

// brief says on a line why a run is in its state: the kind of the error, the tool and the line that says what happened;
// of an open question what is asked.
func (c *causeView) brief() string {
	switch {
	case c == nil:
		return ""
	case c.State == "WAITING":
		return words.Shorten(strings.TrimSpace("asks "+c.Tool+" ")+": "+c.Name, causeChars)
	}

	text := strings.TrimSpace(cmp.Or(c.ErrorKind, strings.ToLower(c.State)) + " " + c.Tool)
	if c.Recovered {
		text = "recovered: " + text
	}
	if c.Text != "" {
		text += ": " + c.Text
	}
	return words.Shorten(text, causeChars)
}

// placeView is a plan, step, cycle or tool call.
type placeView struct{ At, Kind, Name string }

// cycleAt is the address of a cycle. Addresses count from 0, people from 1.
func cycleAt(stepID string, seq int) string { return outline.At("cycle", stepID, strconv.Itoa(seq)) }

func (p *placeView) name() string {
	_, seq, _ := strings.Cut(p.At, "/")
	if n, err := strconv.Atoi(seq); err == nil && p.Kind == "thinkAct" {
		return "cycle " + strconv.Itoa(n+1)
	}
	return words.Shorten(cmp.Or(p.Name, p.At), 60)
}

func (c *client) failures(ctx context.Context, p *planView) (*failuresView, error) {
	var f failuresView
	return &f, c.get(ctx, named("failures of plan", p.CurrentPlanID),
		withQuery(planPath(p.CurrentPlanID)+"/failures", url.Values{"root": {p.RootPlanID}}), &f)
}

// readRun reads a run. It also returns the answer as it is.
func (c *client) readRun(ctx context.Context, id string) (*runView, json.RawMessage, error) {
	var raw json.RawMessage
	if err := c.get(ctx, named("run", id), runPath(id), &raw); err != nil {
		return nil, nil, err
	}
	var r runView
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", named("run", id), err)
	}
	return &r, raw, nil
}

func runPath(id string) string  { return "/api/v1/runs/" + url.PathEscape(id) }
func planPath(id string) string { return "/api/v1/plans/" + url.PathEscape(id) }
func stepPath(id string) string { return "/api/v1/steps/" + url.PathEscape(id) }

func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// get decodes the answer to a GET.
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

func (c *client) read(ctx context.Context, what, path string) ([]byte, error) {
	return c.call(ctx, what, http.MethodGet, path, nil, nil)
}

// call sends a request, and returns the answer.
func (c *client) call(ctx context.Context, what, method, path string, header http.Header, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := c.open(ctx, what, method, path, header, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return c.readAll(what, resp.Body)
}

// post sends a JSON body, and decodes the answer.
func (c *client) post(ctx context.Context, what, path string, header http.Header, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}

	all := http.Header{"Content-Type": {wire.TypeJSON}}
	maps.Copy(all, header)
	answer, err := c.call(ctx, what, http.MethodPost, path, all, raw)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s: %w (is there an Actlog server at %s?)", what, err, c.base)
	}
	return nil
}

// listPage is how many items of a list one request asks for.
const listPage = 100

// pageFlags say how much of a list is wanted.
type pageFlags struct {
	Limit  int    `help:"The most to list, at least 1." default:"50"`
	Cursor string `help:"Go on behind a list that ended at its --limit, with the same filters: what it named." placeholder:"CURSOR"`
}

func (f *pageFlags) check() error {
	if f.Limit < 1 {
		return usageError(fmt.Sprintf("--limit %d: must be at least 1", f.Limit))
	}
	return nil
}

// listed is what was read of a list.
type listed struct {
	what, path string
	query      url.Values
	items      int
	behind     bool   // others came before: it went on behind a cursor
	next       string // where it goes on; empty: this was all
	incomplete bool   // the server said that some may be missing
	left       []leftView
}

type listPageJSON struct {
	Items      []json.RawMessage
	NextCursor string
	Incomplete bool
	Left       []leftView // of a search: what it has of each run beside the items
}

// list reads the items of a list, as many as are wanted. With asJSON it prints them, and returns none.
func list[T any](
	ctx context.Context, c *client, e *env, asJSON bool, what, path string, query url.Values, wanted pageFlags,
) (items []T, read listed, err error) {
	read = listed{what: what, path: path, query: query, behind: wanted.Cursor != "", next: wanted.Cursor}
	for read.items < wanted.Limit {
		query.Set("limit", strconv.Itoa(min(wanted.Limit-read.items, listPage)))
		if read.next != "" {
			query.Set("cursor", read.next)
		}

		var page listPageJSON
		if err := c.get(ctx, what, withQuery(path, query), &page); err != nil {
			return items, read, err
		}

		for _, raw := range page.Items {
			var item T
			if asJSON {
				err = printJSON(e.stdout, raw)
			} else {
				err = json.Unmarshal(raw, &item)
				items = append(items, item)
			}
			if err != nil {
				return items, read, fmt.Errorf("%s: %w", what, err)
			}
		}

		read.items += len(page.Items)
		read.left = append(read.left, page.Left...)
		read.incomplete = read.incomplete || page.Incomplete
		if read.next = page.NextCursor; read.next == "" {
			break
		}
	}

	return items, read, nil
}

// mostCounted is how many items behind the end of a list are counted.
const mostCounted = 500

// rest says on stderr how much of a list is missing, and how to go on. uncounted: that there is more is enough. Behind
// a cursor nothing is counted: nobody knows how many came before.
func (c *client) rest(ctx context.Context, e *env, read listed, one string, uncounted bool) error {
	if read.next == "" {
		return nil
	}

	shown := words.Plural(int64(read.items), one) + ", and there are more"
	larger := "or a larger --limit"
	if !uncounted && !read.behind {
		var page listPageJSON
		read.query.Set("cursor", read.next)
		read.query.Set("limit", strconv.Itoa(mostCounted))
		err := c.get(ctx, read.what, withQuery(read.path, read.query), &page)

		n, all := words.Grouped(int64(read.items)), read.items+len(page.Items)
		switch {
		case err != nil: // the list itself was read
		case page.NextCursor != "":
			shown = n + " of more than " + words.Plural(int64(all), one)
		default:
			shown, larger = n+" of "+words.Plural(int64(all), one), fmt.Sprintf("or all: --limit %d", all)
		}
	}

	_, err := fmt.Fprintf(e.stderr, "actlog: %s. The next ones: %s, %s\n", shown,
		terminal.Line(flagArgument("--cursor", read.next)), larger)
	return err
}

// print writes the answer to a GET, as JSON.
func (c *client) print(ctx context.Context, w io.Writer, what, path string) error {
	body, err := c.read(ctx, what, path)
	if err != nil {
		return err
	}
	if err := printJSON(w, body); err != nil {
		return fmt.Errorf("%s: %w (is there an Actlog server at %s?)", what, err, c.base)
	}
	return nil
}

func (c *client) readAll(what string, answer io.Reader) ([]byte, error) {
	body, err := io.ReadAll(answer)
	if err != nil {
		return nil, &callError{error: fmt.Errorf("%s: read answer of %s: %w", what, c.base, err)}
	}
	return body, nil
}

// checkWritable checks that the server takes records, by sending it none. A busy
// server passes.
func (c *client) checkWritable(ctx context.Context) error {
	_, err := c.call(ctx, "write records", http.MethodPost, "/api/v1/records",
		http.Header{"Content-Type": {wire.TypeNDJSON}}, nil)
	if busyFor(err) > 0 {
		return nil
	}
	return err
}

// callError is a request that failed in a way that a caller may handle. If the server did not
// refuse it, the caller may try again.
type callError struct {
	error
	refused    bool          // the server does not accept what was sent
	retryAfter time.Duration // the server is busy; 0: its answer did not arrive
}

func (e *callError) Unwrap() error { return e.error }

// busyFor returns how long a busy server asks its clients to wait. It returns 0 if err
// has another cause.
func busyFor(err error) time.Duration {
	if failed, ok := errors.AsType[*callError](err); ok {
		return failed.retryAfter
	}
	return 0
}

// sleep waits for d. It reports false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// open sends a request. The caller closes the body of the response.
func (c *client) open(
	ctx context.Context, what, method, path string, header http.Header, body []byte,
) (*http.Response, error) {
	resp, err := c.send(ctx, what, method, path, header, body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.statusError(what, resp)
}

// send is open for a caller that looks at the status itself.
func (c *client) send(
	ctx context.Context, what, method, path string, header http.Header, body []byte,
) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}

	maps.Copy(req.Header, header)
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}

	resp, err := c.http.Do(req)
	if errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok { // its text repeats the address
			err = failed.Err
		}
		return nil, &callError{
			error: fmt.Errorf("no answer from %s: %w (is a server running there? \"actlog serve\" starts one, --server "+
				"names another)", c.base, err),
		}
	}
	return resp, nil
}

// statusError turns an answer with an error status into an error that says what helps.
func (c *client) statusError(what string, resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // a part of it is better than nothing
	var problem struct{ Detail string }
	if json.Unmarshal(body, &problem) != nil {
		problem.Detail = otlp.Refusal(body)
	}

	isActlog := problem.Detail != ""
	err := fmt.Errorf("%s: %s", what, cmp.Or(words.Clean(problem.Detail), resp.Status))
	switch status := resp.StatusCode; {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 if there is none
		return &callError{error: err, retryAfter: time.Duration(max(seconds, 1)) * time.Second}
	case !isActlog:
		return fmt.Errorf("%w (is there an Actlog server at %s?)", err, c.base)
	case status == http.StatusConflict:
		return lateError{err}
	case status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge:
		return &callError{error: err, refused: true}
	case status == http.StatusUnauthorized && c.key != "":
		return fmt.Errorf("%s: the server does not know this API key: pass another in ACTLOG_API_KEY or --api-key", what)
	case status == http.StatusUnauthorized:
		return fmt.Errorf("%s: the server requires an API key: pass one in ACTLOG_API_KEY or --api-key", what)
	case status == http.StatusForbidden && c.key != "":
		return fmt.Errorf("%w: pass another key in ACTLOG_API_KEY or --api-key", err)
	case status == http.StatusNotFound:
		return fmt.Errorf("%s %w at %s", what, errNotOnRecord, c.base)
	}
	return err
}

// defaultServer is the address of a server with default flags.
const defaultServer = "http://127.0.0.1:8420"

// serverFlags name the server that a command talks to.
type serverFlags struct {
	Server string `help:"Server to talk to. Default: ${server}." default:"${server}" placeholder:"URL"`
	APIKey string `help:"API key, if the server requires one. Better pass it in ACTLOG_API_KEY: other users can see command lines." name:"api-key" placeholder:"KEY"`
}
