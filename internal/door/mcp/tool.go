package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/labstack/echo/v4"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/record"
)

const (
	// maxAnswer is about how many bytes of JSON an answer has at most.
	maxAnswer = 64 << 10
	// maxItems is how many of them the items of a list may have.
	maxItems = 56 << 10
	// maxAddress bounds the address of a row, which has up to two ids with escapes.
	maxAddress = 2_000
)

// limits are those of a number, and the value that it has by default; of a text, only max counts: its length.
type limits struct{ min, max, def int }

// requestKey is the key of the request that brought a call, in the context of the call.
type requestKey struct{}

// addTool adds a tool. Its arguments are the members of In; a text without limits has at most as many characters as an
// id. The error of do is shown to the model, which can correct its mistakes.
func addTool[In any](
	s *Server, to *sdk.Server, name, title, description string, bounds map[string]limits,
	do func(echo.Context, In) (any, error),
) {
	tool := &sdk.Tool{
		Name: name, Title: title, Description: description, InputSchema: inputSchema[In](bounds),
		Annotations: &sdk.ToolAnnotations{
			Title: title, ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: new(false), OpenWorldHint: new(false),
		},
	}
	sdk.AddTool(to, tool, func(
		ctx context.Context, _ *sdk.CallToolRequest, in In,
	) (result *sdk.CallToolResult, out any, err error) {
		defer s.server.Recover(&err, "tool", name)
		c, ok := ctx.Value(requestKey{}).(echo.Context)
		if !ok {
			return nil, nil, errors.New("a call came without a request")
		}
		if out, err = do(c, in); err != nil {
			return nil, nil, s.refusal(name, err)
		}

		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false) // a model reads it, not a browser
		if err := e.Encode(out); err != nil {
			return nil, nil, s.refusal(name, err)
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.TrimSpace(text.String())}}}, out, nil
	})
}

func inputSchema[In any](bounds map[string]limits) *jsonschema.Schema {
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		panic(err) // the tags of In are wrong
	}

	for name, p := range schema.Properties {
		if p.Type == "" { // a pointer makes it optional: it may be left out, but not null
			p.Type, p.Types = p.Types[len(p.Types)-1], nil
		}

		b, bounded := bounds[name]
		switch {
		case p.Type == "string":
			p.MaxLength = new(record.MaxIDBytes)
			if bounded {
				p.MaxLength = new(b.max)
			}
			if slices.Contains(schema.Required, name) { // an empty optional text is the same as none
				p.MinLength = new(1)
			}
		case bounded:
			p.Minimum, p.Maximum = new(float64(b.min)), new(float64(b.max))
			if b.def != 0 {
				p.Default = json.RawMessage(fmt.Sprint(b.def))
			}
		}
	}
	return schema
}

// refusal returns an error as a model sees it. A cause that clients do not see is logged.
func (s *Server) refusal(tool string, err error) error {
	p, known := httpd.ProblemOf(err)
	if !known {
		s.log.Error("a tool failed", "tool", tool, "error", err)
	}

	text := p.Detail
	if p.RetryAfter > 0 {
		text += fmt.Sprintf(" (try again in %d s)", p.RetryAfter)
	}
	return errors.New(text)
}

// room is how many bytes of an answer are left.
type room int

// take reports whether there is room for a value, and takes it.
func (r *room) take(v any) bool {
	text, err := json.Marshal(v)
	if err != nil || len(text) > int(*r) {
		return false
	}
	*r -= room(len(text))
	return true
}

// cursorOf reads the cursor of a list; nil: there is none.
func cursorOf(text, list string) (*httpd.Cursor, error) {
	q := httpd.QueryFrom(map[string][]string{"cursor": {text}}, "cursor")
	return q.Cursor(list), q.Err
}
