package engine

import (
	"encoding/json"
	"strings"
)

// ReadAnswer decodes the JSON that a model answered with, bare or in a code fence.
func ReadAnswer(text string, to any) error {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "```"); ok {
		_, inner, _ = strings.Cut(inner, "\n")
		text = strings.TrimSuffix(strings.TrimSpace(inner), "```")
	}
	return json.Unmarshal([]byte(text), to)
}
