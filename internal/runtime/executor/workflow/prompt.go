package workflow

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The texts of results, and what runs are called.

func stepFailed(name, why string) string {
	return fmt.Sprintf("Error processing component '%s': %s", name, why)
}

func setupFailed(why string) string { return "Workflow setup error: " + why }

func customFailed(name, why string) string {
	return fmt.Sprintf("Exception during custom workflow '%s' execution: %s", name, why)
}

// titleOf is what a run is called: its request, or of an input that is an object, the workflow and what is in the
// object.
func titleOf(name, request string) string {
	var in map[string]json.RawMessage
	if json.Unmarshal([]byte(request), &in) != nil || in == nil {
		return request
	}

	var texts []string
	for _, member := range slices.Sorted(maps.Keys(in)) {
		if value := in[member]; !strings.Contains("{[n", string(value[:1])) { // it is no object, list or null
			texts = append(texts, member+" "+textOf(value))
		}
	}
	return strings.TrimSuffix(name+": "+strings.Join(texts, ", "), ": ")
}

// textOf returns JSON as an agent reads it: a text as it is.
func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
