package runapi

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/catalog"
)

// itemsJSON is a list that is served whole.
type itemsJSON struct {
	Items any `json:"items"`
}

type toolsJSON struct {
	Items      []catalog.Tool   `json:"items"`
	MCPServers []catalog.Server `json:"mcpServers"`
}

// runnable serves a list of what can be run.
func (s *Server) runnable(read func(context.Context, Runnable) (any, error)) echo.HandlerFunc {
	return func(c echo.Context) error {
		if q := httpd.QueryOf(c); q.Err != nil {
			return q.Err
		}
		out, err := read(c.Request().Context(), s.config.Runnable)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, out)
	}
}

func readAgents(ctx context.Context, r Runnable) (any, error) {
	all, err := r.Agents(ctx)
	return itemsJSON{all}, err
}

func readTools(ctx context.Context, r Runnable) (any, error) {
	tools, servers, err := r.Tools(ctx)
	return toolsJSON{tools, servers}, err
}

func readModels(ctx context.Context, r Runnable) (any, error) {
	all, err := r.Models(ctx)
	return itemsJSON{all}, err
}

func readExecutors(ctx context.Context, r Runnable) (any, error) {
	all, err := r.Executors(ctx)
	return itemsJSON{all}, err
}
