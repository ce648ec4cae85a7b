package openai

import (
	"encoding/json"
	"slices"
	"strings"
)

// object is a JSON object that arrives in pieces.
type object map[string]any

// growing is a text that arrives in pieces.
type growing struct{ strings.Builder }

// MarshalJSON implements [json.Marshaler].
func (g *growing) MarshalJSON() ([]byte, error) { return json.Marshal(g.String()) }

// whole are the fields whose text comes in one piece. Some servers repeat it.
var whole = []string{"role", "id", "type", "name", "format"}

// text returns a field that is a text, or "".
func (o object) text(key string) string {
	if g, ok := o[key].(*growing); ok {
		return g.String()
	}
	return ""
}

func (o object) set(key, text string) {
	g := new(growing)
	g.WriteString(text)
	o[key] = g
}

// merge adds a piece. It reports false if the piece does not fit what came before.
func (o object) merge(piece map[string]any) bool {
	for key, value := range piece {
		switch value := value.(type) {
		case nil:
		case string:
			if o[key] == nil {
				o.set(key, value)
				continue
			}

			g, ok := o[key].(*growing)
			switch {
			case !ok:
				return false
			case !slices.Contains(whole, key) || g.Len() == 0:
				g.WriteString(value)
			}

		case map[string]any:
			if o[key] == nil {
				o[key] = object{}
			}
			if below, ok := o[key].(object); !ok || !below.merge(value) {
				return false
			}

		case []any:
			list, ok := o[key].([]any)
			if !ok && o[key] != nil {
				return false
			}
			for _, one := range value {
				if list, ok = mergeInto(list, one); !ok {
					return false
				}
			}
			o[key] = list

		default: // a number or a bool
			o[key] = value
		}
	}
	return true
}

const maxList = 10_000

// mergeInto merges a streamed piece into the element of list that it continues, or appends it. ok is false if the list
// is full or the types contradict.
func mergeInto(list []any, piece any) (merged []any, ok bool) {
	if len(list) == maxList {
		return list, false
	}

	more, ok := piece.(map[string]any)
	if !ok {
		return append(list, piece), true
	}

	// A piece with an index may continue any element, one without only the last.
	_, numbered := more["index"].(json.Number)
	for i := len(list) - 1; i >= 0 && (numbered || i == len(list)-1); i-- {
		if o, ok := list[i].(object); ok && o.continues(more) {
			return list, o.merge(more)
		}
	}
	o := object{}
	return append(list, o), o.merge(more)
}

// continues reports whether a piece of a list belongs to o: it has the same index, or none while o is the
// last. Some servers send all tool calls with one index. Then a call that has another id and a name is
// another call.
func (o object) continues(piece map[string]any) bool {
	index, numbered := piece["index"].(json.Number)
	if numbered && o["index"] != index {
		return false
	}

	id, _ := piece["id"].(string)
	kind, _ := piece["type"].(string)
	f, _ := piece["function"].(map[string]any)
	name, _ := f["name"].(string)
	switch {
	case kind != "" && o.text("type") != "" && kind != o.text("type"):
		return false
	case id == "":
		return numbered || name == ""
	case id == o.text("id"):
		return true
	}
	return numbered && name == ""
}
