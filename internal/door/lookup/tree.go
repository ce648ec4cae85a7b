package lookup

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/view/outline"
)

// TreePage is a page of the texts of a run that have what was looked for, in the order of the tree.
type TreePage struct {
	// Hits are by rows of the outline. What is attached to a plan is by its step, if it names one of the outline, else
	// by the plan.
	Hits []store.Hit
	// Next is the cursor of the next page; nil: this is the last one.
	Next *httpd.Cursor
	// Incomplete says that the time was over before the page was full.
	Incomplete bool
	// Searched is how many rows of the outline were searched, from its beginning.
	Searched int
}

// SearchTree searches the rows of an outline for a text, from a cursor on.
func (l *Lookup) SearchTree(
	c echo.Context, o *outline.Outline, text string, from *httpd.Cursor, limit int,
) (TreePage, error) {
	first, skip := 0, 0
	if from != nil {
		var ok bool
		if first, ok = o.Find(from.ID); !ok {
			return TreePage{}, httpd.BadField("cursor", "must be a nextCursor of this run, as it was given")
		}
		skip = int(from.Number)
	}

	f := store.TreeSearch{
		RootPlanID: o.Plan.Record.RootPlanID, Text: text, Skip: skip, Most: limit, Time: l.config.FindTime,
	}
	for i := range o.Rows[first:] {
		f.Keys = append(f.Keys, o.Rows[first+i].Key())
	}

	done, err := l.TurnToSearch(c.Request().Context(), c)
	if err != nil {
		return TreePage{}, err
	}
	defer done()

	var hits []store.Hit
	var rest *store.Unread
	err = l.Relaxed(c, func(ctx context.Context, r *store.Reader) (err error) {
		hits, rest, err = r.SearchTree(ctx, f)
		return err
	})
	if err != nil {
		return TreePage{}, err
	}

	for i := range hits {
		hits[i].Row += first
		if step, ok := o.Find(outline.At("step", hits[i].StepID)); ok {
			hits[i].Row = step
		}
	}

	out := TreePage{Hits: hits, Searched: len(o.Rows)}
	if rest != nil {
		out.Searched = first + rest.Row
		out.Next = &httpd.Cursor{ID: o.Rows[out.Searched].At, Number: int64(rest.Skip)}
		out.Incomplete = len(hits) < limit
	}
	return out, nil
}
