package main

import (
	"cmp"
	"context"
	random "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/runtime/executor"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

type runCmd struct {
	Words        []string `arg:"" name:"words" help:"The name of an agent and what it is to do; after --plan, --orchestrate, --dag, --workflow or --executor, what is to be done. - reads that from stdin."`
	Plan         bool     `help:"Let a model plan the task, and carry its operations out in order." xor:"executor"`
	Orchestrate  bool     `help:"Let an orchestrator plan the task and hand it to agents." xor:"executor"`
	Dag          bool     `help:"Let a model plan the task as a graph." xor:"executor"`
	Workflow     string   `help:"Run this workflow. What follows is its input: JSON, or a text." placeholder:"NAME" xor:"executor"`
	Executor     string   `help:"Let this executor of the server do it." placeholder:"KIND" xor:"executor" env:"-"`
	Tag          []string `help:"A tag of the run, as often as you like." placeholder:"TAG"`
	Project      string   `help:"Project of the run." placeholder:"NAME"`
	User         string   `help:"User for whom it runs." placeholder:"ID"`
	Conversation string   `help:"Conversation that it belongs to." placeholder:"ID"`
	Priority     *int     `help:"From 0 to 9, 5 if nothing is said. What has a higher one begins first." placeholder:"N"`
	Key          string   `name:"concurrency-key" help:"Only one run of the project with this key goes on at once." placeholder:"KEY"`
	Limit        []string `help:"A limit of the run, as often as you like: rounds, toolCalls, tokens, costUsd, seconds." placeholder:"NAME=NUMBER" env:"ACTLOG_LIMITS"`
	StartAt      string   `help:"When it may begin, such as 2026-11-20T03:00:00Z." placeholder:"TIME"`
	ExpiresAt    string   `help:"When it ends if no worker has begun it." placeholder:"TIME"`
	Detach       bool     `help:"Start the run, print the id of its plan, and do not follow it."`
	JSON         bool     `help:"Print the whole run as JSON instead of its result."`
	serverFlags
}

func (*runCmd) Help() string {
	return `actlog run AGENT REQUEST runs an agent, actlog run --plan TASK another executor. The result goes to stdout; what happens meanwhile, and questions, go to stderr. If stdin is no terminal, forms
and approvals wait for actlog answer. Ctrl-C leaves the run going. Exit code 0: the run is COMPLETED; 1: it
failed or was stopped. If the server has API keys, the key needs the scopes run and read, and decide to answer.`
}

func (c *runCmd) Run(ctx context.Context, e *env, client *client) error {
	body, err := c.body(ctx, e)
	if err != nil {
		return err
	}
	started, err := client.start(ctx, body)
	if err != nil {
		return err
	}

	if c.Detach {
		if c.JSON {
			return client.print(ctx, e.stdout, named("run", started.PlanID), runPath(started.PlanID))
		}
		_, err := fmt.Fprintln(e.stdout, words.Clean(started.PlanID))
		return err
	}

	f := newFollowing(client, started.PlanID, e.stderr)
	if p := newPrompt(e); p != nil && !c.fromStdin() {
		p.view.w = f.story
		p.question = f.story.question
		f.ask = p.ask
	}

	r, raw, err := f.follow(ctx)
	if err != nil {
		line := func(name string) string { return terminal.Line(client.commandLine(name, []string{f.plan})) }
		fmt.Fprintf(e.stderr, "The run goes on. Follow it: %s. Stop it: %s.\n", line("tail"), line("stop"))
		return err
	}

	if c.JSON {
		err = printJSON(e.stdout, raw)
	} else if result, failed := client.result(ctx, r, widthOf(e.stdout)); failed != nil {
		err = failed
	} else if result != "" {
		_, err = fmt.Fprintln(e.stdout, strings.TrimRight(terminal.Plain(result), "\n"))
	}
	if err != nil || r.State == string(record.Completed) {
		return err
	}

	why := words.Clean(r.Error)
	if r.ErrorKind != "" {
		why = strings.TrimSpace(why + " (" + words.Clean(r.ErrorKind) + ")")
	}
	return errors.New(strings.TrimSuffix("run "+words.Clean(f.plan)+" is "+words.Clean(r.State)+": "+why, ": "))
}

type startBody struct {
	what           string                 // is started, for messages
	Executor       string                 `json:"executor"`
	Input          map[string]any         `json:"input"`
	ConversationID string                 `json:"conversationId,omitempty"`
	Project        string                 `json:"project,omitempty"`
	UserID         string                 `json:"userId,omitempty"`
	Tags           []string               `json:"tags,omitempty"`
	Priority       *int                   `json:"priority,omitempty"`
	ConcurrencyKey string                 `json:"concurrencyKey,omitempty"`
	Limits         map[string]json.Number `json:"limits,omitempty"`
	StartAt        string                 `json:"startAt,omitempty"`
	ExpiresAt      string                 `json:"expiresAt,omitempty"`
}

// maxRequest bounds a request that is read from stdin, in bytes, like the server does.
const maxRequest = record.MaxTextBytes

// fromStdin reports whether what is to be done is read from stdin.
func (c *runCmd) fromStdin() bool { return c.Words[len(c.Words)-1] == "-" }

func (c *runCmd) executor() string {
	switch {
	case c.Plan:
		return "plan"
	case c.Orchestrate:
		return "orchestrator"
	case c.Dag:
		return "dag"
	case c.Workflow != "":
		return "workflow"
	}
	return cmp.Or(c.Executor, "agent")
}

// ask completes a request with what carries the run, and its input.
func (c *runCmd) ask(b *startBody, request string) {
	b.Executor = c.executor()
	text := cmp.Or(executor.About(b.Executor).Text, "request") // the server may have others
	b.Input = map[string]any{text: request}

	switch b.what = b.Executor; {
	case c.Workflow != "":
		b.what, b.Input["workflow"] = c.Workflow, c.Workflow
		if json.Valid([]byte(request)) {
			b.Input[text] = json.RawMessage(request)
		}
	case c.namesAgent():
		b.what, b.Input["agent"] = c.Words[0], c.Words[0]
	}
}

// namesAgent reports whether the first word is the name of an agent.
func (c *runCmd) namesAgent() bool { return c.Workflow == "" && c.executor() == "agent" }

func (c *runCmd) body(ctx context.Context, e *env) (b startBody, err error) {
	rest := c.Words
	if c.namesAgent() {
		if rest = rest[1:]; len(rest) == 0 {
			return b, usageError(fmt.Sprintf("what is %s to do? run AGENT REQUEST, or run --plan TASK", words.Clean(c.Words[0])))
		}
	}

	request := strings.Join(rest, " ")
	if request == "-" {
		input := interruptible(ctx, e.stdin)
		defer input.Close()
		read, err := io.ReadAll(io.LimitReader(input, maxRequest+1))
		switch {
		case err != nil:
			return b, err
		case len(read) > maxRequest:
			return b, fmt.Errorf("the request on stdin has over %d bytes", maxRequest)
		}
		request = string(read)
	}

	b = startBody{
		ConversationID: c.Conversation, Project: c.Project, UserID: c.User, Tags: c.Tag, Priority: c.Priority,
		ConcurrencyKey: c.Key, StartAt: c.StartAt, ExpiresAt: c.ExpiresAt,
	}
	c.ask(&b, request)
	b.Limits, err = limitsOf(c.Limit)
	return b, err
}

// limitsOf reads limits that are given as NAME=NUMBER; nil: none are.
func limitsOf(given []string) (limits map[string]json.Number, err error) {
	for _, limit := range given {
		name, number, _ := strings.Cut(limit, "=")
		if !json.Valid([]byte(number)) || strings.Trim(number, "0123456789.eE+-") != "" {
			return nil, usageError(fmt.Sprintf("--limit %s: must be NAME=NUMBER, such as tokens=200000", words.Clean(limit)))
		}

		if limits == nil {
			limits = map[string]json.Number{}
		}
		limits[name] = json.Number(number)
	}
	return limits, nil
}

// start starts a run. If the answer is lost, it sends the same request again, which starts nothing twice.
func (c *client) start(ctx context.Context, b startBody) (started runView, err error) {
	header := http.Header{"Idempotency-Key": {random.Text()}}
	var sent time.Time // when the server may have got the request first; zero: it has not
	for attempt := 0; ; attempt++ {
		asked := time.Now()
		err = c.post(ctx, named("start", b.what), "/api/v1/runs", header, b, &started)
		failed, ok := errors.AsType[*callError](err)
		switch {
		case err == nil:
			return started, nil
		case ctx.Err() != nil:
			return started, fmt.Errorf("%w; the run may have begun: actlog runs lists it", context.Cause(ctx))
		case !ok || failed.refused:
			return started, err
		}

		unreachable, dial := errors.AsType[*net.OpError](err)
		if sent.IsZero() && failed.retryAfter == 0 && dial && unreachable.Op == "dial" {
			return started, err // nothing was sent
		}

		if sent.IsZero() {
			sent = asked
		}
		if time.Since(sent) > tailPatience {
			return started, fmt.Errorf("%w; the run may have begun: actlog runs lists it", err)
		}

		wait := cmp.Or(failed.retryAfter, min(5*time.Second, 250*time.Millisecond<<min(attempt, 5)))
		if !sleep(ctx, wait/2+rand.N(wait)) {
			return started, context.Cause(ctx)
		}
	}
}

// following is a run that is printed as a story, and whose questions are answered meanwhile.
type following struct {
	client *client
	plan   string
	story  *story
	// ask decides about a wait; nil: nobody can be asked. open reports whether it still waits.
	ask   func(ctx context.Context, w *waitView, open func() bool) (decide, error)
	asked map[string]bool // the waits that were
	waits chan struct{}   // holds a token when the run waits, or is paused
}

func newFollowing(client *client, planID string, w io.Writer) *following {
	story := newStory(client, planID, newView(w))
	return &following{client: client, plan: planID, story: story, asked: map[string]bool{}, waits: make(chan struct{}, 1)}
}

// follow prints a run until it has ended, and returns it.
func (f *following) follow(ctx context.Context) (*runView, json.RawMessage, error) {
	f.story.say("%s", f.plan)
	aside, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.attend(aside)
	}()

	t := &tail{client: f.client, plan: f.plan, deltas: true}
	t.show = func(event string, data json.RawMessage) error {
		waits, err := f.story.event(event, data)
		if waits {
			select {
			case f.waits <- struct{}{}:
			default:
			}
		}
		return err
	}

	err := t.follow(ctx)
	stop()
	<-ended
	f.story.finish()
	if err != nil {
		return nil, nil, err
	}
	return f.client.readRun(ctx, f.plan)
}

// startPatience is how long a run may wait for a worker before that is printed.
const startPatience = 2 * time.Second

// attend answers what the run waits for, or says how to, and says why a run does not begin.
func (f *following) attend(ctx context.Context) {
	begins := time.After(startPatience)
	var retry <-chan time.Time
	for {
		idle := false
		select {
		case <-ctx.Done():
			return
		case <-begins:
			idle = true
		case <-f.waits:
		case <-retry:
		}

		r, _, err := f.client.readRun(ctx, f.plan)
		if retry = nil; err != nil {
			retry = time.After(time.Second) // the stream says what is wrong
			continue
		}

		switch {
		case !idle || r.State != "PENDING" || len(r.WaitingFor) == 0:
		case strings.HasPrefix(r.WaitingFor[0], "time:"):
			f.story.say("It begins at %s.", strings.TrimPrefix(r.WaitingFor[0], "time:"))
		default:
			f.story.say("No worker takes it. It needs: %s. actlog serve --config and actlog work start workers.",
				joined(r.WaitingFor))
		}

		if r.State == "PAUSED" {
			f.story.pause(r)
		}

		for i := range r.Waits {
			if w := &r.Waits[i]; !f.asked[w.WaitID] {
				f.asked[w.WaitID] = true
				f.attendTo(ctx, w)
			}
		}
	}
}

// attendTo asks what is to be decided about a wait, until the server takes the answer or has another.
func (f *following) attendTo(ctx context.Context, w *waitView) {
	how := "Answer it: " + f.client.commandLine("answer", []string{f.plan, w.WaitID})
	if f.ask == nil {
		f.story.say("%s %s", cmp.Or(words.Shorten(w.Title, 200), "The run waits."), how)
		return
	}

	f.story.asking(w.WaitID)
	defer f.story.asking("")
	d, err := f.ask(ctx, w, func() bool { return f.story.waiting(w.WaitID) })
	if err == nil {
		err = f.send(ctx, w, d)
	}

	_, late := errors.AsType[lateError](err)
	switch {
	case err == nil || ctx.Err() != nil:
	case late || errors.Is(err, errDecided):
		f.story.say("%s", words.Clean(err.Error()))
	case errors.Is(err, errNoAnswer):
		f.ask = nil
		f.story.say("%s", how)
	default:
		f.story.say("%s", words.Clean(err.Error())+". "+how)
	}
}

// send sends an answer, again if the server is away for a while.
func (f *following) send(ctx context.Context, w *waitView, d decide) error {
	end := time.Now().Add(tailPatience)
	for again := false; ; again = true {
		_, err := f.client.answer(ctx, f.plan, w.WaitID, d)
		if _, late := errors.AsType[lateError](err); late && again {
			return nil // maybe by this very answer; the story says which it was
		}

		failed, ok := errors.AsType[*callError](err)
		if !ok || failed.refused || time.Now().After(end) {
			return tooLate(err)
		}
		if !sleep(ctx, cmp.Or(failed.retryAfter, time.Second)) {
			return context.Cause(ctx)
		}
	}
}
