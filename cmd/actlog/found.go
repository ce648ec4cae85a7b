package main

import (
	"context"
	"net/url"
	"strings"

	"github.com/actlog/actlog/internal/view/words"
)

// foundView is a page of the texts of a run that have what was looked for.
type foundView struct {
	Items []struct {
		placeView
		State, Field, Before, Match, After string
	}
	NextCursor     string
	Searched, Rows int64
}

// showFound shows where a plan, or something below it, says a text.
func (c *showCmd) showFound(ctx context.Context, e *env, client *client, view *view, query url.Values) error {
	query.Set("q", c.Search)
	query.Set("limit", "500")
	path := planPath(c.Plan) + "/search"
	if c.JSON {
		return client.print(ctx, e.stdout, named("plan", c.Plan), withQuery(path, query))
	}

	for {
		var f foundView
		if err := client.get(ctx, named("plan", c.Plan), withQuery(path, query), &f); err != nil {
			return err
		}
		view.found(&f)
		if f.NextCursor == "" || view.err != nil {
			return view.err
		}
		query.Set("cursor", f.NextCursor)
	}
}

// found draws texts that have what was looked for.
func (v *view) found(f *foundView) {
	at := ""
	for i := range f.Items {
		hit := &f.Items[i]
		if hit.At != at {
			at = hit.At
			v.line("", v.bold(hit.name()), v.state(hit.State))
			v.line("  ", v.faint("at "+hit.At))
		}
		v.line("  ", v.faint(hit.Field+":")+" "+clean(hit.Before)+v.bold(hit.Match)+clean(hit.After))
	}
}

// clean returns a piece of a line that is safe for a terminal, with the spaces at its ends.
func clean(s string) string {
	out := words.Clean(s)
	if out != "" && strings.HasPrefix(s, " ") {
		out = " " + out
	}
	if strings.HasSuffix(s, " ") {
		out += " "
	}
	return out
}
