package runapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// traceJSON is how a run went, step by step, for people. Durations are in milliseconds.
type traceJSON struct {
	ExecutionID    string          `json:"executionId"`
	Executor       *string         `json:"executor"`
	Name           *string         `json:"name"`
	Title          *string         `json:"title"`
	Request        *string         `json:"request"`
	StartTime      *time.Time      `json:"startTime"`
	EndTime        *time.Time      `json:"endTime"`
	TotalDuration  *int64          `json:"totalDuration"`
	FinalState     record.State    `json:"finalState"`
	Result         *string         `json:"result"`
	Error          *string         `json:"error"`
	ErrorKind      *string         `json:"errorKind"`
	CompletedSteps int             `json:"completedSteps"`
	Planning       *stepTraceJSON  `json:"planning"` // of executor orchestrator: what made the plan, beside its steps
	StepTraces     []stepTraceJSON `json:"stepTraces"`
	SubTraces      []traceJSON     `json:"subTraces"`
	AllSources     []sourceJSON    `json:"allSources"`
	Logs           []string        `json:"logs"`
	Metrics        metricsJSON     `json:"metrics"`
}

// stepTraceJSON is a step. The tool, its input and its output are those of the last tool call, unless the
// step has a result of its own.
type stepTraceJSON struct {
	StepID          string          `json:"stepId"`
	StepNumber      int64           `json:"stepNumber"`
	AgentType       *string         `json:"agentType"`
	ToolName        *string         `json:"toolName"`
	Action          *string         `json:"action"`
	StartTime       *time.Time      `json:"startTime"`
	EndTime         *time.Time      `json:"endTime"`
	State           record.State    `json:"state"`
	InputParameters json.RawMessage `json:"inputParameters"`
	Output          *string         `json:"output"`
	ErrorMessage    *string         `json:"errorMessage"`
	Reasoning       *string         `json:"reasoning"`
	ToolCalls       []toolTraceJSON `json:"toolCalls"`
	Sources         []sourceJSON    `json:"sources"`
	Logs            []string        `json:"logs"`
	SubTraces       []traceJSON     `json:"subTraces"`
}

type toolTraceJSON struct {
	ToolCallID   string          `json:"toolCallId"`
	Name         *string         `json:"name"`
	State        record.State    `json:"state"`
	Attempt      int64           `json:"attempt"`
	StartTime    *time.Time      `json:"startTime"`
	EndTime      *time.Time      `json:"endTime"`
	Duration     *int64          `json:"duration"`
	Parameters   json.RawMessage `json:"parameters"`
	Result       *string         `json:"result"`
	ErrorMessage *string         `json:"errorMessage"`
}

type sourceJSON struct {
	URI            *string            `json:"uri"`
	DisplayName    *string            `json:"displayName"`
	Type           *record.SourceType `json:"type"`
	LineStart      *int64             `json:"lineStart"`
	LineEnd        *int64             `json:"lineEnd"`
	Snippet        *string            `json:"snippet"`
	Description    *string            `json:"description"`
	RelevanceScore *float64           `json:"relevanceScore"`
}

// metricsJSON sums up a run with all below it.
type metricsJSON struct {
	TotalLLMCalls     int64    `json:"totalLLMCalls"`
	TotalTokensInput  int64    `json:"totalTokensInput"`
	TotalTokensOutput int64    `json:"totalTokensOutput"`
	EstimatedCost     *float64 `json:"estimatedCost"`
	LLMTotalTime      int64    `json:"llmTotalTime"`
	ToolCalls         int64    `json:"toolCalls"`
	ToolExecutionTime int64    `json:"toolExecutionTime"`
	// ValidationTime is how long humans took to decide.
	ValidationTime int64 `json:"validationTime"`
	Failures       int64 `json:"failures"`
	Retries        int64 `json:"retries"`
	// AverageRelevanceScore is that of the sources which have one; nil: none has.
	AverageRelevanceScore *float64 `json:"averageRelevanceScore"`
	embeddingJSON
}

// embeddingJSON sums up the searches by an embedder. Their tokens and cost are beside those of models that answer.
type embeddingJSON struct {
	Searches int64    `json:"embeddingSearches"`
	Hits     int64    `json:"embeddingHits"`
	Tokens   int64    `json:"embeddingTokens"`
	Cost     *float64 `json:"embeddingCost"` // nil: it is not known
}

func (e *embeddingJSON) add(other embeddingJSON) {
	e.Searches += other.Searches
	e.Hits += other.Hits
	e.Tokens += other.Tokens
	if other.Cost != nil {
		e.Cost = new(optional.Value(e.Cost) + *other.Cost)
	}
}

// embeddingOf returns what the metadata of a call say. Others may have written them.
func embeddingOf(metadata json.RawMessage) embeddingJSON {
	var about struct {
		Embedding *struct {
			Hits        int64    `json:"hits"`
			InputTokens int64    `json:"inputTokens"`
			CostUSD     *float64 `json:"costUsd"`
		} `json:"embedding"`
	}
	if err := json.Unmarshal(metadata, &about); err != nil || about.Embedding == nil {
		return embeddingJSON{}
	}

	e := about.Embedding
	if e.CostUSD != nil && *e.CostUSD < 0 {
		e.CostUSD = nil
	}
	return embeddingJSON{1, max(e.Hits, 0), max(e.InputTokens, 0), e.CostUSD}
}

// tracer makes traces of the rows of a tree.
type tracer struct {
	take     func(bytes int64) error
	cycles   map[string][]*record.ThinkAct // by step
	requests map[*record.ThinkAct]int      // how many messages were new in the input of a cycle
	calls    map[string][]*record.ActTool  // by step
	thoughts map[string][]*record.Thought  // by plan
	sources  map[string][]*record.Source   // by plan
	waits    map[string][]*record.Wait     // by plan
	embedded map[string]embeddingJSON      // by step
}

func newTracer(take func(bytes int64) error) *tracer {
	return &tracer{
		take: take, cycles: map[string][]*record.ThinkAct{}, requests: map[*record.ThinkAct]int{},
		calls:    map[string][]*record.ActTool{},
		thoughts: map[string][]*record.Thought{}, sources: map[string][]*record.Source{}, waits: map[string][]*record.Wait{},
		embedded: map[string]embeddingJSON{},
	}
}

// read reads the rows, without the texts that no trace shows.
func (b *tracer) read(ctx context.Context, reader *runstore.Reader, rootPlanID string) error {
	filter := &store.RowFilter{
		Kinds: []record.Kind{record.KindThinkAct, record.KindActTool, record.KindThought, record.KindSource, record.KindWait},
	}
	for len(filter.Kinds) > 0 {
		rows, err := reader.Rows(ctx, rootPlanID, filter)
		if err != nil {
			return err
		}
		for _, row := range rows {
			size := 0
			switch r := row.Record.(type) {
			case *record.ThinkAct:
				var messages []json.RawMessage // stays empty if it is no list of messages
				if r.ThinkInput != nil && json.Unmarshal([]byte(*r.ThinkInput), &messages) == nil {
					b.requests[r] = len(messages)
				}
				r.ThinkInput, r.Message = nil, nil
				size = len(optional.Value(r.ThinkOutput)) + len(optional.Value(r.ErrorMessage))
				b.cycles[r.StepID] = append(b.cycles[r.StepID], r)
			case *record.ActTool:
				size = len(optional.Value(r.Parameters)) + len(optional.Value(r.Result)) + len(optional.Value(r.ErrorMessage))
				sum := b.embedded[r.StepID]
				sum.add(embeddingOf(r.Metadata))
				b.embedded[r.StepID], r.Metadata = sum, nil
				b.calls[r.StepID] = append(b.calls[r.StepID], r)
			case *record.Thought:
				size = len(optional.Value(r.Content))
				b.thoughts[r.PlanID] = append(b.thoughts[r.PlanID], r)
			case *record.Source:
				size = len(optional.Value(r.Snippet)) + len(optional.Value(r.Description))
				b.sources[r.PlanID] = append(b.sources[r.PlanID], r)
			case *record.Wait:
				r.FormInputs, r.Subject = nil, nil
				b.waits[r.PlanID] = append(b.waits[r.PlanID], r)
			}

			if err := b.take(int64(size) + rowBytes); err != nil {
				return err
			}
		}
	}

	for _, calls := range b.calls {
		slices.SortStableFunc(calls, func(a, b *record.ActTool) int {
			return cmp.Or(cmp.Compare(a.Seq, b.Seq), tree.CompareNullsLast(a.CallIndex, b.CallIndex, cmp.Compare))
		})
	}
	return nil
}

// rowBytes is about what a row takes beside its texts.
const rowBytes = 1_000

// plan returns the trace of a plan with everything below it.
func (b *tracer) plan(p *tree.Plan) traceJSON {
	r := &p.Record
	figures := wire.FiguresOf(&p.Total)
	out := traceJSON{
		ExecutionID: r.CurrentPlanID, Executor: r.Executor, Name: r.Name, Title: r.Title, Request: r.UserRequest,
		StartTime: r.StartTime, EndTime: r.EndTime,
		TotalDuration: p.Total.DurationMs, FinalState: stateOf(r.State, record.KindPlan), Result: r.Summary,
		Error: r.ErrorMessage, ErrorKind: r.ErrorKind,
		StepTraces: []stepTraceJSON{}, SubTraces: b.plans(p.SubPlans), AllSources: []sourceJSON{},
		Metrics: metricsJSON{
			TotalLLMCalls: figures.ModelCalls, TotalTokensInput: figures.InputTokens, TotalTokensOutput: figures.OutputTokens,
			EstimatedCost: figures.CostUSD,
			LLMTotalTime:  figures.ThinkMs, ToolCalls: figures.ToolCalls, ToolExecutionTime: figures.ToolMs,
			Failures: figures.Failures,
		},
	}

	for _, source := range b.sources[r.CurrentPlanID] {
		out.AllSources = append(out.AllSources, toSource(source))
	}
	for _, step := range p.Steps {
		traced := b.step(r.CurrentPlanID, step)
		out.StepTraces = append(out.StepTraces, traced)
		if traced.State == record.Completed {
			out.CompletedSteps++
		}

		out.Metrics.Retries += b.retries(step)
		out.Metrics.add(b.embedded[step.Record.StepID])
		for i := range traced.SubTraces {
			out.add(&traced.SubTraces[i])
		}
	}

	for i := range out.SubTraces {
		out.add(&out.SubTraces[i])
	}
	for _, w := range b.waits[r.CurrentPlanID] {
		if took := tree.Duration(w.StartTime, w.EndTime); took != nil {
			out.Metrics.ValidationTime += *took
		}
	}

	out.Logs, out.Metrics.AverageRelevanceScore = b.logs(r.CurrentPlanID, "", r.ErrorMessage, r.EndTime),
		averageScore(out.AllSources)
	if p.Planning() == 0 {
		out.separate()
	}
	return out
}

// separate takes the step in which the orchestrator plans and answers out of the steps of its plan.
func (t *traceJSON) separate() {
	t.Planning, t.StepTraces = &t.StepTraces[0], t.StepTraces[1:]
	if t.Planning.StepNumber = 0; t.Planning.State == record.Completed {
		t.CompletedSteps--
	}
}

// averageScore returns the average relevance of the sources that have one; nil: none has.
func averageScore(sources []sourceJSON) *float64 {
	total, n := 0.0, 0.0
	for i := range sources {
		if score := sources[i].RelevanceScore; score != nil {
			total, n = total+*score, n+1
		}
	}

	if n == 0 {
		return nil
	}
	return new(total / n)
}

// add adds what a trace has of one below it.
func (t *traceJSON) add(below *traceJSON) {
	t.AllSources = append(t.AllSources, below.AllSources...)
	t.Metrics.Retries += below.Metrics.Retries
	t.Metrics.ValidationTime += below.Metrics.ValidationTime
	t.Metrics.add(below.Metrics.embeddingJSON)
}

func (b *tracer) plans(plans []*tree.Plan) []traceJSON {
	out := make([]traceJSON, len(plans))
	for i, p := range plans {
		out[i] = b.plan(p)
	}
	return out
}

func (b *tracer) step(planID string, st *tree.Step) stepTraceJSON {
	r := &st.Record
	out := stepTraceJSON{
		StepID: r.StepID, AgentType: r.AgentName, Action: r.AgentRequest, StartTime: r.StartTime, EndTime: r.EndTime,
		State:           stateOf(r.State, record.KindAgentExecution),
		InputParameters: json.RawMessage("null"), Output: r.Result, ErrorMessage: r.ErrorMessage,
		Reasoning: b.reasoning(planID, r.StepID),
		ToolCalls: []toolTraceJSON{}, Sources: []sourceJSON{}, SubTraces: b.plans(st.SubPlans),
	}

	if r.StepIndex != nil {
		out.StepNumber = *r.StepIndex + 1
	}
	for _, call := range b.calls[r.StepID] {
		out.ToolCalls = append(out.ToolCalls, toToolTrace(call))
	}
	if n := len(out.ToolCalls); n > 0 {
		last := &out.ToolCalls[n-1]
		out.ToolName, out.InputParameters = last.Name, last.Parameters
		out.Output = cmp.Or(out.Output, last.Result)
	}
	for _, source := range b.sources[planID] {
		if source.StepID != nil && *source.StepID == r.StepID {
			out.Sources = append(out.Sources, toSource(source))
		}
	}

	out.Logs = b.logs(planID, r.StepID, r.ErrorMessage, r.EndTime)
	return out
}

// reasoning is what was thought in a step: its thoughts, or else what the model said beside its tool calls.
func (b *tracer) reasoning(planID, stepID string) *string {
	var texts []string
	for _, t := range b.thoughts[planID] {
		if t.StepID != nil && *t.StepID == stepID && t.Content != nil {
			texts = append(texts, *t.Content)
		}
	}

	if len(texts) == 0 {
		for _, cycle := range b.cycles[stepID] {
			calls := slices.ContainsFunc(b.calls[stepID], func(call *record.ActTool) bool { return call.Seq == cycle.Seq })
			if calls && cycle.ThinkOutput != nil && *cycle.ThinkOutput != "" {
				texts = append(texts, *cycle.ThinkOutput)
			}
		}
	}

	if len(texts) == 0 {
		return nil
	}
	return new(strings.Join(texts, "\n"))
}

func (b *tracer) retries(st *tree.Step) (n int64) {
	count := func(attempt *int64) {
		if attempt != nil && *attempt > 1 {
			n += *attempt - 1
		}
	}

	count(st.Record.Attempt)
	for _, cycle := range b.cycles[st.Record.StepID] {
		count(cycle.Attempt)
	}
	for _, call := range b.calls[st.Record.StepID] {
		count(call.Attempt)
	}
	return n
}

// logs are the events of a step, or of a plan outside of its steps, in order of time.
func (b *tracer) logs(planID, stepID string, failure *string, ended *time.Time) []string {
	var l log
	of := func(step *string) bool { return step == nil && stepID == "" || step != nil && *step == stepID }
	for _, c := range b.cycles[stepID] {
		at := cmp.Or(c.ThinkEndTime, c.ThinkStartTime)
		if n := b.requests[c]; n > 0 {
			l.add(c.ThinkStartTime, "LLM Request: %d messages", n)
		}
		switch {
		case c.ErrorMessage != nil:
			l.add(at, "LLM Error: %s", *c.ErrorMessage)
		case c.ThinkEndTime != nil:
			l.add(at, "LLM Response: %d tokens in %s", optional.Value(c.InputTokens)+optional.Value(c.OutputTokens),
				took(tree.Duration(c.ThinkStartTime, c.ThinkEndTime)))
		case c.ThinkStartTime != nil && b.requests[c] == 0:
			l.add(at, "LLM Request")
		}
	}

	for _, call := range b.calls[stepID] {
		t := toToolTrace(call)
		if t.ErrorMessage != nil {
			l.add(cmp.Or(t.EndTime, t.StartTime), "ERROR: %s: %s", optional.Value(t.Name), *t.ErrorMessage)
			continue
		}
		l.add(cmp.Or(t.EndTime, t.StartTime), "TOOL %s: %s in %s", optional.Value(t.Name), t.State, took(t.Duration))
	}

	for _, t := range b.thoughts[planID] {
		if of(t.StepID) && t.Content != nil {
			l.add(t.Time, "REASONING: %s", *t.Content)
		}
	}
	for _, w := range b.waits[planID] {
		if of(w.StepID) {
			l.add(cmp.Or(w.EndTime, w.StartTime), "WAIT %s: %s%s", optional.Value(cmp.Or(w.Title, &w.WaitID)),
				stateOf(w.State, record.KindWait),
				decision.ByWhom(optional.Value(w.DecidedBy), optional.Value(w.By)))
		}
	}

	if failure != nil {
		l.add(ended, "ERROR: %s", *failure)
	}
	return l.lines()
}

type log []logged

type logged struct {
	at   *time.Time
	text string
}

// maxLogText bounds a line in characters.
const maxLogText = 500

func (l *log) add(at *time.Time, format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	*l = append(*l, logged{at, cut(text, maxLogText)})
}

func (l log) lines() []string {
	slices.SortStableFunc(l, func(a, b logged) int { return tree.CompareNullsLast(a.at, b.at, time.Time.Compare) })
	lines := make([]string, len(l))
	for i, e := range l {
		at := "-"
		if e.at != nil {
			at = e.at.Format(time.RFC3339Nano)
		}
		lines[i] = "[" + at + "] " + e.text
	}
	return lines
}

// cut shortens a text to so many characters.
func cut(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

func took(ms *int64) string {
	if ms == nil {
		return "?"
	}
	return fmt.Sprintf("%dms", *ms)
}

func stateOf(s *record.State, k record.Kind) record.State {
	return *cmp.Or(s, new(record.InitialState(k)))
}

func toToolTrace(call *record.ActTool) toolTraceJSON {
	out := toolTraceJSON{
		ToolCallID: call.ToolCallID, Name: call.Name, State: stateOf(call.State, record.KindActTool),
		Attempt: *cmp.Or(call.Attempt, new(int64(1))), StartTime: call.StartTime, EndTime: call.EndTime,
		Duration: tree.Duration(call.StartTime, call.EndTime), Parameters: json.RawMessage("null"), Result: call.Result,
		ErrorMessage: call.ErrorMessage,
	}

	if call.Parameters != nil {
		if out.Parameters = json.RawMessage(*call.Parameters); !json.Valid(out.Parameters) { // it was cut, or is none
			out.Parameters, _ = json.Marshal(*call.Parameters)
		}
	}
	return out
}

func toSource(s *record.Source) sourceJSON {
	out := sourceJSON{
		URI: s.URI, DisplayName: s.URI, Type: s.Type, LineStart: s.LineStart, LineEnd: s.LineEnd, Snippet: s.Snippet,
		Description: s.Description, RelevanceScore: s.RelevanceScore,
	}
	if s.URI != nil && s.Type != nil && *s.Type == record.SourceFile {
		out.DisplayName = new(path.Base(*s.URI))
	}
	return out
}

// maxDepth is how many levels of sub-plans a trace shows, as a tree does if no other number is asked for.
const maxDepth = 50

// readTrace reads how a run went. take counts its bytes.
func readTrace(
	ctx context.Context, reader *runstore.Reader, take func(int64) error, rootPlanID, planID string,
) (out traceJSON, err error) {
	plan, _, err := reader.PlanTree(ctx, rootPlanID, planID)
	if err != nil {
		return out, err
	}

	plan.Cut(maxDepth)
	b := newTracer(take)
	if err := b.read(ctx, reader, rootPlanID); err != nil {
		return out, err
	}
	return b.plan(plan), nil
}
