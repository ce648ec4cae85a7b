package storetest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/record"
)

// CauseCase is a run that ended, or goes on, with what every door has to say of it.
type CauseCase struct {
	Name string
	// Root is its id, and Changes are its rows.
	Root    string
	Changes []record.Change
	// At is the address of the cause; empty: there is none. Row is its name there; empty: it has none of its own.
	At, Row string
	// Kind, Tool and Text are those of the cause, each empty if there is none. Asks says that the cause is an open
	// question.
	Kind, Tool, Text string
	State            record.State
	Recovered, Asks  bool
	// Failed is how many failures there are.
	Failed int
}

// CauseKind is the kind of the error of the cause, else its state, as reports and the page have it.
func (c *CauseCase) CauseKind() string {
	if c.Kind != "" {
		return c.Kind
	}
	return strings.ToLower(string(c.State))
}

// causeTrees are trees, each with its name, its rows and the answer: the cause, kind, tool, text, and the number of
// failures. A row is
//
//	plan r STATE 0-9 | kind | text        the root plan, from second 0 to 9
//	plan p<a/0/c STATE ...                a plan that a call started
//	plan p<r STATE ...                    a plan whose call is not known
//	step a<r STATE ...                    a step of a plan
//	cycle a/0 STATE ...                   a cycle of a step
//	call a/0/c:tool STATE ...             a call of a tool
//	wait w<r STATE ... | | title          a question of a plan; w<r@a of a step, w<r@a/c of its call
//
// STATE#2 is a second attempt. In a text, \n is a new line.
const causeTrees = `
== nothing failed
plan r COMPLETED 0-9
step a<r COMPLETED 1-8
-> none 0

== still running, nothing failed
plan r RUNNING 0-
step a<r RUNNING 1-
cycle a/0 RUNNING 1-
-> none 0

== the failed call, three plans deep
plan r FAILED 0-20
step a<r FAILED 1-19
cycle a/0 COMPLETED 1-3
call a/0/c:research FAILED 2-18 | sub_plan | the sub-plan failed
plan p<a/0/c FAILED 3-17 | step_failed | step b failed
step b<p FAILED 3-16 | tool | a tool failed
cycle b/0 COMPLETED 3-4
call b/0/d:search FAILED 4-15
plan q<b/0/d FAILED 5-14
step e<q FAILED 5-13
cycle e/0 COMPLETED 5-6
call e/0/f:run_sql FAILED 6-12 | timeout | no answer within 10 s
-> call:e/0/f timeout run_sql 'no answer within 10 s' 1

== own error of a step after a failure that was recovered
plan r FAILED 0-20
step a<r FAILED 1-19 | bad_output | the answer is no JSON
cycle a/0 COMPLETED 1-3
call a/0/c:fetch FAILED 2-3 | http_500 | the server is down
cycle a/1 COMPLETED 4-6
call a/1/d:fetch COMPLETED 5-6
-> step:a bad_output - 'the answer is no JSON' 2

== own error of a step after the last failure below it
plan r FAILED 0-20 | step_failed | a failed
step a<r FAILED 1-19 | budget_exceeded | over 5.00 USD were spent
cycle a/0 COMPLETED 1-3
call a/0/c:fetch FAILED 2-3 | http_500 | the server is down
-> step:a budget_exceeded - 'over 5.00 USD were spent' 2

== the step passes on the text of the call
plan r FAILED 0-20
step a<r FAILED 1-19 | RuntimeError | tool fetch said: the server is down, giving up
cycle a/0 COMPLETED 1-3
call a/0/c:fetch FAILED 2-3 | http_500 | the server is down
-> call:a/0/c http_500 fetch 'the server is down' 1

== a line of fewer than eight characters is not known again
plan r FAILED 0-20
step a<r FAILED 1-19 | RuntimeError | tool fetch said: timeout
cycle a/0 COMPLETED 1-3
call a/0/c:fetch FAILED 2-3 | http_500 | timeout
-> step:a RuntimeError - 'tool fetch said: timeout' 2

== the same kind far below
plan r FAILED 0-20 | rate_limit | too many requests, in all
step a<r FAILED 1-19 | tool | a tool
cycle a/0 COMPLETED 1-3
call a/0/c:ask FAILED 2-3 | rate_limit | 429 Too Many Requests
-> call:a/0/c rate_limit ask '429 Too Many Requests' 1

== an error without a kind is not its own
plan r FAILED 0-20 | | something went wrong
step a<r FAILED 1-19
cycle a/0 COMPLETED 1-3
call a/0/c:fetch FAILED 2-3 | http_404 | no such page
-> call:a/0/c http_404 fetch 'no such page' 1

== kinds of dependencies: operations, nodes
plan r FAILED 0-20 | operations_failed | 1 of 3 operations failed
step a<r FAILED 1-19 | node | node b failed
cycle a/0 FAILED 1-3 | dependency | needs b
call a/0/c:compile FAILED 2-3 | exit_1 | main.go:3: undefined: x
-> call:a/0/c exit_1 compile 'main.go:3: undefined: x' 1

== a call that is tried again by the same tool in its cycle
plan r FAILED 0-20
step a<r FAILED 1-19
cycle a/0 COMPLETED 1-9
call a/0/c:fetch FAILED 2-3 | http_500 | the server is down
call a/0/d:fetch COMPLETED 4-5
call a/0/e:parse FAILED 4-4 | syntax | unexpected end
-> call:a/0/e syntax parse 'unexpected end' 2

== another tool recovers nothing
plan r FAILED 0-20
step a<r FAILED 1-19
cycle a/0 COMPLETED 1-9
call a/0/c:fetch FAILED 2-3 | http_500 | the server is down
call a/0/d:parse COMPLETED 4-5
-> call:a/0/c http_500 fetch 'the server is down' 1

== parallel calls: the one that ended last
plan r FAILED 0-20
step a<r FAILED 1-19
cycle a/0 COMPLETED 1-9
call a/0/c:fetch FAILED 2-8 | http_500 | the server is down
call a/0/d:parse FAILED 2-5 | syntax | unexpected end
call a/0/e:store FAILED 2-6 | disk_full | no space left
-> call:a/0/c http_500 fetch 'the server is down' 3

== parallel calls that ended at once: the later in the tree
plan r FAILED 0-20
step a<r FAILED 1-19
cycle a/0 COMPLETED 1-9
call a/0/c:fetch FAILED 2-5 | http_500 | the server is down
call a/0/d:parse FAILED 2-5 | syntax | unexpected end
-> call:a/0/d syntax parse 'unexpected end' 2

== parallel steps of which times are missing
plan r FAILED -
step a<r FAILED 1-9 | first | the first one
step b<r FAILED - | second | the second one
-> step:b second - 'the second one' 2

== parallel steps: the one that ended last
plan r FAILED 0-20
step a<r FAILED 1-9 | first | the first one
step b<r FAILED 1-5 | second | the second one
step c<r COMPLETED 6-19
-> step:a first - 'the first one' 2

== a limit, although tools failed
plan r FAILED 0-20 | limit_time | took more than 20 s
step a<r INTERRUPTED 1-19
cycle a/0 COMPLETED 1-9
call a/0/c:fetch FAILED 2-5 | http_500 | the server is down
-> plan:r limit_time - 'took more than 20 s' 2

== a refusal of the model
plan r FAILED 0-20 | step_failed | step a failed
step a<r FAILED 1-19 | refusal | the model refuses
cycle a/0 COMPLETED 1-9
-> step:a refusal - 'the model refuses' 1

== stopped with words
plan r CANCELLED 0-20 | stopped | ann stopped it
step a<r CANCELLED 1-19
cycle a/0 COMPLETED 1-9
call a/0/c:fetch FAILED 2-5 | http_500 | the server is down
-> plan:r stopped - 'ann stopped it' 2

== stopped without a word: what is left
plan r CANCELLED 0-20
step a<r CANCELLED 1-19
cycle a/0 COMPLETED 1-9
call a/0/c:fetch FAILED 2-5 | http_500 | the server is down
-> call:a/0/c http_500 fetch 'the server is down' 1

== stopped without a word, and nothing is left
plan r CANCELLED 0-20
step a<r COMPLETED 1-19
cycle a/0 COMPLETED 1-9
call a/0/c:fetch FAILED 2-5 | http_500 | the server is down
cycle a/1 COMPLETED 10-19
-> call:a/0/c http_500 fetch 'the server is down' 1 recovered

== a sub-plan that was stopped with words
plan r FAILED 0-20
step a<r FAILED 1-19
cycle a/0 COMPLETED 1-9
call a/0/c:research FAILED 2-18
plan p<a/0/c CANCELLED 3-17 | stopped | bob stopped it
-> plan:p stopped - 'bob stopped it' 1

== a cancelled call without an error hides its sub-plan, not its question
plan r FAILED 0-20
step a<r FAILED 1-19
cycle a/0 COMPLETED 1-9
call a/0/c:delete CANCELLED 2-18
wait w<r@a/c TIMED_OUT 2-9 | | Delete 12 files?
plan p<a/0/c FAILED 3-17 | odd | whatever it was
-> wait:w wait_timed_out delete 'Delete 12 files?' 2

== a question that ran out of time, not the cycle that asked
plan r FAILED 0-20 | step_failed | step a
step a<r FAILED 1-19 | approval | nobody approved
cycle a/0 FAILED 1-9 | approval | nobody approved
call a/0/c:refund CANCELLED 2-9
wait w<r@a/c TIMED_OUT 2-9 | | Refund 249 EUR?
-> wait:w wait_timed_out refund 'Refund 249 EUR?' 1

== a question of a plan
plan r FAILED 0-20 | gave_up | waited too long
wait w<r TIMED_OUT 2-9 | | Which city?
-> wait:w wait_timed_out - 'Which city?' 1

== a question of a step that the step went on after
plan r FAILED 0-20
step a<r FAILED 1-19 | no_answer | there was no answer
cycle a/0 COMPLETED 1-3
wait w<r@a TIMED_OUT 2-4 | | Which city?
cycle a/1 COMPLETED 5-9
-> step:a no_answer - 'there was no answer' 1

== a question in a run that completed is no failure
plan r COMPLETED 0-20
step a<r COMPLETED 1-19
wait w<r@a TIMED_OUT 2-4 | | Which city?
-> none 0

== an open question of a live run: the oldest
plan r WAITING 0-
step a<r WAITING 1-
cycle a/0 RUNNING 1-
call a/0/c:refund AWAITING_APPROVAL 2-
wait v<r@a WAITING 5- | | Which city?
wait w<r@a/c WAITING 3- | | Refund 249 EUR?
-> wait:w - refund - 0 asks

== a question of a call that is not on record, in a step that went well
plan r FAILED 0-20
step a<r COMPLETED 1-19
wait w<r@a/gone TIMED_OUT 2-18 | | Which city?
step b<r FAILED 3-12 | bad_output | the answer is no JSON
-> step:b bad_output - 'the answer is no JSON' 1

== an open question comes before what failed
plan r RUNNING 0-
step a<r FAILED 1-3 | bad_output | the answer is no JSON
step b<r RUNNING 1-
wait w<r@b WAITING 3- | | Go on?
-> wait:w - - - 1 asks

== live, with a failure so far
plan r RUNNING 0-
step a<r FAILED 1-3 | bad_output | the answer is no JSON
step b<r RUNNING 1-
-> step:a bad_output - 'the answer is no JSON' 1

== live, and the step goes on after a failed call
plan r RUNNING 0-
step a<r RUNNING 1-
cycle a/0 COMPLETED 1-3
call a/0/c:fetch FAILED 2-3 | http_500 | the server is down
cycle a/1 RUNNING 4-
-> none 1

== live, and the call failed in the last cycle
plan r RUNNING 0-
step a<r RUNNING 1-
cycle a/0 RUNNING 1-
call a/0/c:fetch FAILED 2-3 | http_500 | the server is down
-> call:a/0/c http_500 fetch 'the server is down' 1

== completed in spite of failures: the first, recovered
plan r COMPLETED 0-20
step a<r COMPLETED 1-9
cycle a/0 COMPLETED 1-3
call a/0/c:fetch FAILED 2-3 | http_500 | the server is down
cycle a/1 COMPLETED 4-9
step b<r FAILED 10-19 | bad_output | the answer is no JSON
-> call:a/0/c http_500 fetch 'the server is down' 2 recovered

== skipped in spite of a failure
plan r SKIPPED 0-20
step a<r FAILED 1-9 | bad_output | the answer is no JSON
-> step:a bad_output - 'the answer is no JSON' 1 recovered

== a step that completed hides what failed below it
plan r FAILED 0-20 | step_failed | step b
step a<r COMPLETED 1-9
cycle a/0 COMPLETED 1-3
call a/0/c:fetch FAILED 2-9 | http_500 | the server is down
step b<r FAILED 4-5 | bad_output | the answer is no JSON
-> step:b bad_output - 'the answer is no JSON' 2

== an attempt that was superseded is no row
plan r FAILED 0-20
step a<r FAILED 1-19 | bad_output | the answer is no JSON
cycle a/0 COMPLETED 1-9
call a/0/c:fetch FAILED#1 2-3 | http_500 | the server is down
call a/0/c:fetch COMPLETED#2 4-5
-> step:a bad_output - 'the answer is no JSON' 1

== left behind by a process that died
plan r INTERRUPTED 0-20 | not_seen
step a<r INTERRUPTED 1-19 | not_seen
cycle a/0 INTERRUPTED 1-9 | not_seen
call a/0/c:build INTERRUPTED 2-9 | not_seen
-> call:a/0/c not_seen build - 1

== left behind, without a word
plan r INTERRUPTED 0-20
step a<r RUNNING 1-
cycle a/0 RUNNING 1-
call a/0/c:build RUNNING 2-
-> plan:r - - - 1

== through what is unknown, blocked or runs for ever
plan r FAILED 0-20
step a<r UNKNOWN 1-
cycle a/0 RUNNING 1-
call a/0/c:research UNKNOWN 2-
plan p<a/0/c BLOCKED 3-
step b<p FAILED 3-9 | bad_output | the answer is no JSON
-> step:b bad_output - 'the answer is no JSON' 1

== unknown, and nothing failed
plan r UNKNOWN 0-20
step a<r UNKNOWN 1-19
-> none 0

== it is not known how it ended, and nothing is left
plan r UNKNOWN 0-20
step a<r COMPLETED 1-19
cycle a/0 COMPLETED 1-9
call a/0/c:fetch FAILED 2-5 | http_500 | the server is down
cycle a/1 COMPLETED 10-19
-> call:a/0/c http_500 fetch 'the server is down' 1 recovered

== blocked by what failed before
plan r BLOCKED 0-20
step a<r FAILED 1-9 | bad_output | the answer is no JSON
step b<r BLOCKED -
-> step:a bad_output - 'the answer is no JSON' 1

== a skipped call: only its question counts
plan r FAILED 0-20
step a<r FAILED 1-19
cycle a/0 COMPLETED 1-9
call a/0/c:delete SKIPPED 2-9
wait w<r@a/c TIMED_OUT 2-9 | | Delete 12 files?
-> wait:w wait_timed_out delete 'Delete 12 files?' 1

== a cycle without an error is looked through
plan r FAILED 0-20
step a<r FAILED 1-19
cycle a/0 FAILED 1-9
call a/0/c:fetch FAILED 2-3 | http_500 | the server is down
-> call:a/0/c http_500 fetch 'the server is down' 1

== the error of a cycle: the model
plan r FAILED 0-20
step a<r FAILED 1-19 | step | cycle 2
cycle a/0 COMPLETED 1-3
call a/0/c:fetch FAILED 2-3 | http_500 | the server is down
cycle a/1 FAILED 4-9 | overloaded | {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
-> cycle:a/1 overloaded - Overloaded 2

== without an error of its own: that of the nearest row above
plan r FAILED 0-20 | limit | far above
step a<r FAILED 1-19 | tool | fetch failed twice
cycle a/0 COMPLETED 1-9
call a/0/c:fetch FAILED 2-3
-> plan:r limit - 'far above' 2

== without an error of its own: that of the step
plan r FAILED 0-20
step a<r FAILED 1-19 | tool | fetch failed twice
cycle a/0 COMPLETED 1-9
call a/0/c:fetch FAILED 2-3
-> call:a/0/c tool fetch 'fetch failed twice' 1

== a traceback
plan r FAILED 0-20
step a<r FAILED 1-19
cycle a/0 COMPLETED 1-9
call a/0/c:run FAILED 2-3 | ValueError | Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    f()\nValueError: invalid literal\n
-> call:a/0/c ValueError run 'ValueError: invalid literal' 1

== a text without a kind
plan r FAILED 0-20 | | it broke
-> plan:r - - 'it broke' 1

== a plan whose call is not known, below the likeliest step
plan r FAILED 0-20
step a<r COMPLETED 1-3
step b<r FAILED 4-19
cycle b/0 COMPLETED 4-5
plan p<r FAILED 6-18 | odd | whatever it was
-> plan:p odd - 'whatever it was' 1

== a plan that ended before the last cycle of its step began
plan r FAILED 0-20
step b<r FAILED 4-19 | bad_output | the answer is no JSON
cycle b/0 COMPLETED 4-5
plan p<r FAILED 5-8 | odd | whatever it was
cycle b/1 COMPLETED 8-9
-> step:b bad_output - 'the answer is no JSON' 2
`

// CauseCases returns runs that end, or go on, in many ways. Their ids begin with a text.
func CauseCases(t testing.TB, prefix string) (all []CauseCase) {
	t.Helper()
	for i, text := range strings.Split(causeTrees, "\n== ")[1:] {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		c := CauseCase{Name: lines[0], Root: fmt.Sprintf("%s%02d", prefix, i)}
		b := causeBuilder{t: t, CauseCase: &c, parents: map[string]string{}}

		for _, line := range lines[1 : len(lines)-1] {
			c.Changes = append(c.Changes, b.row(line))
		}
		b.want(strings.TrimPrefix(lines[len(lines)-1], "-> "))
		all = append(all, c)
	}
	return all
}

type causeBuilder struct {
	t testing.TB
	*CauseCase
	parents map[string]string // the plan of each step
	steps   int64
	calls   int64
}

func (b *causeBuilder) fail(line string) {
	b.t.Helper()
	b.t.Fatalf("%s: what is %q?", b.Name, line)
}

// plan returns the id of a plan.
func (b *causeBuilder) plan(id string) string {
	if id == "r" {
		return b.Root
	}
	return b.Root + "-" + id
}

func (b *causeBuilder) number(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		b.fail(text)
	}
	return &n
}

func (b *causeBuilder) time(text string) *time.Time {
	if text == "" {
		return nil
	}
	return At(int(*b.number(text)))
}

func some(text string) *string {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	return new(strings.ReplaceAll(text, `\n`, "\n"))
}

// row reads a row.
func (b *causeBuilder) row(line string) record.Change {
	parts := strings.SplitN(line, "|", 3)
	words := strings.Fields(parts[0])
	if len(words) != 4 {
		b.fail(line)
	}

	var kind, message *string
	if len(parts) > 1 {
		kind = some(parts[1])
	}
	if len(parts) > 2 {
		message = some(parts[2])
	}

	id, under, _ := strings.Cut(words[1], "<")
	name, number, again := strings.Cut(words[2], "#")
	var attempt *int64
	if again {
		attempt = b.number(number)
	}

	state := new(record.State(name))
	from, to, _ := strings.Cut(words[3], "-")
	start, end := b.time(from), b.time(to)
	at := strings.Split(id, "/")

	switch words[0] {
	case "plan":
		p := &record.Plan{
			RootPlanID: b.Root, CurrentPlanID: b.plan(id), Title: new("plan " + id), State: state, ErrorKind: kind,
			ErrorMessage: message, StartTime: start, EndTime: end,
		}
		if by := strings.Split(under, "/"); len(by) == 3 {
			p.ParentPlanID, p.ToolCallID = new(b.plan(b.parents[by[0]])), &by[2]
		} else if under != "" {
			p.ParentPlanID, p.ToolCallID = new(b.plan(under)), new("unknown")
		}
		return p
	case "step":
		b.parents[id] = under
		b.steps++
		return &record.AgentExecution{
			RootPlanID: b.Root, PlanID: b.plan(under), StepID: id, StepIndex: new(b.steps), AgentName: new("agent " + id),
			Attempt: attempt, State: state, ErrorKind: kind, ErrorMessage: message, StartTime: start, EndTime: end,
		}
	case "cycle":
		return &record.ThinkAct{
			RootPlanID: b.Root, StepID: at[0], Seq: *b.number(at[1]), Attempt: attempt, State: state, ErrorKind: kind,
			ErrorMessage: message, ThinkStartTime: start, ActEndTime: end,
		}
	case "call":
		call, tool, _ := strings.Cut(at[2], ":")
		b.calls++
		return &record.ActTool{
			RootPlanID: b.Root, StepID: at[0], Seq: *b.number(at[1]), ToolCallID: call, CallIndex: new(b.calls), Name: &tool,
			Attempt: attempt, State: state, ErrorKind: kind, ErrorMessage: message, StartTime: start, EndTime: end,
		}
	case "wait":
		plan, on, _ := strings.Cut(under, "@")
		step, call, _ := strings.Cut(on, "/")
		return &record.Wait{
			RootPlanID: b.Root, PlanID: b.plan(plan), WaitID: id, StepID: some(step), ToolCallID: some(call), Title: message,
			State: state, StartTime: start, EndTime: end,
		}
	}
	b.fail(line)
	return nil
}

// want reads what doors should say.
func (b *causeBuilder) want(line string) {
	words := strings.SplitN(line, " ", 4)
	if words[0] == "none" {
		b.Failed = int(*b.number(words[1]))
		return
	}

	dash := func(text string) string { return strings.Trim(strings.TrimSpace(strings.TrimPrefix(text, "- ")), "'") }
	kind, id, _ := strings.Cut(words[0], ":")
	if kind == "plan" {
		id = b.plan(id)
	}
	b.At = kind + ":" + id
	b.Kind, b.Tool = strings.TrimPrefix(words[1], "-"), strings.TrimPrefix(words[2], "-")

	rest := strings.TrimSpace(words[3])
	b.Recovered, rest = strings.HasSuffix(rest, " recovered"), strings.TrimSuffix(rest, " recovered")
	b.Asks, rest = strings.HasSuffix(rest, " asks"), strings.TrimSuffix(rest, " asks")
	last := strings.LastIndexByte(rest, ' ')
	b.Failed, b.Text = int(*b.number(rest[last+1:])), dash(rest[:last]+" ")

	for _, c := range b.Changes {
		if at, name, state := rowOf(c); at == b.At {
			b.State, b.Row = *state, name
		}
	}
}

// rowOf returns the address of a row, its name and its state. The ids need no escapes.
func rowOf(c record.Change) (at, name string, state *record.State) {
	switch c := c.(type) {
	case *record.Plan:
		return "plan:" + c.CurrentPlanID, *c.Title, c.State
	case *record.AgentExecution:
		return "step:" + c.StepID, *c.AgentName, c.State
	case *record.ThinkAct:
		return fmt.Sprintf("cycle:%s/%d", c.StepID, c.Seq), "", c.State
	case *record.ActTool:
		return fmt.Sprintf("call:%s/%d/%s", c.StepID, c.Seq, c.ToolCallID), *c.Name, c.State
	case *record.Wait:
		return "wait:" + c.WaitID, *c.Title, c.State
	}
	return "", "", nil
}
