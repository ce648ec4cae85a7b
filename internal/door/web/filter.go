package web

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
)

// faults is what is wrong with members of a query, by their names.
type faults map[string]string

// readWithout reads what a page shows. Members of the query of the request that are wrong are left out, one after the
// other, and returned with what is wrong with them: the page shows what the others choose. Times that bound a period
// together are left out together: one of them may be wrong without the other.
func readWithout(c echo.Context, read func() error, period ...string) (faults, error) {
	wrong := faults{}
	asked := c.Request().URL.RawQuery
	defer func() { c.Request().URL.RawQuery = asked }()
	for {
		err := read()
		p, _ := httpd.ProblemOf(err)
		query := c.Request().URL.Query()
		if err == nil || p.Status != http.StatusBadRequest || !query.Has(p.Field) {
			return wrong, err
		}

		wrong[p.Field] = p.Detail
		query.Del(p.Field)
		if slices.Contains(period, p.Field) {
			for _, name := range period {
				if p := timeFault(query, name); p != nil {
					wrong[name] = p.Detail
				}
				query.Del(name)
			}
		}

		c.Request().URL.RawQuery = query.Encode()
	}
}

// timeFault says what is wrong with a time of a query by itself; nil: nothing is, or there is none.
func timeFault(query url.Values, name string) *httpd.Problem {
	if !query.Has(name) {
		return nil
	}

	q := httpd.QueryFrom(url.Values{name: query[name]}, name)
	if q.Time(name); q.Err == nil {
		return nil
	}
	p, _ := httpd.ProblemOf(q.Err)
	return p
}

func (f faults) status() int {
	if len(f) > 0 {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// without returns the members of a query that have a value with which nothing is wrong.
func (f faults) without(query url.Values) url.Values {
	clean := withValues(query)
	for name := range f {
		clean.Del(name)
	}
	return clean
}

// withoutField returns what is wrong with members that have no field in the form of the page.
func (f faults) withoutField(fields []string) (all []string) {
	for name, wrong := range f {
		if !slices.Contains(fields, name) {
			all = append(all, wrong)
		}
	}
	slices.Sort(all)
	return all
}

// attributes are those of a field, with which something may be wrong: then it is heard, too.
func (f faults) attributes(name string) templ.Attributes {
	return wrongAttributes(filterID(name), f[name], false)
}

func filterID(name string) string { return "filter-" + name }

// choice is what a field offers, with its word.
type choice struct{ value, word string }
