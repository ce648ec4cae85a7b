package mcp

import (
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

// resultOf returns what a server answered as a result for a model. Pictures, sounds and binary
// resources are described, not shown.
func resultOf(r *sdk.CallToolResult) tool.Result {
	result := tool.Result{Failed: r.IsError}
	var parts []string
	for _, c := range r.Content {
		text, source := readContent(c)
		if text != "" {
			parts = append(parts, text)
		}
		if source != nil {
			result.Sources = append(result.Sources, *source)
		}
	}
	if content := contentOf(r); content != nil {
		result.Data = content
		if len(parts) == 0 {
			parts = append(parts, string(content))
		}
	}

	if result.Text = strings.Join(parts, "\n\n"); result.Text == "" {
		result.Text = "Tool returned no output."
	}
	return result
}

const maxSnippet = 500

func readContent(c sdk.Content) (string, *tool.Source) {
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text, nil
	case *sdk.ImageContent:
		return fmt.Sprintf("[image, %s, %d bytes]", c.MIMEType, len(c.Data)), nil
	case *sdk.AudioContent:
		return fmt.Sprintf("[audio, %s, %d bytes]", c.MIMEType, len(c.Data)), nil

	case *sdk.ResourceLink:
		text := fmt.Sprintf("[resource %s at %s]", c.Name, c.URI)
		if c.Description != "" {
			text += "\n" + c.Description
		}
		return text, &tool.Source{URI: c.URI, Type: sourceType(c.URI), Description: tool.Cut(c.Description, maxSnippet)}

	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return "", nil
		}
		source := &tool.Source{
			URI: c.Resource.URI, Type: sourceType(c.Resource.URI), Snippet: tool.Cut(c.Resource.Text, maxSnippet),
		}
		if c.Resource.Text == "" && len(c.Resource.Blob) > 0 {
			return fmt.Sprintf("[resource at %s, %s, %d bytes]", c.Resource.URI, c.Resource.MIMEType, len(c.Resource.Blob)),
				source
		}
		return fmt.Sprintf("[resource at %s]\n%s", c.Resource.URI, c.Resource.Text), source
	}
	return fmt.Sprintf("[content of a kind that is not known: %T]", c), nil
}

func sourceType(uri string) record.SourceType {
	switch scheme, _, _ := strings.Cut(uri, ":"); scheme {
	case "http", "https":
		return record.SourceURL
	case "file":
		return record.SourceFile
	}
	return record.SourceDocumentation
}
