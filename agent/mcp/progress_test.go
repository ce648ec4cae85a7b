package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/actlog/actlog/agent/mcp"
	"github.com/actlog/actlog/agent/tool"
)

// A server says how far a call has come. What it says of calls that are none of this session is nothing, and neither
// are its notifications of what it was not asked for.
func TestProgress(t *testing.T) {
	t.Parallel()
	s := newServer()
	reported := make(chan string, 10)

	s.AddTool(&sdk.Tool{Name: "work", InputSchema: anyObject},
		func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			for _, p := range []sdk.ProgressNotificationParams{
				{ProgressToken: "another", Progress: 9, Message: "not mine"},
				{ProgressToken: 1, Progress: 9, Message: "a number"},
				{ProgressToken: r.Params.GetProgressToken(), Progress: 1},
				{ProgressToken: r.Params.GetProgressToken(), Progress: 2, Total: 3, Message: "counting"},
			} {
				if err := r.Session.NotifyProgress(ctx, &p); err != nil {
					return nil, err
				}
			}

			text := fmt.Sprint([]string{<-reported, <-reported})
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
		})
	served := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(func() {
		served.CloseClientConnections()
		served.Close()
		for each := range s.Sessions() {
			each.Close()
		}
	})

	set := tools(t, newPool(t, mcp.Options{}), "web", mcp.Server{URL: served.URL})
	var said []string
	ctx := tool.ContextWithProgress(t.Context(), func(done, total float64, message string) {
		said = append(said, fmt.Sprint(done, "/", total, " ", message))
		reported <- message
	})
	if r, err := call(ctx, t, set, "web-work", tool.Call{}); err != nil || r.Text != "[ counting]" ||
		!slices.Equal(said, []string{"1/0 ", "2/3 counting"}) {
		t.Errorf("%q, %+v, %v", said, r, err)
	}
}
