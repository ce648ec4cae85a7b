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
func (s *Server) runnable(read func(context.Context, *catalog.Catalog) (any, error)) echo.HandlerFunc {
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

// items reads a list that is served whole.
func items[T any](
	read func(*catalog.Catalog, context.Context) ([]T, error),
) func(context.Context, *catalog.Catalog) (any, error) {
	return func(ctx context.Context, from *catalog.Catalog) (any, error) {
		if from == nil {
			return itemsJSON{[]T{}}, nil
		}
		all, err := read(from, ctx)
		return itemsJSON{all}, err
	}
}

func readTools(ctx context.Context, from *catalog.Catalog) (any, error) {
	if from == nil {
		return toolsJSON{[]catalog.Tool{}, []catalog.Server{}}, nil
	}
	tools, servers, err := from.Tools(ctx)
	return toolsJSON{tools, servers}, err
}
