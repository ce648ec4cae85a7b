//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/internal/record/content"
)

// The parts of the executor API that are checked.
type planView struct {
	CurrentPlanID           string
	State                   string
	Title                   string
	UserRequest             string
	Summary                 string
	StartTime, EndTime      *time.Time
	AgentExecutionSequence  []*stepView
	SubPlanExecutionRecords []*planView
	Figures, Total          figuresView
}

type stepView struct {
	StepID                  string
	State                   string
	AgentRequest            string
	Result                  string
	StartTime, EndTime      *time.Time
	ThinkActSteps           []*cycleView
	SubPlanExecutionRecords []*planView
	Figures                 figuresView
}

type cycleView struct {
	Seq                       int
	State                     string
	ThinkInput, ThinkOutput   string
	ActionResult              string
	ModelName                 string
	InputTokens, OutputTokens int64
	ActToolInfoList           []*toolView
}

type toolView struct {
	ID, Name, State    string
	Parameters, Result string
	StartTime, EndTime *time.Time
}

type figuresView struct {
	ModelCalls, ToolCalls, Failures, InputTokens, OutputTokens int64
}

func (f *figuresView) add(o figuresView) {
	f.ModelCalls += o.ModelCalls
	f.ToolCalls += o.ToolCalls
	f.Failures += o.Failures
	f.InputTokens += o.InputTokens
	f.OutputTokens += o.OutputTokens
}

// tally is the result of a check.
type tally struct {
	mu                         sync.Mutex
	plans, found               int
	texts                      atomic.Int64 // prompts that are kept in parts, and were compared byte for byte
	lost, twice, half, strange []string
}

func (t *tally) note(list *[]string, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*list = append(*list, fmt.Sprintf(format, args...))
}

// checker compares the record with the ledger.
type checker struct {
	base   string
	http   *http.Client
	ledger *ledger
	// final means that the clients have delivered everything.
	final bool
	tally *tally
}

const checkers = 4

// check reads plans back. The record may contain more than was acknowledged, but never less, and
// nothing that no client wrote.
func (c *checker) check(ctx context.Context, roots []string) error {
	queue := make(chan string)
	seen := make([]map[string][]string, checkers)
	errs := make(chan error, checkers)
	var wg sync.WaitGroup
	for n := range checkers {
		seen[n] = map[string][]string{}
		wg.Go(func() {
			for root := range queue {
				found, err := c.root(ctx, root)
				if err != nil {
					select {
					case errs <- fmt.Errorf("check plan %s: %w", root, err):
					default:
					}
					continue
				}
				seen[n][root] = found
			}
		})
	}

	for _, root := range roots {
		queue <- root
	}
	close(queue)
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}

	// Clients may have written in the meantime. By now the ledger has the intents of all items found.
	if _, err := c.ledger.catchUp(); err != nil {
		return err
	}
	for _, part := range seen {
		for root, found := range part {
			c.tally.plans++
			c.tally.found += len(found)
			for _, item := range found {
				if !c.ledger.has(root, item, intended) {
					c.tally.note(&c.tally.strange, "%s is on record, but no client wrote it", item)
				}
			}
		}
	}
	return nil
}

// reading has what was found of one root plan.
type reading struct {
	*checker
	root  string
	count map[string]int // how often each item is completely on record, by its name in the ledger
}

// root reads a root plan and returns the items it found.
func (c *checker) root(ctx context.Context, root string) ([]string, error) {
	due := acked
	if c.final {
		due |= spooled
	}
	promised := c.ledger.with(root, due) // before the plan is read

	r := &reading{checker: c, root: root, count: map[string]int{}}
	var p planView
	there, err := c.get(ctx, "details", root, &p)
	if err != nil {
		return nil, err
	}
	if there {
		if err := r.plan(ctx, root, &p); err != nil {
			return nil, err
		}
	}

	for _, item := range promised {
		if r.count[item] == 0 {
			c.tally.note(&c.tally.lost, "%s was acknowledged", item)
		}
	}

	var found []string
	for item, n := range r.count {
		if n > 1 {
			c.tally.note(&c.tally.twice, "%s is on record %d times", item, n)
		}
		found = append(found, item)
	}
	return found, nil
}

// is reports whether a field is on record. Its value must be the one that was written.
func (r *reading) is(what, id, got string) bool {
	if got != "" && got != text(what, id) {
		r.tally.note(&r.tally.strange, "%s of %s is not what was written: %.80q", what, id, got)
	}
	return got != ""
}

// ended checks the state and the times of a row that has its end.
func (r *reading) ended(id, state string, start, end *time.Time) {
	if state != "COMPLETED" {
		r.tally.note(&r.tally.strange, "%s has its end, but its state is %s", id, state)
	}
	if start == nil || end == nil || end.Before(*start) {
		r.tally.note(&r.tally.strange, "%s has its end, from %v to %v", id, start, end)
	}
}

// whole checks that the items of one request are all on record, or none of them. It checks only
// direct clients, because buffers split requests in other places.
func (r *reading) whole(what string, first bool, others, of int) {
	if modeOf(r.root) == modeDirect && (first && others != of || !first && others > 0) {
		r.tally.note(&r.tally.half, "%s: %v, %d of %d", what, first, others, of)
	}
}

func (r *reading) plan(ctx context.Context, id string, p *planView) error {
	if p.CurrentPlanID != id {
		r.tally.note(&r.tally.strange, "asked for plan %s, got %s", id, p.CurrentPlanID)
		return nil
	}

	started := r.is("title", id, p.Title)
	if started && r.is("request", id, p.UserRequest) {
		r.count[id]++
	}
	if r.is("summary", id, p.Summary) {
		r.count[endOf(id)]++
		r.ended(id, p.State, p.StartTime, p.EndTime)
	}

	planned := 0
	var sum, total figuresView
	subs := p.SubPlanExecutionRecords
	for _, s := range p.AgentExecutionSequence {
		if r.is("request", s.StepID, s.AgentRequest) {
			planned++
		}
		sum.add(s.Figures)
		subs = append(subs, s.SubPlanExecutionRecords...)
		if err := r.step(ctx, s.StepID); err != nil {
			return err
		}
	}

	r.whole("plan "+id+" and its steps", started, planned, stepCount(id))
	total.add(sum)
	for _, sub := range subs {
		total.add(sub.Total)
		if err := r.plan(ctx, sub.CurrentPlanID, sub); err != nil {
			return err
		}
	}

	if p.Figures != sum || p.Total != total {
		r.tally.note(&r.tally.strange, "figures of plan %s are %+v and %+v, but the sums are %+v and %+v", id, p.Figures,
			p.Total, sum, total)
	}
	return nil
}

func (r *reading) step(ctx context.Context, id string) error {
	var s stepView
	if there, err := r.get(ctx, "agent-execution", id, &s); err != nil || !there {
		if err == nil {
			r.tally.note(&r.tally.strange, "step %s is in its plan, but cannot be read", id)
		}
		return err
	}

	if s.StartTime != nil {
		r.count[id]++
	}
	if r.is("result", id, s.Result) {
		r.count[endOf(id)]++
		r.ended(id, s.State, s.StartTime, s.EndTime)
	}

	var sum figuresView
	for _, c := range s.ThinkActSteps {
		r.cycle(cycleID(id, c.Seq), c)
		if c.ModelName != "" {
			sum.ModelCalls++
		}
		sum.add(figuresView{
			ToolCalls: int64(len(c.ActToolInfoList)), InputTokens: c.InputTokens, OutputTokens: c.OutputTokens,
		})
	}

	if s.Figures != sum {
		r.tally.note(&r.tally.strange, "figures of step %s are %+v, but the sums of its detail are %+v", id, s.Figures, sum)
	}
	return nil
}

func (r *reading) cycle(id string, c *cycleView) {
	if r.is(input, id, c.ThinkInput) {
		r.count[id]++
		if content.DefaultSizes.Cuts(c.ThinkInput) {
			r.tally.texts.Add(1)
		}
	}

	thought := r.is("output", id, c.ThinkOutput)
	if thought && c.InputTokens == tokens("in", id) && c.OutputTokens == tokens("out", id) {
		r.count[thinkOf(id)]++
	}
	if r.is("action", id, c.ActionResult) {
		r.count[endOf(id)]++
		if c.State != "COMPLETED" {
			r.tally.note(&r.tally.strange, "%s has its end, but its state is %s", id, c.State)
		}
	}

	asked := 0
	for _, t := range c.ActToolInfoList {
		if r.is("parameters", t.ID, t.Parameters) && t.Name == "tool" {
			asked++
		}
		if t.StartTime != nil {
			r.count[t.ID]++
		}
		if r.is("result", t.ID, t.Result) {
			r.count[endOf(t.ID)]++
			r.ended(t.ID, t.State, t.StartTime, t.EndTime)
		}
	}

	r.whole("answer of "+id+" and its tool calls", thought, asked, toolCount(id))
}

// get reads from the executor API. It reports false if there is nothing with this id.
func (c *checker) get(ctx context.Context, what, id string, into any) (there bool, err error) {
	// A server that has just recovered may need a moment. If it stays down, the check fails.
	for try := 0; ; try++ {
		there, err = c.getOnce(ctx, what, id, into)
		if err == nil || try == 5 || ctx.Err() != nil {
			return there, err
		}
		pause(ctx, 500*time.Millisecond)
	}
}

func (c *checker) getOnce(ctx context.Context, what, id string, into any) (there bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/api/executor/"+what+"/"+url.PathEscape(id), nil)
	if err != nil {
		return false, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()

	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return false, err
	case resp.StatusCode == http.StatusNotFound:
		return false, nil
	case resp.StatusCode != http.StatusOK:
		return false, fmt.Errorf("%s %s: %s", what, id, resp.Status)
	}
	return true, json.Unmarshal(body, into)
}
