package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStory tells events whose order a run does not decide: answers that arrive together, lost parts of an
// answer, an answer that begins again.
func TestStory(t *testing.T) {
	t.Parallel()

	const (
		places = `rows {"rows":[
			{"kind":"agentExecution","stepId":"s2","planId":"q","agentName":"under","agentRequest":"Look\u001b[2J.","startTime":"2026-11-20T10:00:02Z"},
			{"kind":"plan","currentPlanId":"q","parentPlanId":"p","state":"RUNNING","startTime":"2026-11-20T10:00:02Z"},
			{"kind":"plan","currentPlanId":"p","state":"RUNNING","startTime":"2026-11-20T10:00:00Z"},
			{"kind":"agentExecution","stepId":"s1","planId":"p","agentName":"top","agentRequest":"Go.","startTime":"2026-11-20T10:00:01Z"},
			{"kind":"thinkAct","stepId":"s1","seq":0,"state":"RUNNING","thinkStartTime":"2026-11-20T10:00:03Z"},
			{"kind":"thinkAct","stepId":"s2","seq":0,"state":"RUNNING","thinkStartTime":"2026-11-20T10:00:03Z"}]}`
		begun = "top:  Go.\n   under:  Look [2J.\n"
	)

	done := func(step, output, more string) string {
		return `rows {"rows":[{"kind":"thinkAct","stepId":"` + step + `","seq":0,"thinkOutput":"` + output +
			`","thinkEndTime":"2026-11-20T10:00:09Z"` + more + `}]}`
	}
	progress := func(call string, done int) string {
		return fmt.Sprintf(`progress {"planId":"p","stepId":"s2","seq":0,"toolCallId":%q,"attempt":1,"done":%d,"total":9,"message":"at a\u001b[2J"}`,
			call, done)
	}
	delta := func(step, text string) string {
		return `delta {"planId":"p","stepId":"` + step + `","seq":0,"attempt":1,"text":"` + text + `"}`
	}

	for name, tt := range map[string]struct {
		events []string
		want   string
	}{
		"one after the other": {
			[]string{delta("s1", "One."), delta("s2", "Tw"), delta("s2", "o."), done("s1", "One.", ""), done("s2", "Two.", "")},
			"One.\n   Two.\n",
		},
		"the rest of an answer": {
			[]string{delta("s1", "Hel"), done("s1", "Hello\\n\\nyou", ""), delta("s1", "lo")}, "Hel" + "lo\n\nyou\n",
		},
		"another answer than shown": {
			[]string{delta("s1", "secret"), done("s1", "[key]", "")}, "secret\nthe whole answer:\n[key]\n",
		},
		"a lost part": {
			[]string{
				delta("s1", "One "), `reset {"planId":"p","stepId":"s1","seq":0,"attempt":1}`, delta("s1", "three"),
				done("s1", "One two three", ""),
			},
			"One \na part of the answer was lost\n… three\nthe whole answer:\nOne two three\n",
		},
		"again": {
			[]string{delta("s1", "One "), `reset {"planId":"p","stepId":"s1","seq":0,"attempt":2}`,
				`delta {"planId":"p","stepId":"s1","seq":0,"attempt":2,"text":"Two"}`,
				done("s1", "Two", `,"attempt":2,"attempts":[{"attempt":1,"errorMessage":"lost"},{"attempt":2}]`)},
			"One \nthe answer begins again, attempt 2\nTwo\n",
		},
		"again, and the row is first": {
			[]string{
				`rows {"rows":[{"kind":"thinkAct","stepId":"s1","seq":0,"state":"RUNNING","attempt":2,"attempts":[{"attempt":1,"errorMessage":"lost\u001b["},{"attempt":2}]}]}`, `reset {"planId":"p","stepId":"s1","seq":0,"attempt":2}`, done("s1", "Two", `,"attempt":2`),
			},
			"the answer begins again, attempt 2  lost [\nTwo\n",
		},
		"an answer that is ahead of its row": {
			[]string{
				strings.Replace(delta("s1", "Two."), `"seq":0`, `"seq":1`, 1), done("s1", "One.", ""),
				strings.ReplaceAll(done("s1", "Two.", ""), `"seq":0`, `"seq":1`),
			}, "One.\nTwo.\n",
		},
		"rows before those above them": {
			[]string{`rows {"rows":[{"kind":"actTool","stepId":"s3","toolCallId":"t","name":"look","parameters":"{}","state":"RUNNING","startTime":"2026-11-20T10:00:05Z"}]}`,
				`rows {"rows":[{"kind":"agentExecution","stepId":"s3","planId":"q2","agentName":"low","agentRequest":"See.","startTime":"2026-11-20T10:00:04Z"}]}`,
				`rows {"rows":[{"kind":"plan","currentPlanId":"q2","parentPlanId":"q"}]}`},
			"      low:  See.\n      → look  {}\n",
		},
		"a failure": {[]string{done("s1", "", `,"state":"FAILED","errorMessage":"too long"`)}, "FAILED  too long\n"},
		"a tool in an answer": {
			[]string{delta("s1", "One"), `rows {"rows":[{"kind":"actTool","stepId":"s2","toolCallId":"t","name":"look","parameters":"{}","state":"RUNNING"}]}`, delta("s1", " two"), done("s1", "One two", ""),
				`rows {"rows":[{"kind":"actTool","stepId":"s2","toolCallId":"t","name":"look","parameters":"{}","state":"FAILED","errorMessage":"no"}]}`},
			"One\n   → look  {}\n two\n   ← look  FAILED  no\n",
		},
		"how far a call has come, once in a while and until it has ended": {
			[]string{progress("t", 1), `rows {"rows":[{"kind":"actTool","stepId":"s2","toolCallId":"t","name":"look","parameters":"{}","state":"RUNNING"}]}`,
				progress("t", 2), progress("t", 3),
				`rows {"rows":[{"kind":"actTool","stepId":"s2","toolCallId":"t","name":"look","parameters":"{}","state":"COMPLETED","result":"ok"}]}`,
				progress("t", 4)},
			"   → look  {}\n   … look  2/9 at a [2J\n   ← look  COMPLETED  ok\n",
		},
		"an answer and its call of the same time": {
			[]string{`rows {"rows":[` +
				`{"kind":"actTool","stepId":"s1","seq":0,"toolCallId":"t","name":"look","parameters":"{}","startTime":"2026-11-20T10:00:09Z"},` +
				`{"kind":"thinkAct","stepId":"s1","seq":0,"thinkOutput":"I look.","thinkEndTime":"2026-11-20T10:00:09Z"}]}`},
			"I look.\n→ look  {}\n",
		},
		"thoughts in the order of their times": {
			[]string{`rows {"rows":[{"kind":"thought","thoughtId":"t2","planId":"p","type":"action","content":"Do it","time":"2026-01-01T00:00:02Z"},` +
				`{"kind":"thought","thoughtId":"t1","planId":"p","type":"analysis","content":"Look","time":"2026-01-01T00:00:01Z"}]}`},
			"thought  analysis  Look\nthought  action  Do it\n",
		},
		"a question of a plan that is not known yet": {
			[]string{`rows {"rows":[{"kind":"agentExecution","planId":"q","stepId":"t","agentName":"Two","startTime":"2026-01-01T00:00:01Z"},` +
				`{"kind":"wait","planId":"q","waitId":"w","title":"May it?","state":"APPROVED","endTime":"2026-01-01T00:00:02Z"}]}`,
				`rows {"rows":[{"kind":"plan","currentPlanId":"q","parentPlanId":"p"}]}`},
			"   Two:\nMay it?  APPROVED\n",
		},
		"what else there is": {
			[]string{`rows {"rows":[{"kind":"thought","thoughtId":"t","planId":"p","type":"PLAN","content":"I think"},{"kind":"plan","currentPlanId":"p","state":"PAUSED"}]}`,
				`rows {"rows":[{"kind":"thought","thoughtId":"t","planId":"p","type":"PLAN","content":"I think"},{"kind":"plan","currentPlanId":"p","state":"RUNNING"},{"kind":"wait","planId":"p","waitId":"w","title":"May it?","state":"TIMED_OUT"}]}`,
				"reset {}", "done {}"},
			"thought  PLAN  I think\nMay it?  TIMED_OUT\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			s := newStory(&client{base: defaultServer}, "p", &view{w: &out})
			for _, e := range append([]string{places}, tt.events...) {
				kind, data, _ := strings.Cut(e, " ")
				if _, err := s.event(kind, json.RawMessage(data)); err != nil {
					t.Fatal(err)
				}
			}

			if diff := cmp.Diff(begun+tt.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPaused: why a run is paused is said once, however often it asks for its model again meanwhile.
func TestPaused(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := newStory(&client{base: defaultServer}, "p", &view{w: &out})
	row := func(state string) {
		t.Helper()
		paused, err := s.event("rows", json.RawMessage(`{"rows":[{"kind":"plan","currentPlanId":"p","state":"`+state+`"}]}`))
		if err != nil || paused != (state == "PAUSED") {
			t.Errorf("%s: %t, %v", state, paused, err)
		}
	}

	for _, why := range []string{"network: refused", "network: reset\u001b[2J"} {
		row("PAUSED")
		s.pause(&runView{State: "PAUSED", WaitingFor: []string{"model:default is away since 2026-11-20T10:00:00Z: " + why}})
		row("RUNNING")
	}
	row("PAUSED")
	s.pause(&runView{State: "PAUSED"})
	row("RUNNING")

	want := "waits:  model:default is away since 2026-11-20T10:00:00Z: network: refused\n" +
		"It goes on when that is there; actlog resume p tries at once.\npaused  actlog resume p makes it go on\nit goes on\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
