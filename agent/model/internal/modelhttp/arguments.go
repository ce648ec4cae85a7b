package modelhttp

import "encoding/json"

// Arguments returns the arguments of a tool call as a JSON object, because servers refuse conversations
// with others. What a model wrote wrongly is kept as a text within an object.
func Arguments(written string) string {
	var object map[string]json.RawMessage
	switch err := json.Unmarshal([]byte(written), &object); {
	case written == "":
		return "{}"
	case err == nil && object != nil:
		return written
	}

	wrapped, _ := json.Marshal(map[string]string{"INVALID_JSON": written}) // cannot fail: texts
	return string(wrapped)
}
