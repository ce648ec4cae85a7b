package tree_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/record/tree"
)

// TestAnswer: W4: people read the answer of a run, not the envelope in which executor workflow returns it.
func TestAnswer(t *testing.T) {
	t.Parallel()
	agent := func(response string) string {
		return `{"agent_name":"clerk","status":"success","final_response":` + response +
			`,"conversation_history":[{"role":"user","content":"Hello"}],"error_message":null,"session_id":"s"}`
	}
	flow := func(output string) string {
		return `{"workflow_name":"two","status":"completed","step_results":[{"step_name":"clerk","step_type":"agent","result":` + agent(`{"role":"assistant","content":"first"}`) + `}],"final_output":` + output + `,"error":null,"session_id":null}`
	}

	for text, want := range map[string]string{
		"":                                 "",
		"All is well.":                     "All is well.",
		`{"score":7}`:                      `{"score":7}`,
		`{"agent_name":"x","note":"mine"}`: `{"agent_name":"x","note":"mine"}`,
		`[{"agent_name":"x","status":"success"}]`:                                  `[{"agent_name":"x","status":"success"}]`,
		`{"agent_name":"x","status":"busy"}`:                                       `{"agent_name":"x","status":"busy"}`,
		`{"status":"success","final_response":1}`:                                  `{"status":"success","final_response":1}`,
		agent(`{"role":"assistant","content":"2,469 m.\n<b>"}`):                    "2,469 m.\n<b>",
		strings.ReplaceAll(agent(`{"role":"assistant","content":"a"}`), ":", ": "): "a",
		flow(`"{\"score\": 7}"`):                                                   `{"score": 7}`,
		flow(`{"score":12345678901234567890}`):                                     `{"score":12345678901234567890}`,
		flow(agent(`{"role":"assistant","content":"inner"}`)):                      "inner",
		`{"agent_name":"clerk","status":"error","final_response":null,"conversation_history":[],"error_message":"no model","session_id":null}`: "no model",
		`{"workflow_name":"two","status":"failed","step_results":[],"final_output":null,"error":"a step failed","session_id":null}`:            "a step failed",
		`{"workflow_name":"two","status":"completed","step_results":[],"final_output":null,"error":null,"session_id":null}`:                    "",
	} {
		if got := tree.Answer(text); got != want {
			t.Errorf("the answer of %s is %q, want %q", text, got, want)
		}
	}

	rapid.Check(t, func(rt *rapid.T) { // of the beginning of an envelope, it is the beginning of the answer
		said := rapid.String().Draw(rt, "said")
		raw, err := json.Marshal(said)
		if err != nil {
			rt.Fatal(err)
		}

		whole := agent(`{"role":"assistant","content":` + string(raw) + `}`)
		cut := whole[:rapid.IntRange(0, len(whole)-1).Draw(rt, "cut")]
		got := tree.Answer(cut)
		if at := strings.Index(whole, `"final_response"`) + len(`"final_response"`); len(cut) >= at &&
			!strings.HasPrefix(said, got) {
			rt.Fatalf("the answer of %s is %q, of %q", cut, got, said)
		}

		kept, _ := json.Marshal(got) // a text
		if there := min(len(cut)-strings.Index(whole, string(raw)), len(raw)-1); len(kept) < there-len(`\ud800\udc00`) {
			rt.Fatalf("the answer of %s is %q: more of it is there", cut, got)
		}
	})

	for _, response := range []string{`null`, `{"role":"assistant"}`, `"none"`} { // what the user said is no answer
		long := agent(response)
		if got := tree.Answer(long[:len(long)-20]); got != "" {
			t.Errorf("of the beginning of a result with the response %s it is %q", response, got)
		}
	}
	spaced := strings.Replace(agent(`{"role":"assistant","content":"a"}`), "{", "{ ", 1)
	if got := tree.Answer(spaced[:len(spaced)-20]); got != "a" {
		t.Errorf("of the beginning of %s it is %q", spaced, got)
	}

	long := flow(`"end"`)
	if got := tree.Answer(long[:strings.Index(long, `"final_output"`)-5]); got != "" {
		t.Errorf("of the steps of a workflow it is %q", got)
	}
	if got := tree.Answer(long[:len(long)-20]); got != "end" {
		t.Errorf("of the beginning of the result of a workflow, with its answer, it is %q", got)
	}
}

func TestReadable(t *testing.T) {
	t.Parallel()
	const in = `{"agent_name": "a", "status": "ok", "final_response": {"content": "Done."}}`
	for field, want := range map[string]string{
		"summary": "Done.", "result": "Done.", "thinkOutput": in, "parameters": in,
	} {
		if got := tree.Readable(field, in); got != want {
			t.Errorf("%s: %s", field, got)
		}
	}
}
