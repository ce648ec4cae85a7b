package mcp

import (
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// exact returns a message of a server in the form in which the SDK leaves alone what must stay as it was sent:
// the structured content of a result, and the schemas of tools, see [contentOf] and [schemaText]. The SDK would
// decode them into Go values, which changes large numbers and the order of keys, and refuses a message for a
// number that is too large. Any other text is returned as it is.
func exact(message []byte) []byte {
	var batch []json.RawMessage
	if json.Unmarshal(message, &batch) != nil {
		return exactResponse(message)
	}

	for i := range batch {
		batch[i] = exactResponse(batch[i])
	}
	return encoded(batch, message)
}

func exactResponse(message []byte) []byte {
	var response, result map[string]json.RawMessage
	if json.Unmarshal(message, &response) != nil || json.Unmarshal(response["result"], &result) != nil {
		return message
	}

	var tools []json.RawMessage
	_ = json.Unmarshal(result["tools"], &tools) // other results have none
	switch content := result["structuredContent"]; {
	case content != nil && string(content) != "null":
		result["structuredContent"] = encoded(string(content), content)
	case len(tools) > 0:
		for i := range tools {
			tools[i] = exactTool(tools[i])
		}
		result["tools"] = encoded(tools, result["tools"])
	default:
		return message
	}

	response["result"] = encoded(result, response["result"])
	return encoded(response, message)
}

// contentOf returns the structured content of a result as the server wrote it; nil if there is none.
func contentOf(r *sdk.CallToolResult) json.RawMessage {
	text, ok := r.StructuredContent.(string)
	if !ok {
		return nil
	}
	return json.RawMessage(text)
}

// schemaKey is the member of a tool's _meta with the text of its input schema. The SDK needs the schema as well.
const schemaKey = "actlog/inputSchema"

func exactTool(tool json.RawMessage) json.RawMessage {
	var members, meta map[string]json.RawMessage
	if json.Unmarshal(tool, &members) != nil || members["inputSchema"] == nil {
		return tool
	}
	if members["_meta"] != nil && json.Unmarshal(members["_meta"], &meta) != nil {
		return tool
	}
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}

	schema := members["inputSchema"]
	meta[schemaKey] = encoded(string(schema), nil)
	members["_meta"] = encoded(meta, members["_meta"])
	delete(members, "outputSchema") // nobody reads it

	var decoded any
	if json.Unmarshal(schema, &decoded) != nil { // a number that is too large
		members["inputSchema"] = json.RawMessage(`{}`)
	}
	return encoded(members, tool)
}

// schemaText returns the input schema of a tool as the server wrote it; nil if there is none.
func schemaText(t *sdk.Tool) json.RawMessage {
	text, ok := t.Meta[schemaKey].(string)
	if !ok {
		return nil
	}
	return json.RawMessage(text)
}

func encoded(value any, otherwise json.RawMessage) json.RawMessage {
	b, err := json.Marshal(value)
	if err != nil {
		return otherwise
	}
	return b
}
