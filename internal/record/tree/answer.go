package tree

import (
	"encoding/json"
	"strings"

	"github.com/actlog/actlog/internal/record/loosejson"
)

// envelope is what executor workflow returns to programs: the result of an agent or of a workflow, with all that was
// said on the way.
type envelope struct {
	AgentName     *string         `json:"agent_name"`
	WorkflowName  *string         `json:"workflow_name"`
	FinalResponse json.RawMessage `json:"final_response"`
	StepResults   json.RawMessage `json:"step_results"`
	FinalOutput   json.RawMessage `json:"final_output"`
	ErrorMessage  *string         `json:"error_message"`
	Error         *string         `json:"error"`
}

// maxEnvelopes bounds how many envelopes are in each other: the output of a workflow may be the result of an agent.
const maxEnvelopes = 10

// Answer returns the answer in the result of a run, for people to read: a result of executor workflow is an envelope
// around it. Any other text is the answer itself. It is empty if an envelope has none, then it is the error in it, if
// there is one. Of the beginning of a longer envelope it returns what of the answer is in there: that of an agent is at
// the beginning, that of a workflow behind its steps.
func Answer(result string) string {
	for range maxEnvelopes {
		inner, ok := open(result)
		if !ok {
			break
		}
		result = inner
	}
	return result
}

// Readable returns the text of a field as people read it: what a run, a step or a call answered, without the envelope
// in which programs get it, and any other as it is.
func Readable(field, text string) string {
	if field == "summary" || field == "result" {
		return Answer(text)
	}
	return text
}

// open takes a text out of its envelope. ok is false if it is in none.
func open(text string) (inner string, ok bool) {
	if !isEnvelope(text) {
		return text, false
	}

	var e envelope
	if json.Unmarshal([]byte(text), &e) != nil {
		whole, isCut := loosejson.Complete(text)
		if !isCut || json.Unmarshal([]byte(whole), &e) != nil {
			return text, false
		}
	}

	var message struct {
		Content *string `json:"content"`
	}
	hasAnswer := strings.Contains(text, `"final_response"`) // it may be cut within that member
	switch {
	case !hasAnswer && e.FinalOutput == nil && e.StepResults == nil:
		return text, false
	case e.AgentName != nil && json.Unmarshal(e.FinalResponse, &message) == nil && message.Content != nil:
		return *message.Content, true
	case e.WorkflowName != nil && len(e.FinalOutput) > 0 && string(e.FinalOutput) != "null":
		return asText(e.FinalOutput), true
	case e.ErrorMessage != nil:
		return *e.ErrorMessage, true
	case e.Error != nil:
		return *e.Error, true
	}
	return "", true
}

// isEnvelope reports whether a text begins as an envelope does: with the name of an agent or of a workflow, and a
// status.
func isEnvelope(text string) bool {
	d := json.NewDecoder(strings.NewReader(text))
	for i, want := range []string{"{", "name", "", "status"} {
		t, err := d.Token()
		if err != nil {
			return false
		}

		switch v := t.(type) {
		case json.Delim:
			if i != 0 || v != '{' {
				return false
			}
		case string:
			if i == 0 || want == "name" && v != "agent_name" && v != "workflow_name" || want == "status" && v != want {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// asText returns JSON as it is read: a text as it is.
func asText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
