package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestExchanges: of what a run answered, as much is read as is shown, in whatever envelope it is, and little more.
// Whether it is a task is known, however long its metadata is.
func TestExchanges(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	const chars = 100
	long := strings.Repeat("é<", 2_000)
	quoted, err := json.Marshal(long)
	if err != nil {
		t.Fatal(err)
	}

	agent := func(said string) string {
		return `{"agent_name":"a","status":"success","final_response":{"content":` + said + `},"conversation_history":"` +
			long + `"}`
	}
	flow := func(results, output, failed string) string {
		return `{"workflow_name":"w","status":"done","step_results":["` + results + `"],"final_output":` + output +
			`,"error":` + failed + `,"session_id":null}`
	}

	all := map[string]struct{ summary, answers string }{
		"text":           {long, long[:3*chars/2]},
		"agent":          {agent(`"Done."`), "Done."},
		"agent long":     {agent(string(quoted)), long[:3*chars/2]},
		"agent space":    {strings.Replace(agent(`"Done."`), "{", "{ ", 1), "Done."},
		"flow":           {flow("", `"Done."`, "null"), "Done."},
		"flow space":     {strings.Replace(flow(long, `"Done."`, "null"), "{", " { ", 1), "Done."},
		"flow spaces":    {strings.ReplaceAll(flow(long, `"Done."`, "null"), ":", ": "), "Done."},
		"flow results":   {flow(long, `"Done."`, "null"), "Done."},
		"flow output":    {flow(long, string(quoted), "null"), long[:3*chars/2]},
		"flow value":     {flow(long, `{"score":7}`, "null"), `{"score":7}`},
		"flow failed":    {flow(long, `null`, `"It broke."`), "It broke."},
		"flow in a flow": {flow(long, flow(long, `"Done."`, "null"), "null"), "Done."},
		"flow of agent":  {flow(long, agent(`"Done."`), "null"), "Done."},
		"flow of values": {flow(long, `["`+long+`"]`, "null"), `["` + long[:3*(chars-2)/2]},
	}

	var roots []string
	for root, run := range all {
		roots = append(roots, root)
		metadata := fmt.Sprintf(`{"constraints":{"of":%q}}`, long)
		if root == "text" {
			metadata = `{"constraint":1}`
		}
		storetest.Write(t, s, &record.Plan{
			RootPlanID: root, CurrentPlanID: root, UserRequest: &long, Summary: &run.summary,
			Executor: new("plan"), Metadata: json.RawMessage(metadata), State: new(record.Completed),
		})
	}

	got, err := s.Exchanges(t.Context(), roots, chars)
	if err != nil {
		t.Fatal(err)
	}

	for root, run := range all {
		p := got[root]
		answer := []rune(tree.Answer(*p.Summary))
		if answer := string(answer[:min(len(answer), chars)]); answer != run.answers {
			t.Errorf("%s answers %q, want %q, of %s", root, answer, run.answers, *p.Summary)
		}
		if n := len([]rune(*p.Summary)); n > 8*chars+100 {
			t.Errorf("%s: %d characters are read", root, n)
		}
		if task := strings.Contains(string(p.Metadata), "constraints"); task != (root != "text") || len(p.Metadata) > 100 {
			t.Errorf("%s: the metadata is %.100s", root, p.Metadata)
		}
	}
}
