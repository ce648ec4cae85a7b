package web

import (
	"cmp"
	"errors"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/web/compare"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

const (
	// maxCompared is how many lines of a comparison stand on one page.
	maxCompared = 1_000
	// readTexts is how long the texts of each run may be read.
	readTexts = 15 * time.Second
)

type asking struct {
	a, b  string
	wrong faults // with what was asked
}

// compareView is two runs side by side.
type compareView struct {
	a, b  *runView
	pairs []compare.Pair
	open  int // the pair whose texts are compared
	lost  string
	equal bool // pairs without a difference are shown, too
	from  int  // the first line of the page
	lines []compareLine
	more  bool // lines follow
	texts []textPair
	// differences is how many pairs differ, and number which of them is open, from 1; 0: none.
	differences, number int
	unread              bool   // not all texts were compared
	wrong               faults // with members of the query, which are left out
}

// compareLine is a pair, or pairs that follow each other without a difference.
type compareLine struct {
	*compare.Pair
	row   int
	equal int // how many such pairs; 0: the line is one pair
}

type textPair struct {
	name  string
	lines []compare.Line // nil: both are the same
	size  string         // of what is the same
	cut   bool           // only the beginnings were compared
}

func (s *Server) compare(c echo.Context) error {
	v := &compareView{}
	at := ""
	wrong, err := readWithout(c, func() (err error) {
		q := httpd.QueryOf(c, "a", "b", "at", "equal", "from")
		at, v.equal = q.Text("at"), q.Flag("equal")
		v.from = -1
		if from := q.Text("from"); from != "" {
			if v.from, err = strconv.Atoi(from); err != nil || v.from < 0 {
				q.Err = httpd.BadField("from", "must be a number of lines")
			}
		}
		return q.Err
	})
	if err != nil {
		return err
	}
	v.wrong = wrong

	a, b := strings.TrimSpace(c.QueryParam("a")), strings.TrimSpace(c.QueryParam("b"))
	switch {
	case a == "" || b == "" || wrong["a"] != "" || wrong["b"] != "":
		return send(c, wrong.status(), comparePicker(asking{a, b, wrong}))
	case a == b:
		return send(c, http.StatusBadRequest, comparePicker(asking{a, b, faults{"b": "Both are the same run."}}))
	}

	for _, side := range []struct {
		name, id string
		to       **runView
	}{{"a", a, &v.a}, {"b", b, &v.b}} {
		o, err := s.outline(c, "", side.id, asPageIfEnded)
		switch {
		case errors.Is(err, record.ErrNotFound):
			status := http.StatusNotFound
			if len(wrong) > 0 {
				status = wrong.status()
			}
			wrong[side.name] = "There is no run " + words.Shorten(side.id, 200) + "."
			return send(c, status, comparePicker(asking{a, b, wrong}))
		case err != nil:
			return err
		}

		// The outline belongs to those that are kept, which have a bound of their own: each run may have as many rows as its
		// own page.
		httpd.AnswerTo(c).Release()
		*side.to = &runView{Outline: o, now: s.now()}
	}

	if err := s.align(c, v, at); err != nil {
		return err
	}
	return send(c, wrong.status(), comparePage(v))
}

// align pairs the rows of the runs, and opens one pair.
func (s *Server) align(c echo.Context, v *compareView, at string) error {
	reader := s.lookup.Reader(c)
	var sides [2]compare.Side
	for i, of := range []*runView{v.a, v.b} {
		sums, err := reader.Sums(c.Request().Context(), of.Plan.Record.RootPlanID, readTexts)
		if err != nil {
			return err
		}
		sides[i] = compare.Side{Outline: of.Outline, Sums: sums.Of}
	}

	v.pairs = compare.Align(sides[0], sides[1])
	v.find(at)
	for i := range v.pairs {
		p := &v.pairs[i]
		if p.Different() {
			v.differences++
			if i == v.open {
				v.number = v.differences
			}
		}
		v.unread = v.unread || p.Unread
	}

	v.lay()
	return s.texts(c, reader, v)
}

// find opens the pair of an address; if there is none, the first one that differs and under which nothing does.
func (v *compareView) find(at string) {
	for i := range v.pairs {
		if at != "" && v.at(&v.pairs[i]) == at {
			v.open = i
			return
		}
	}

	v.lost = at
	v.open = max(0, slices.IndexFunc(v.pairs, func(p compare.Pair) bool { return p.Different() && p.Inside == 0 }))
}

// lay decides which pairs are shown: those that differ, what they are under, and the open one. The others are counted.
// If no line is asked for, the page begins with the thousand that has the open pair.
func (v *compareView) lay() {
	at := 0
	for i := 0; i < len(v.pairs); i++ {
		p := &v.pairs[i]
		line := compareLine{Pair: p, row: i}
		if i == v.open {
			at = len(v.lines)
		}

		if !v.equal && !p.Different() && p.Inside == 0 && (v.open < i || v.open > i+p.Below) {
			line.equal = p.Below + 1
			i += p.Below
			if last := len(v.lines) - 1; last >= 0 && v.lines[last].equal > 0 && v.lines[last].Depth == p.Depth {
				v.lines[last].equal += line.equal
				continue
			}
		}
		v.lines = append(v.lines, line)
	}

	if v.from < 0 {
		v.from = at / maxCompared * maxCompared
	}
	v.lines = v.lines[min(v.from, len(v.lines)):]
	if v.more = len(v.lines) > maxCompared; v.more {
		v.lines = v.lines[:maxCompared]
	}
}

func (s *Server) texts(c echo.Context, reader *store.Reader, v *compareView) error {
	p := &v.pairs[v.open]
	if p.A < 0 || p.B < 0 {
		return nil
	}

	var rows [2]record.Change
	for i, r := range []*outline.Row{v.rowA(p), v.rowB(p)} {
		d, err := reader.Detail(c.Request().Context(), r.Key())
		if err != nil {
			return err
		}
		rows[i] = d.Record
	}

	for _, f := range store.Summed(rows[0].Kind()) {
		a, _ := f.Text(rows[0])
		b, _ := f.Text(rows[1])
		a, b = tree.Readable(f.Name, a), tree.Readable(f.Name, b)
		if a == "" && b == "" {
			continue
		}

		t := textPair{name: textWord(f.Name), size: size(a)}
		if a != b {
			t.cut = len(a) > maxShown || len(b) > maxShown
			t.lines = compare.Lines(field.Shorten(indent(a, maxShown), maxShown), field.Shorten(indent(b, maxShown), maxShown))
		}
		v.texts = append(v.texts, t)
	}
	return nil
}

func textWord(field string) string {
	return cmp.Or(map[string]string{
		"errorMessage": "error", "userRequest": "goal", "agentRequest": "goal", "thinkInput": "input",
		"thinkOutput": "answer", "decision": "answer", "formDescription": "question", "decisionText": "remark",
	}[field], field)
}

func (v *compareView) rowA(p *compare.Pair) *outline.Row { return rowOf(v.a, p.A) }
func (v *compareView) rowB(p *compare.Pair) *outline.Row { return rowOf(v.b, p.B) }

// rowOf returns a row of a run; nil: it has none.
func rowOf(of *runView, at int) *outline.Row {
	if at < 0 {
		return nil
	}
	return &of.Rows[at]
}

// at returns the address of a pair: that of its row in the first run that has it.
func (v *compareView) at(p *compare.Pair) string {
	if p.A >= 0 {
		return "a:" + v.a.Rows[p.A].At
	}
	return "b:" + v.b.Rows[p.B].At
}

// comparePath returns the address of the page that compares two runs.
func comparePath(a, b string) string { return "/compare?" + url.Values{"a": {a}, "b": {b}}.Encode() }

func (v *compareView) path(p *compare.Pair) string { return v.address(p, v.equal, -1) }

// address returns the address of the page with a pair, from a line on; -1: where the pair is.
func (v *compareView) address(p *compare.Pair, equal bool, from int) string {
	q := url.Values{"a": {v.a.Plan.Record.CurrentPlanID}, "b": {v.b.Plan.Record.CurrentPlanID}, "at": {v.at(p)}}
	if equal {
		q.Set("equal", "true")
	}
	if from >= 0 {
		q.Set("from", strconv.Itoa(from))
	}
	return "/compare?" + q.Encode()
}

// step returns the address of the next pair that differs, or of the one before. It comes round again.
func (v *compareView) step(by int) string {
	for i := 1; i <= len(v.pairs); i++ {
		p := &v.pairs[(v.open+by*i+len(v.pairs)*i)%len(v.pairs)]
		if p.Different() {
			return v.path(p)
		}
	}
	return v.path(&v.pairs[v.open])
}

func (v *compareView) count() string {
	switch {
	case v.differences == 0:
		return "no difference"
	case v.number > 0:
		return strconv.Itoa(v.number) + " of " + words.Plural(int64(v.differences), "difference")
	}
	return words.Plural(int64(v.differences), "difference")
}

// describe returns the text about what differs in a pair.
func (v *compareView) describe(p *compare.Pair) string {
	switch {
	case p.B < 0:
		return "only in A"
	case p.A < 0:
		return "only in B"
	case len(p.Differs) == 0:
		return ""
	}

	names := make([]string, len(p.Differs))
	for i, name := range p.Differs {
		names[i] = textWord(name)
	}
	return strings.Join(names, ", ")
}

// name returns what the rows of a pair are called: both, if they have other names.
func (v *compareView) name(p *compare.Pair) string {
	switch {
	case p.B < 0:
		return rowName(v.rowA(p))
	case p.A < 0:
		return rowName(v.rowB(p))
	}

	a, b := rowName(v.rowA(p)), rowName(v.rowB(p))
	if a == b {
		return a
	}
	return a + " → " + b
}

// figure is a number of two rows.
type figure struct{ name, a, b, change string }

// figures returns the numbers of a pair of rows. What neither has is left out.
func (v *compareView) figures(p *compare.Pair) (all []figure) {
	a, b := v.rowA(p), v.rowB(p)
	x, y := figuresOf(a), figuresOf(b)
	add := func(name string, a, b *float64, word func(float64) string) {
		if a == nil && b == nil {
			return
		}

		f := figure{name: name}
		if a != nil {
			f.a = word(*a)
		}
		if b != nil {
			f.b = word(*b)
		}
		if a != nil && b != nil {
			f.change = signed(*b-*a, word)
		}
		all = append(all, f)
	}
	count := func(name string, a, b int64) {
		if a != 0 || b != 0 {
			add(name, new(float64(a)), new(float64(b)), func(n float64) string { return words.Grouped(int64(n)) })
		}
	}

	add("time", took(a), took(b), func(n float64) string { return words.Duration(time.Duration(n)) })
	count("model calls", x.ModelCalls, y.ModelCalls)
	count("tool calls", x.ToolCalls, y.ToolCalls)
	count("failures", x.Failures, y.Failures)
	count("input tokens", x.InputTokens, y.InputTokens)
	count("output tokens", x.OutputTokens, y.OutputTokens)
	add("cost", x.CostUSD, y.CostUSD, words.Dollars)
	return all
}

// took returns how long a row took, in nanoseconds; nil: that is not known.
func took(r *outline.Row) *float64 {
	if r != nil {
		if d, ok := compare.Took(r); ok {
			return new(float64(d))
		}
	}
	return nil
}

// signed writes a difference with its sign; empty: there is none.
func signed(n float64, word func(float64) string) string {
	switch {
	case n > 0:
		return "+" + word(n)
	case n < 0:
		return "−" + word(-n)
	}
	return ""
}

func figuresOf(r *outline.Row) (f tree.Figures) {
	switch {
	case r == nil:
	case r.Plan != nil:
		return r.Plan.Total
	case r.Step != nil:
		return r.Step.Figures
	case r.Cycle != nil:
		c := &r.Cycle.Record
		return tree.Figures{
			InputTokens: optional.Value(c.InputTokens), OutputTokens: optional.Value(c.OutputTokens), CostUSD: c.CostUSD,
		}
	}
	return f
}

// rows returns how many rows a pair stands for that only one run has; 0: the pair is of both.
func (v *compareView) rows(p *compare.Pair) int {
	switch {
	case p.B < 0:
		return v.rowA(p).Below + 1
	case p.A < 0:
		return v.rowB(p).Below + 1
	}
	return 0
}

// difference shows what differs in two texts. Nothing but the texts stands between the elements, because white space is
// shown, too.
func difference(lines []compare.Line) templ.Component {
	var b strings.Builder
	for i := range lines {
		l := &lines[i]
		if l.Hidden > 0 {
			b.WriteString(`<span class="left">` + words.Plural(int64(l.Hidden), "equal line") + "</span>")
			continue
		}

		element := map[byte]string{'-': "del", '+': "ins", ' ': "span"}[l.Side]
		b.WriteString("<" + element + "><bdi>")
		for _, w := range l.Words {
			text := strings.ReplaceAll(html.EscapeString(w.Text), "\r", "&#13;")
			if w.Marked {
				text = "<mark>" + text + "</mark>"
			}
			b.WriteString(text)
		}
		b.WriteString("</bdi></" + element + ">")
	}
	return templ.Raw(b.String())
}
