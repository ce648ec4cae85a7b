package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/internal/view/words"
)

// The lists of rows that may stand in place of a tree.
const (
	showFailures = "failures"
	showSlow     = "slow"
)

const (
	// maxListed is how many rows or texts a list has at once.
	maxListed = 100
	// crumbsAbove and crumbsBelow are how many names of a long path are shown: of its beginning and of its end.
	crumbsAbove = 2
	crumbsBelow = 6
)

// listing is a list of rows in place of the tree.
type listing struct {
	query []string // of its address
	title string
	items []listed
	// note says what is missing, and more is the address of the rest; each may be empty.
	note, more string
}

type listed struct {
	row  int
	why  string // of a failure
	note string // what is special about it: of a slow row, its own time
	hits []store.Hit
}

// listing returns the list for which a request asks; nil: the tree.
func (s *Server) listing(c echo.Context, v *runView) (*listing, error) {
	text, show := c.QueryParam("q"), c.QueryParam("show")
	switch {
	case strings.TrimSpace(text) != "":
		return s.search(c, v, text)
	case show == showFailures:
		return v.failed(c)
	case show == showSlow:
		return v.slowest(), nil
	case show != "":
		return nil, httpd.BadField("show", "must be "+showFailures+" or "+showSlow)
	}
	return nil, nil //nolint:nilnil // no list is an answer
}

// listingFields are what a request for a list may have beside that of a page.
var listingFields = []string{"q", "show", "cursor"}

// pageNames are what a request for a page may have beside them and that of a tree.
var pageNames = slices.Concat(listingFields, lookNames)

// cursor returns the place in a list of which a request asks for the rest.
func cursor(c echo.Context, list string) (*httpd.Cursor, error) {
	q := httpd.KnownQueryOf(c, "cursor")
	return q.Cursor(list), q.Err
}

// search lists the texts of the run that have what was looked for.
func (s *Server) search(c echo.Context, v *runView, text string) (*listing, error) {
	from, err := cursor(c, "search")
	if err != nil {
		return nil, err
	}
	found, err := s.lookup.SearchTree(c, v.Outline, text, from, maxListed)
	if err != nil {
		return nil, err
	}

	l := &listing{query: []string{"q", text}}
	for _, h := range found.Hits {
		if last := len(l.items) - 1; last >= 0 && l.items[last].row == h.Row {
			l.items[last].hits = append(l.items[last].hits, h)
		} else {
			l.items = append(l.items, listed{row: h.Row, hits: []store.Hit{h}})
		}
	}

	quoted := "“" + words.Shorten(text, 80) + "”"
	l.title = words.Plural(int64(len(found.Hits)), "text") + " with " + quoted
	switch none := len(found.Hits) == 0; {
	case none && found.Next != nil:
		l.title = "No text with " + quoted + " so far"
	case none && from != nil:
		l.title = "No more texts with " + quoted
	case none:
		l.title = "No text of this run has " + quoted
	case from != nil:
		l.title += ", further down"
	case found.Next != nil:
		l.title = "The first " + l.title
	}

	if found.Next != nil {
		l.more = v.address("", &v.Rows[v.open], v.fold, append(l.query, "cursor", found.Next.Format("search"))...)
		if found.Incomplete {
			l.note = "Searched " + words.Grouped(int64(found.Searched)) + " of " + words.Grouped(int64(len(v.Rows))) +
				" rows. There was no time for more."
		}
	}
	return l, nil
}

// failed lists what failed, the cause first.
func (v *runView) failed(c echo.Context) (*listing, error) {
	from, err := cursor(c, showFailures)
	if err != nil {
		return nil, err
	}

	first := 0
	if from != nil {
		at, _ := v.Find(from.ID)
		first = max(0, slices.Index(v.Failures, at))
	}

	rest := v.Failures[first:]
	l := &listing{query: []string{"show", showFailures}, title: words.Plural(int64(len(v.Failures)), "failure")}
	for _, row := range rest[:min(len(rest), maxListed)] {
		item := listed{row: row, why: v.why(row)}
		switch {
		case row == v.Cause && v.Found.Recovered:
			item.note = "recovered"
		case row == v.Cause:
			item.note = "cause"
		}
		l.items = append(l.items, item)
	}

	if len(rest) > maxListed {
		next := httpd.Cursor{ID: v.Rows[rest[maxListed]].At}
		l.more = v.address("", &v.Rows[v.open], v.fold, append(l.query, "cursor", next.Format(showFailures))...)
	}
	return l, nil
}

// slowest lists the rows that took longest themselves.
func (v *runView) slowest() *listing {
	rows, took := v.Slowest(v.now)
	l := &listing{
		query: []string{"show", showSlow}, title: "The slowest rows, by their own time",
		note: "Without the time in which something below them went on.",
	}

	if len(rows) == 0 {
		l.title, l.note = "The times of this run are not known", ""
	}
	for _, row := range rows[:min(len(rows), maxListed)] {
		l.items = append(l.items, listed{
			row: row, note: words.Duration(took[row].Round(time.Millisecond)) + " of " + v.lasted(&v.Rows[row]),
		})
	}
	return l
}

// listPath returns the address of a row that keeps the list.
func (v *runView) listPath(l *listing, r *outline.Row) string {
	return v.address("", r, v.fold, l.query...)
}

// listAddress returns the address of a list.
func (v *runView) listAddress(query ...string) string {
	return v.address("", &v.Rows[v.open], v.fold, query...)
}

// shortPath returns the rows from the first one down to a row. Of a long path, those in the middle are left out: how
// many, and before which place.
func (v *runView) shortPath(row int) (path []int, gap, left int) {
	path = v.Path(row)
	if left = len(path) - crumbsAbove - crumbsBelow; left <= 1 {
		return path, -1, 0
	}
	return slices.Delete(path, crumbsAbove, crumbsAbove+left), crumbsAbove, left
}

// fieldName is what a field is called whose text was found.
func fieldName(field string) string {
	return cmp.Or(map[string]string{
		"userRequest": "request", "agentRequest": "request", "thinkInput": "input", "thinkOutput": "answer",
		"errorMessage": "error", "errorKind": "error", "attempts": "earlier attempt",
		"agentName": "agent", "modelName": "model", "actionDescription": "action", "actionResult": "action result",
		"formDescription": "question", "formInputs": "form", "decisionText": "answer",
		"agentDescription": "agent", "agentVersion": "version", "serverName": "server", "finishReason": "finish reason",
	}[field], field)
}

// hitField is what the field of a hit is called, with the kind of a record that is attached to a plan.
func hitField(h *store.Hit) string {
	if h.ID != "" {
		return string(h.Kind) + " " + fieldName(h.Field)
	}
	return fieldName(h.Field)
}

// why says why a row failed. Without a text, it is the kind of the error and what is below the row says; else what is
// above.
func (v *runView) why(row int) string {
	k, m := v.Rows[row].Error()
	kind, message := optional.Value(k), optional.Value(m)
	if strings.TrimSpace(message) != "" {
		return errorText(v.Rows[row].Error())
	}

	reasons := v.below(row)
	if len(reasons) > 0 || kind != "" {
		return strings.TrimPrefix(strings.TrimSuffix(kind+": "+strings.Join(reasons, "; "), ": "), ": ")
	}

	for at := v.Rows[row].Parent; at >= 0; at = v.Rows[at].Parent {
		if text := errorText(v.Rows[at].Error()); text != "" {
			return text
		}
	}
	return "no error was recorded"
}

// below returns what errors the first rows below a row have.
func (v *runView) below(row int) (reasons []string) {
	for i := row + 1; i <= row+v.Rows[row].Below && len(reasons) < 3; i++ {
		if text := errorText(v.Rows[i].Error()); text != "" {
			reasons = append(reasons, rowName(&v.Rows[i])+": "+text)
		}
	}
	return reasons
}

const (
	// maxWhyLines and maxWhyLine bound what a box shows of an error: lines, and characters in each.
	maxWhyLines = 4
	maxWhyLine  = 300
)

// firstLines returns the beginning of a text of many lines. What is left out is marked.
func firstLines(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = words.Shorten(line, maxWhyLine)
		if line == "" {
			continue
		}
		if len(lines) == maxWhyLines {
			lines[maxWhyLines-1] += " …"
			break
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// causeKind is the kind of the error of the cause, else its state.
func (v *runView) causeKind() string {
	return cmp.Or(optional.Value(v.Found.Cause.Kind), strings.ToLower(string(v.Rows[v.Cause].State())))
}

// causeWhy is the kind of the cause with the line of its error that says what happened. Of an error without a text it
// is what was recorded below it.
func (v *runView) causeWhy() string {
	f := v.Found.Cause
	line := cmp.Or(f.Text(), strings.Join(v.below(v.Cause), "; "))
	switch {
	case line != "":
		return v.causeKind() + ": " + line
	case v.Found.Asks() == nil && optional.Value(f.Kind) == "":
		return v.causeKind() + ": no error was recorded"
	}
	return v.causeKind()
}

// causeText is the cause and the way to it, for who copies it.
func (v *runView) causeText() string {
	var path []string
	for _, i := range v.Path(v.Cause) {
		path = append(path, rowName(&v.Rows[i]))
	}

	text := rowName(&v.Rows[v.Cause]) + ": " + v.causeWhy() + "\n" + strings.Join(path, " › ")
	if v.Found.Recovered {
		text = "recovered from " + text
	}
	return text
}

func (v *runView) plans() (n int64) {
	for i := range v.Rows {
		if v.Rows[i].Plan != nil {
			n++
		}
	}
	return n
}

// ids are what the run is known by, with their names.
func (v *runView) ids() (all [][2]string) {
	p := &v.Plan.Record
	add := func(name string, value *string) {
		if value := optional.Value(value); value != "" {
			all = append(all, [2]string{name, value})
		}
	}

	add("plan", &p.CurrentPlanID)
	if p.RootPlanID != p.CurrentPlanID {
		add("root plan", &p.RootPlanID)
	}

	add("name", p.Name)
	add("trace", p.TraceID)
	add("conversation", p.ConversationID)
	add("project", p.Project)
	add("user", p.UserID)
	add("environment", p.Environment)
	add("release", p.Release)
	return all
}

func (v *runView) exportPath() string {
	return "/api/v1/plans/" + url.PathEscape(v.Plan.Record.CurrentPlanID) + "/records?" +
		url.Values{"root": {v.Plan.Record.RootPlanID}}.Encode()
}

// asked returns what is looked for in the run.
func (v *runView) asked() string {
	if v.list != nil && v.list.query[0] == "q" {
		return v.list.query[1]
	}
	return ""
}

func (l *listing) slow() bool { return l.query[0] == "show" && l.query[1] == showSlow }
