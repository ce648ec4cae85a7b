package api

import (
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
)

// defaultMaxDepth is how many levels of sub-plans a tree shows if no other number is asked for. A
// level of sub-plans is four of JSON. So the tree can be read by jq 1.6, which takes 256 levels,
// by Python, which takes about 990, and by Go, which takes 10,000.
const defaultMaxDepth = 50

// maxDepthOf reads how many levels of sub-plans a tree may show.
func maxDepthOf(q *httpd.Query) int { return q.Number("maxDepth", defaultMaxDepth, 0, tree.MaxDepth) }

// onceOf reads whether each content is to come once, with references to it.
func onceOf(q *httpd.Query) bool {
	s := q.Text("contents")
	if s != "" && s != "once" {
		q.Err = httpd.BadField("contents", "must be once")
	}
	return s == "once"
}

// sendPage sends a page of a list. next is the place of its last item if others follow.
func sendPage[T any](c echo.Context, name string, items []T, next *store.Position, add func(*object, T)) error {
	return sendTagged(c, func(o *object) { addPage(o, name, items, next, add) })
}

// addPage adds a page of a list. more add members to those that every list has.
func addPage[T any](
	o *object, name string, items []T, next *store.Position, add func(*object, T), more ...func(*object),
) {
	o.b = append(o.b, '{')
	list(o, "items", items, add)

	var cursor *string
	if next != nil {
		cursor = new(httpd.Cursor(*next).Format(name))
	}
	o.text("nextCursor", cursor)
	for _, add := range more {
		add(o)
	}
	o.b = append(o.b, '}')
}
