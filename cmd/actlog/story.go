package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/view/words"
)

// story prints what happens in a run, line by line: the texts of answers as they arrive, tool calls, the runs
// below it, further to the right. It is safe for concurrent use.
type story struct {
	client *client
	root   string // the plan of the run

	mu      sync.Mutex
	view    *view
	plans   map[string]*printedPlan
	steps   map[string]*printedStep
	cycles  map[cycleKey]*printedCycle
	answers map[cycleKey]*storyRow // of the rows that are being printed
	tools   map[string]*printedTool
	paced   paced             // progress of these
	waits   map[string]string // their states
	early   []storyRow        // of which it is not known yet where they belong
	others  map[string]bool   // thoughts and artifacts
	at      map[int]string    // the step of the last line, by depth
	open    *printedCycle     // whose text is being written; nil: none
	midLine bool              // at the end of what is written
	asks    string            // the wait that a human is asked about: the texts of answers come later; empty: none
	asked   string            // the question at the end of what is written
	paused  string            // why it was last said that the run is paused; empty: it goes on
}

type printedPlan struct {
	parent, state string
}

type printedStep struct {
	plan, agent string
	attempt     int
	printed     bool
}

type cycleKey struct {
	step string
	seq  int64
}

type printedCycle struct {
	step           string
	said           map[string]bool // which messages are printed
	begun          bool            // its row is known, so that what came before it is printed
	attempt        int
	inPlaceOf      string          // what was last said of whose place the model answers in
	restartPrinted int             // the attempt of which it was printed that the answer begins again
	text           strings.Builder // what arrived since the last reset
	written        int             // how much of it is written
	partial        bool            // a part of the text before is missing
	ended          bool
}

type printedTool struct {
	name    string
	attempt int
	called  bool
	state   string
}

func newStory(c *client, root string, v *view) *story {
	return &story{
		client: c, root: root, view: v, plans: map[string]*printedPlan{}, steps: map[string]*printedStep{},
		cycles: map[cycleKey]*printedCycle{},
		tools:  map[string]*printedTool{}, waits: map[string]string{}, others: map[string]bool{}, at: map[int]string{},
	}
}

type storyRow struct {
	tailRow
	ParentPlanID, AgentRequest, Parameters, ThinkOutput, Result, DecidedBy, By string
	Time                                                                       *time.Time // of a thought
	Messages                                                                   []said     // that a cycle has read
	attempted
}

// said is what somebody said to the run.
type said struct{ MessageID, Text, By string }

type moment struct {
	at    time.Time
	print func()
}

// rows prints what is new in rows. It reports whether the run waits since, or is paused.
func (s *story) rows(rows []storyRow) (waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range rows { // places first: rows below may come before those above
		switch r := &rows[i]; r.Kind {
		case "plan":
			if s.plans[r.CurrentPlanID] == nil {
				s.plans[r.CurrentPlanID] = &printedPlan{parent: r.ParentPlanID}
			}
		case "agentExecution":
			if s.steps[r.StepID] == nil {
				s.steps[r.StepID] = &printedStep{plan: r.PlanID}
			}
			s.steps[r.StepID].agent = r.AgentName
		}
	}

	rows, s.early = append(s.early, rows...), nil
	s.answers = map[cycleKey]*storyRow{}
	var moments []moment
	for i := range rows {
		if !s.placed(&rows[i]) {
			s.early = append(s.early, rows[i])
			continue
		}
		moments = append(moments, s.moments(&rows[i])...)
		if r := &rows[i]; r.Kind == "thinkAct" {
			s.answers[cycleKey{r.StepID, r.Seq}] = r
		} else if r.Kind == "wait" && r.State == "WAITING" || r.Kind == "plan" && r.State == "PAUSED" {
			waits = true
		}
	}

	slices.SortStableFunc(moments, func(a, b moment) int { return a.at.Compare(b.at) })
	for _, m := range moments {
		m.print()
	}
	return waits
}

// placed reports whether it is known where a row belongs: the rows above may be in the next event.
func (s *story) placed(r *storyRow) bool {
	planID := r.PlanID
	switch r.Kind {
	case "thinkAct", "actTool":
		st := s.steps[r.StepID]
		if st == nil {
			return false
		}
		planID = st.plan
	case "plan":
		planID = r.CurrentPlanID
	}

	for range maxIndent {
		p := s.plans[planID]
		if planID == s.root || p == nil {
			return planID == s.root
		}
		planID = p.parent
	}
	return true
}

func (s *story) moments(r *storyRow) []moment {
	begin, end := cmp.Or(r.StartTime, r.ThinkStartTime, r.Time), cmp.Or(r.EndTime, r.ThinkEndTime)
	later := time.Now()
	at := func(t *time.Time) time.Time { // what has no time yet comes last
		if t == nil {
			return later
		}
		return *t
	}

	switch r.Kind {
	case "plan":
		return []moment{{at(cmp.Or(end, begin)), func() { s.plan(r) }}}
	case "agentExecution":
		return []moment{{at(begin), func() { s.step(r) }}}
	case "thinkAct":
		return []moment{{at(begin), func() { s.think(r) }}, {at(end), func() { s.thought(r) }}}
	case "actTool":
		return []moment{{at(begin), func() { s.call(r) }}, {at(end), func() { s.result(r) }}}
	case "wait":
		return []moment{{at(cmp.Or(end, begin)), func() { s.wait(r) }}}
	case "thought", "artifact":
		return []moment{{at(begin), func() { s.other(r) }}}
	}
	return nil // sources are behind what tools return
}

func (s *story) plan(r *storyRow) {
	p := s.plans[r.CurrentPlanID]
	before := p.state
	p.state = r.State
	if s.paused == pausedByHand && r.CurrentPlanID == s.root && before == "PAUSED" && r.State == "RUNNING" {
		s.paused = ""
		s.line(0, s.view.faint("it goes on"))
	}
}

// pausedByHand is why a run is paused that somebody asked to pause.
const pausedByHand = "paused"

// pause says that the run is paused, and why, unless it has.
func (s *story) pause(r *runView) {
	why := pausedByHand
	if len(r.WaitingFor) > 0 {
		why = sinceWhen(r.WaitingFor)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused == why {
		return
	}
	s.paused = why

	resume := s.client.commandLine("resume", []string{s.root})
	if why == pausedByHand {
		s.line(0, s.view.yellow("paused"), s.view.exact(resume+" makes it go on"))
		return
	}
	s.line(0, s.view.yellow("waits:"), words.Shorten(strings.Join(r.WaitingFor, ", "), 400))
	s.line(0, s.view.exact("It goes on when that is there; "+resume+" tries at once."))
}

// sinceWhen returns what a run waits for, and since when, without what changes while it does: the last error.
func sinceWhen(waitingFor []string) (all string) {
	for _, what := range waitingFor {
		since, _, _ := strings.Cut(what, ": ")
		all += since + "\n"
	}
	return all
}

func (s *story) step(r *storyRow) {
	st := s.steps[r.StepID]
	if st.attempt = max(st.attempt, r.Attempt); st.printed {
		return
	}
	st.printed = true
	depth := s.depth(st.plan)
	s.line(depth, s.view.bold(r.AgentName)+":", words.Shorten(r.AgentRequest, 100))
	s.at[depth] = r.StepID
}

// place returns how far to the right a step is, and says whose lines follow if that has changed.
func (s *story) place(stepID string) (depth int) {
	st := s.steps[stepID]
	if st == nil {
		return 0
	}

	depth = s.depth(st.plan)
	if last := s.at[depth]; last != "" && last != stepID {
		s.line(depth, s.view.bold(st.agent)+":")
	}
	s.at[depth] = stepID
	return depth
}

// maxIndent bounds how far to the right lines go.
const maxIndent = 10

func (s *story) depth(planID string) (n int) {
	for p := s.plans[planID]; planID != s.root && p != nil && n < maxIndent; p = s.plans[planID] {
		n, planID = n+1, p.parent
	}
	return n
}

func (s *story) cycle(stepID string, seq int64) *printedCycle {
	key := cycleKey{stepID, seq}
	if s.cycles[key] == nil {
		s.cycles[key] = &printedCycle{step: stepID, attempt: 1}
	}
	return s.cycles[key]
}

// think says that the answer begins again, and writes what of it was ahead of its row.
func (s *story) think(r *storyRow) {
	c := s.cycle(r.StepID, r.Seq)
	c.begun = true
	if r.Attempt > c.attempt {
		s.again(c, r.Attempt)
	}
	defer s.arrived(c)
	defer s.fallsBack(c, r)
	defer s.read(c, r)

	if r.Attempt <= max(c.restartPrinted, 1) {
		return
	}

	c.restartPrinted = r.Attempt
	why := ""
	for _, past := range r.Attempts {
		if past.Attempt == r.Attempt-1 {
			why = words.Shorten(past.ErrorMessage, 200)
		}
	}
	s.line(s.place(r.StepID), s.view.faint("the answer begins again, "+r.number()), s.view.red(why))
}

// fallsBack says that another model is asked than the first one, and why.
func (s *story) fallsBack(c *printedCycle, r *storyRow) {
	inPlace := words.InPlaceOf(r.FallbackFrom)
	if inPlace != "" && inPlace != c.inPlaceOf {
		s.line(s.place(r.StepID), s.view.faint(words.Shorten(r.ModelName, 50)+" is asked "+inPlace))
	}
	c.inPlaceOf = inPlace
}

// read writes the messages that a cycle has read.
func (s *story) read(c *printedCycle, r *storyRow) {
	for _, m := range r.Messages {
		if c.said[m.MessageID] {
			continue
		}
		if c.said == nil {
			c.said = map[string]bool{}
		}
		c.said[m.MessageID] = true
		s.line(s.place(r.StepID), s.view.bold(words.Shorten(cmp.Or(m.By, "somebody"), 40)+" says:"),
			words.Shorten(m.Text, 400))
	}
}

// again drops what arrived of an answer.
func (s *story) again(c *printedCycle, attempt int) {
	if s.open == c {
		s.close()
	}
	c.attempt, c.written = attempt, 0
	c.partial, c.ended = false, false
	c.text.Reset()
}

// thought writes the answer of a model, as far as it is not written.
func (s *story) thought(r *storyRow) {
	c := s.cycle(r.StepID, r.Seq)
	if c.ended || r.ThinkEndTime == nil && r.State != "FAILED" {
		return
	}

	arrived, written := c.text.String(), c.written
	c.ended = true
	c.text.Reset()
	switch rest, ok := strings.CutPrefix(r.ThinkOutput, arrived[:written]); {
	case r.ThinkOutput == "":
	case ok && (!c.partial || written == 0):
		s.write(c, rest)
	default:
		s.close()
		s.line(s.place(r.StepID), s.view.faint("the whole answer:"))
		s.write(c, r.ThinkOutput)
	}

	if s.open == c {
		s.close()
	}
	if r.ErrorMessage != "" {
		s.line(s.place(r.StepID), s.view.state(r.State), s.view.red(words.Shorten(r.ErrorMessage, 200)))
	}
}

// storyDelta is a piece of the text of an answer. A reset has no text.
type storyDelta struct {
	PlanID, StepID string
	Seq            int64
	Attempt        int
	Text           string
}

// delta writes a piece of an answer as it arrives. One answer is written at a time: others follow when they
// are complete.
func (s *story) delta(d storyDelta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cycle(d.StepID, d.Seq)
	if c.ended {
		return
	}
	c.text.WriteString(d.Text)
	s.arrived(c)
}

// arrived writes what has arrived of an answer, unless it has to wait.
func (s *story) arrived(c *printedCycle) {
	if !c.begun || c.ended || s.asks != "" || s.open != nil && s.open != c {
		return
	}

	all := c.text.String()
	if c.partial && c.written == 0 && all != "" {
		s.write(c, "… ")
	}
	s.write(c, all[c.written:])
	c.written = len(all)
}

// reset says that what was written of an answer is void.
func (s *story) reset(d storyDelta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cycle(d.StepID, d.Seq)
	if c.ended {
		return
	}

	void, repeated := c.written > 0, d.Attempt > c.attempt
	s.again(c, max(c.attempt, d.Attempt))
	c.partial = !repeated
	switch {
	case void && repeated:
		c.restartPrinted = d.Attempt
		s.line(s.place(d.StepID), s.view.faint("the answer begins again, "+attempted{Attempt: d.Attempt}.number()))
	case void:
		s.line(s.place(d.StepID), s.view.faint("a part of the answer was lost"))
	}
}

func (s *story) write(c *printedCycle, piece string) {
	piece = terminal.Plain(piece)
	if piece == "" {
		return
	}

	if s.open != c {
		s.close()
		s.place(c.step)
		s.open = c
	}

	indent := ""
	if st := s.steps[c.step]; st != nil {
		indent = strings.Repeat("   ", s.depth(st.plan))
	}
	var b strings.Builder
	for line := range strings.Lines(piece) {
		if !s.midLine {
			b.WriteString(indent)
		}
		b.WriteString(line)
		s.midLine = !strings.HasSuffix(line, "\n")
	}
	s.put(b.String())
}

// close ends the line of the text that is being written.
func (s *story) close() {
	if s.midLine {
		s.put("\n")
	}
	s.open, s.midLine = nil, false
}

// finish ends the line of a text that never became whole.
func (s *story) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
}

// line writes a line at a depth, above the question that is asked.
func (s *story) line(depth int, parts ...string) {
	open := s.open
	if s.asked != "" {
		s.midLine = true
	}
	s.close()
	s.open = open // its text goes on below
	s.view.line(strings.Repeat("   ", depth), parts...)
	s.put(s.asked)
}

func (s *story) put(text string) {
	if text != "" {
		_, err := io.WriteString(s.view.w, text)
		s.view.err = cmp.Or(s.view.err, err)
	}
}

// Write writes lines between those of the story.
func (s *story) Write(lines []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
	return s.view.w.Write(lines)
}

// asking says which wait a human is asked about from now on; empty: none.
func (s *story) asking(waitID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks = waitID
}

// question writes a question. Lines that come before answered is called are written above it.
func (s *story) question(text string) (answered func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
	s.put(text)
	s.asked = text

	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = ""
	}
}

func (s *story) tool(id string) *printedTool {
	if s.tools[id] == nil {
		s.tools[id] = &printedTool{attempt: 1}
	}
	return s.tools[id]
}

func (s *story) call(r *storyRow) {
	t := s.tool(r.ToolCallID)
	again := ""
	if r.Attempt > t.attempt {
		t.attempt, again = r.Attempt, r.number()
		t.called, t.state = false, ""
	}
	if t.called {
		return
	}
	t.called, t.name = true, words.Clean(r.Name)

	if answer := s.answers[cycleKey{r.StepID, r.Seq}]; answer != nil { // both may have the same time
		s.think(answer)
		s.thought(answer)
	}
	s.line(s.place(r.StepID), "→ "+s.view.bold(r.Name), words.Shorten(r.Parameters, 100), s.view.faint(again))
}

// storyProgress names a call that says how far it has come.
type storyProgress struct{ StepID, ToolCallID string }

// progress says how far a call has come that is at work, a line each few seconds.
func (s *story) progress(p storyProgress, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tools[p.ToolCallID]
	if t == nil || !t.called || t.state != "" || text == "" || !s.paced.due(p.ToolCallID, time.Now()) {
		return
	}
	s.line(s.place(p.StepID), s.view.faint("… "+t.name), s.view.faint(text))
}

func (s *story) result(r *storyRow) {
	t := s.tool(r.ToolCallID)
	switch r.State {
	case "COMPLETED", "FAILED", "SKIPPED", "UNKNOWN", "CANCELLED", "INTERRUPTED":
	default:
		return
	}
	if t.state == r.State {
		return
	}
	t.state = r.State

	outcome := words.Shorten(r.Result, 100)
	if r.ErrorMessage != "" {
		outcome = s.view.red(words.Shorten(r.ErrorMessage, 100))
	}
	s.line(s.place(r.StepID), "← "+s.view.bold(r.Name), s.view.state(r.State), words.Took(r.StartTime, r.EndTime), outcome)
}

func (s *story) wait(r *storyRow) {
	before := s.waits[r.WaitID]
	if s.waits[r.WaitID] = r.State; before == r.State || r.State == "WAITING" {
		return
	}

	if s.asks == r.WaitID && s.asked != "" {
		s.asked = "Press Enter to go on. "
	}
	by := strings.TrimSpace(decision.ByWhom(words.Clean(r.DecidedBy), words.Clean(r.By)))
	s.line(0, words.Shorten(r.Title, 100), s.view.state(r.State), by)
}

func (s *story) other(r *storyRow) {
	id := r.Kind + " " + cmp.Or(r.ThoughtID, r.Name)
	if s.others[id] {
		return
	}
	s.others[id] = true
	s.line(s.depth(r.PlanID), s.view.faint(r.Kind), words.Clean(r.Type), words.Shorten(cmp.Or(r.Content, r.Name), 100))
}

// waiting reports whether a wait is open, as far as is known.
func (s *story) waiting(waitID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waits[waitID] == "WAITING" || s.waits[waitID] == ""
}

func (s *story) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line(0, s.view.exact(fmt.Sprintf(format, args...)))
}

// event prints an event of a stream. It reports whether the run waits since, or is paused.
func (s *story) event(event string, data json.RawMessage) (waits bool, err error) {
	switch event {
	case "rows":
		var changes struct{ Rows []storyRow }
		if err := json.Unmarshal(data, &changes); err != nil {
			return false, fmt.Errorf("read event %s: %w", event, err)
		}
		waits = s.rows(changes.Rows)
	case "delta", "reset":
		var d storyDelta
		if err := json.Unmarshal(data, &d); err != nil {
			return false, fmt.Errorf("read event %s: %w", event, err)
		}
		if event == "delta" {
			s.delta(d)
		} else if d.StepID != "" {
			s.reset(d)
		}
	case "progress":
		var p storyProgress
		if err := json.Unmarshal(data, &p); err != nil {
			return false, fmt.Errorf("read event %s: %w", event, err)
		}
		_, text := words.Progress(data)
		s.progress(p, text)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	return waits, s.view.err
}
