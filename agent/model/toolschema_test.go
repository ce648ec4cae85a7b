package model_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/model"
)

const anyObject = `{"type":"object","properties":{}}`

// What providers refuse at the top of a tool's schema is folded into it; all else stays.
func TestOfferedSchema(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, schema, want string }{
		{
			"fine", `{ "type": "object", "properties": {"z":{"anyOf":[{"type":"string"},{"type":"null"}]},"a":{"$ref":"#/$defs/A","maximum":9007199254740993}}, "$defs":{"A":{"enum":[1.10]}}, "if":{} }`, "",
		},
		{"none", ``, anyObject},
		{"a text", `"object"`, anyObject},
		{"everything", `true`, anyObject},
		{"empty", `{}`, anyObject},
		{"no properties", `{"type":"object"}`, anyObject},
		{"properties of another shape", `{"type":"object","properties":null}`, anyObject},
		{"no type", `{"properties":{"a":{}}}`, `{"properties":{"a":{}},"type":"object"}`},
		{"two types", `{"type":["object","null"],"properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}}}`},
		{"either is required", `{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
			`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}}}`},
		{"required by all", `{"oneOf":[{"type":"object","properties":{"kind":{"const":"x"},"x":{}},"required":["kind","x"]},{"type":"null"},{"properties":{"kind":{"const":"y"}},"required":["kind"]}],"required":["id"]}`,
			`{"required":["id","kind"],"properties":{"kind":{"anyOf":[{"const":"x"},{"const":"y"}]},"x":{}},"type":"object"}`},
		{"all hold", `{"allOf":[{"properties":{"a":{}},"required":["a"]},{"$ref":"#/$defs/B"},{"allOf":[{"required":["c"],"properties":{"c":{}}}]}],"$defs":{"B":{"properties":{"b":{}},"required":["b"],"additionalProperties":false}}}`,
			`{"$defs":{"B":{"properties":{"b":{}},"required":["b"],"additionalProperties":false}},"properties":{"a":{},"b":{},"c":{}},"required":["a","b","c"],"additionalProperties":false,"type":"object"}`},
		{"reference", `{"$ref":"#/definitions/a~1b","definitions":{"a/b":{"type":"object","description":"d","properties":{"a":{"$ref":"#/definitions/c"}}},"c":{}}}`,
			`{"definitions":{"a/b":{"type":"object","description":"d","properties":{"a":{"$ref":"#/definitions/c"}}},"c":{}},"type":"object","description":"d","properties":{"a":{"$ref":"#/definitions/c"}}}`},
		{"reference to elsewhere", `{"$ref":"https://example.com/schema.json"}`, anyObject},
		{"reference to itself", `{"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/A"}}}`, anyObject},
		{"reference to a choice", `{"anyOf":[{"properties":{"a":{}}}],"properties":{"b":{"$ref":"#/anyOf/0"}}}`, anyObject},
		{"enum and not", `{"type":"object","properties":{"a":{"enum":[1],"not":{}}},"enum":[{"a":1}],"not":{"required":["b"]}}`,
			`{"type":"object","properties":{"a":{"enum":[1],"not":{}}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.want == "" {
				tt.want = tt.schema
			}
			if got := string(model.OfferedSchema(json.RawMessage(tt.schema))); got != tt.want {
				t.Errorf("string:\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

// A server can write schemas that refer to each other many times over.
func TestOfferedSchemaIsBounded(t *testing.T) {
	t.Parallel()
	var definitions []string
	for i := range 30 {
		definitions = append(definitions,
			fmt.Sprintf(`"d%d":{"properties":{"p%d":{}},"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i, i+1,
				i+1))
	}
	schema := `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(definitions, ",") + `}}`

	if got := string(model.OfferedSchema(json.RawMessage(schema))); got != `{"type":"object","properties":{}}` {
		t.Errorf("got %d bytes, want any object: %.200s", len(got), got)
	}
}

// What is offered has the form that providers accept, whatever a server wrote.
func FuzzOfferedSchema(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"type":"object","anyOf":[{"$ref":"#"}]}`, `{"$ref":"#/a/b","a":{"b":{"oneOf":[{"enum":[1]}]}}}`,
		`{"allOf":[{"allOf":[{}]}],"required":"x","properties":{"a":1},"type":[]}`, `{"a":1,"a":2}`, anyObject + `x`,
		"{\"\\ud800\":1}",
	} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, schema []byte) {
		if !json.Valid(schema) {
			return
		}

		var offered map[string]json.RawMessage
		text := model.OfferedSchema(schema)
		if err := json.Unmarshal(text, &offered); err != nil {
			t.Fatalf("%s: %v", text, err)
		}

		var properties map[string]any
		if string(offered["type"]) != `"object"` || json.Unmarshal(offered["properties"], &properties) != nil ||
			properties == nil {
			t.Errorf("no object with properties: %s", text)
		}
		for _, name := range []string{"anyOf", "oneOf", "allOf", "enum", "not"} {
			if offered[name] != nil {
				t.Errorf("%s at the top: %s", name, text)
			}
		}
	})
}
