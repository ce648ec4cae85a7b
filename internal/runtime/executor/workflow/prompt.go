package workflow

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/runtime/executor/workflow/flow"
)

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
			texts = append(texts, member+" "+flow.TextOf(value))
		}
	}
	return strings.TrimSuffix(name+": "+strings.Join(texts, ", "), ": ")
}
