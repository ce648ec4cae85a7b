package flow

import (
	"encoding/json"
	"fmt"
)

// The texts of results.

func noComponent(name string) string { return "No components found with name " + name }

func stepFailed(name, why string) string {
	return fmt.Sprintf("Error processing component '%s': %s", name, why)
}

func setupFailed(why string) string { return "Workflow setup error: " + why }

func customFailed(name, why string) string {
	return fmt.Sprintf("Exception during custom workflow '%s' execution: %s", name, why)
}

// TextOf returns JSON as an agent reads it: a text as it is.
func TextOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
