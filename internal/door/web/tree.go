package web

import (
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
)

const (
	// sectionRows is how many rows of a tree stand in one section, which browsers lay out only when it is near.
	sectionRows = 100
	// maxFilled is how many rows a tree may have whose sections are all filled from the beginning, and maxUnfolded how
	// many rows under one may have.
	maxFilled   = 2_000
	maxUnfolded = 5_000
	// maxIndent bounds how far to the right a row is drawn. A deeper one says how deep it is.
	maxIndent = 32
)

const maxPatch = 200

// patch answers with rows as they are now, and those above them.
func (s *Server) patch(c echo.Context) error {
	asked := strings.Fields(c.QueryParam("rows"))
	if len(asked) > maxPatch {
		return httpd.BadField("rows", "must be at most "+strconv.Itoa(maxPatch)+" addresses")
	}
	v, err := s.view(c, fresh, "rows")
	if err != nil {
		return err
	}

	var which []int
	for _, at := range asked {
		if row, ok := v.Find(at); ok {
			which = append(which, v.Path(row)...)
		}
	}
	slices.Sort(which)

	if err := s.top(c, v); err != nil {
		return err
	}
	return send(c, http.StatusOK, patch(v, slices.Compact(which)))
}

// before returns the addresses after which a row may stand, the nearest first: the row before it, and what that is
// under, as far as this row is not under it, too.
func (v *runView) before(row int) string {
	var all []string
	for at := row - 1; at >= 0; at = v.Rows[at].Parent {
		all = append(all, v.Rows[at].At)
		if at == v.Rows[row].Parent {
			break
		}
	}
	return strings.Join(all, " ")
}

// rows answers with rows of a run in sections: those under one, or those after one until another, or so many of them.
func (s *Server) rows(c echo.Context) error {
	under := c.QueryParam("under")
	after, until := c.QueryParam("after"), c.QueryParam("until")
	q := httpd.KnownQueryOf(c, "n")
	most := q.Number("n", math.MaxInt, 1, 2*sectionRows)
	if q.Err != nil {
		return q.Err
	}

	old := asPage // not read again for each section
	if under != "" {
		old = asPageIfEnded
	}
	v, err := s.view(c, old, "under", "after", "until", "n")
	if err != nil {
		return err
	}

	if (under == "") != c.QueryParams().Has("after") {
		return httpd.BadField("under",
			"or after must be given: the address of a row of the run; an empty after is its beginning")
	}

	field, at := "after", after
	if under != "" {
		field, at = "under", under
	}
	row, ok := v.Find(at)
	if !ok && at != "" {
		return httpd.BadField(field, "must be the address of a row of the run")
	}

	if under != "" {
		return send(c, http.StatusOK,
			sections(v, v.sections(v.between(row+1, row+v.Rows[row].Below), row, maxUnfolded), false))
	}

	first, last := row+1, len(v.Rows)-1
	if at == "" { // from the beginning
		first = 0
	}
	if end, ok := v.Find(until); ok {
		last = end
	} else if until != "" {
		return httpd.BadField("until", "must be the address of a row of the run")
	}

	// Since the page was made, what the rows are under may have ended, and be folded for others.
	v.folded = v.Folded(v.fold, v.open, row, last)
	if first > row && v.folded[row] {
		first += v.Rows[row].Below
	}
	all := v.between(first, last)
	return send(c, http.StatusOK, sections(v, v.sections(all[:min(most, len(all))], row, 2*sectionRows), false))
}

// tree answers with all sections of a tree.
func (s *Server) tree(c echo.Context) error {
	v, err := s.view(c, fresh)
	if err != nil {
		return err
	}
	return send(c, http.StatusOK, sections(v, v.all(), false))
}

// section is a part of the tree. One of a long tree may be empty: it is filled when it comes near.
type section struct {
	rows  []int
	from  string // where its rows come from; empty: they are there
	level int    // the least of its rows
}

func (v *runView) all() []section { return v.sections(v.between(0, len(v.Rows)-1), -1, maxFilled) }

// between returns the visible rows from one to another.
func (v *runView) between(first, last int) (rows []int) {
	for i := first; i <= last; i++ {
		rows = append(rows, i)
		if v.folded[i] {
			i += v.Rows[i].Below
		}
	}
	return rows
}

// sections returns visible rows that follow one in sections. Of more than a number of rows, only the first section is
// filled, and that of the open row.
func (v *runView) sections(rows []int, after, most int) (all []section) {
	long := len(rows) > most
	for part := range slices.Chunk(rows, sectionRows) {
		s := section{rows: part, level: v.Rows[part[0]].Depth + 1}
		for _, i := range part {
			s.level = min(s.level, v.Rows[i].Depth+1)
		}

		if long && len(all) > 0 && !slices.Contains(part, v.open) {
			more := []string{"after", v.Rows[after].At}
			last := part[len(part)-1]
			end := last
			if v.folded[last] {
				end += v.Rows[last].Below
			}
			if end < len(v.Rows)-1 { // the last section has also what comes later
				more = append(more, "until", v.Rows[last].At)
			}
			s.from = v.address("/rows", &v.Rows[v.open], v.fold, more...)
		}

		all, after = append(all, s), part[len(part)-1]
	}

	return all
}

// target is the address of the page with a section, from its first row on.
func (v *runView) target(s *section) string {
	first := &v.Rows[s.rows[0]]
	return v.path(first) + "#" + url.PathEscape(first.At)
}

// spoken is which rows of the run a section has.
func (v *runView) spoken(s *section) string {
	return "Rows " + strconv.Itoa(s.rows[0]+1) + " to " + strconv.Itoa(s.rows[len(s.rows)-1]+1) + " of " +
		strconv.Itoa(len(v.Rows))
}
