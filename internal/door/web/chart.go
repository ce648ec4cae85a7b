package web

import (
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/lookup"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/view/words"
)

// chartsView is the figures of a time, as bars that lead to the runs behind them.
type chartsView struct {
	lookup.Charts
	query url.Values
	wrong faults           // with members of the query, which are left out
	days  []store.ChartRow // each day of the time, also those without a run
	now   time.Time
}

func (s *Server) charts(c echo.Context) error {
	if clean := withValues(c.QueryParams()); len(clean) < len(c.QueryParams()) { // a form sends its empty fields, too
		return c.Redirect(http.StatusSeeOther, "/charts?"+clean.Encode())
	}

	v := &chartsView{query: c.QueryParams(), now: s.now()}
	var err error
	v.wrong, err = readWithout(c, func() (err error) {
		v.Charts, err = s.lookup.Charts(c)
		return err
	}, "since", "until")
	if err != nil {
		return err
	}

	v.fillDays()
	return send(c, v.wrong.status(), chartsPage(v))
}

// fillDays puts days without a run between the others.
func (v *chartsView) fillDays() {
	byDay := map[string]store.ChartRow{}
	last := v.now.UTC()
	if v.Filter.Until != nil {
		last = v.Filter.Until.UTC().Add(-1)
	}
	for _, row := range v.Rows[store.ByDay] {
		byDay[*row.Name] = row
	}

	for day := v.Filter.Since.UTC().Truncate(24 * time.Hour); !day.After(last); day = day.AddDate(0, 0, 1) {
		name := day.Format(time.DateOnly)
		row, ok := byDay[name]
		if !ok {
			row = store.ChartRow{Name: &name}
		}
		v.days = append(v.days, row)
		delete(byDay, name)
	}

	for _, row := range v.Rows[store.ByDay] { // of clocks that are ahead
		if _, left := byDay[*row.Name]; left {
			v.days = append(v.days, row)
		}
	}
}

func (v *chartsView) value(name string) string { return v.query.Get(name) }

// since returns the address of the charts since another time.
func (v *chartsView) since(ago string) string {
	q := url.Values{"since": {ago}}
	if v.Filter.Project != "" {
		q.Set("project", v.Filter.Project)
	}
	return "/charts?" + q.Encode()
}

// measure is a figure that rows are compared by.
type measure struct {
	name string
	of   func(*store.ChartRow) (value float64, known bool)
	// part is drawn within the bar; nil: nothing is.
	part func(*store.ChartRow) (value float64, known bool)
	say  func(*store.ChartRow) string
	only url.Values // filters of the list that has what the bar counts
	// axis is a value beside the bars.
	axis func(value float64) string
	bad  bool
	high bool // the highest bar says how much it is, not all bars together
}

// onAxis is a count beside bars.
func onAxis(value float64) string { return words.Short(int64(math.Round(value))) }

func known[T int64 | float64](p *T) (float64, bool) {
	if p == nil {
		return 0, false
	}
	return float64(*p), true
}

func inSeconds(p *float64) string {
	if p == nil {
		return ""
	}
	return words.Duration(time.Duration(*p * float64(time.Second)))
}

// counting is how a chart calls what it counts.
var counting = map[store.ChartBy]string{
	store.ByDay: "runs", store.ByModel: "calls", store.ByAgent: "steps", store.ByTool: "calls",
}

// measures are those of a chart.
func measures(by store.ChartBy) []measure {
	all := []measure{
		{name: counting[by], axis: onAxis, of: func(r *store.ChartRow) (float64, bool) {
			return float64(r.Count), true
		}, say: func(r *store.ChartRow) string { return words.Grouped(r.Count) }},
		{name: "failed", axis: onAxis, bad: true, only: url.Values{"failed": {"true"}},
			of: func(r *store.ChartRow) (float64, bool) {
				return float64(r.Failed), true
			}, say: func(r *store.ChartRow) string { return words.Grouped(r.Failed) }},
		{
			name: "time p50, p95", high: true, of: func(r *store.ChartRow) (float64, bool) {
				return known(r.P95Seconds)
			}, part: func(r *store.ChartRow) (float64, bool) { return known(r.P50Seconds) },
			axis: func(value float64) string { return inSeconds(&value) },
			say: func(r *store.ChartRow) string {
				if r.P95Seconds == nil {
					return ""
				}
				return inSeconds(r.P50Seconds) + ", " + inSeconds(r.P95Seconds)
			},
		},
	}

	if by == store.ByDay {
		all[1].only = url.Values{"state": {"FAILED"}}
	}
	if by == store.ByTool {
		return all
	}

	return append(all,
		measure{
			name: "tokens in, out", axis: onAxis, say: sayTokens,
			of: func(r *store.ChartRow) (float64, bool) {
				return float64(optional.Value(r.InputTokens) + optional.Value(r.OutputTokens)), true
			},
			part: func(r *store.ChartRow) (float64, bool) { return known(r.OutputTokens) },
		},
		measure{
			name: "cost", of: func(r *store.ChartRow) (float64, bool) { return known(r.CostUSD) }, say: sayCost,
			axis: func(value float64) string { return "$" + strconv.FormatFloat(value, 'f', -1, 64) },
		},
	)
}

func sayTokens(r *store.ChartRow) string {
	if r.InputTokens == nil && r.OutputTokens == nil {
		return ""
	}
	return words.Short(optional.Value(r.InputTokens)) + " → " + words.Short(optional.Value(r.OutputTokens))
}

func sayCost(r *store.ChartRow) string {
	text := ""
	if r.CostUSD != nil {
		text = words.Dollars(*r.CostUSD)
	}
	if n := optional.Value(r.Unpriced); n > 0 {
		if text != "" {
			text += ", "
		}
		text += words.Grouped(n) + " without a price"
	}
	return text
}

// chartBars is how high or wide the largest bar is, in the units of its drawing.
const chartBars = 100

// bars is a measure of the rows of a chart, and how much the longest bar has that fits it.
type bars struct {
	measure
	most float64
	top  float64 // how much a bar has that is as long as the drawing
	rows []store.ChartRow
}

func barsOf(m measure, rows []store.ChartRow) bars {
	b := bars{measure: m, rows: rows}
	for i := range rows {
		if value, ok := m.of(&rows[i]); ok {
			b.most = max(b.most, value)
		}
	}
	b.top = b.most
	return b
}

// withAxis returns the bars drawn so that a round value is at the top.
func (b bars) withAxis() bars {
	unit := 1.0
	if b.high { // in seconds
		for _, larger := range []float64{60, 3600} {
			if b.most >= larger {
				unit = larger
			}
		}
	}
	b.top = roundUp(b.most/unit) * unit
	return b
}

// roundUp returns the next number that is 1, 2, 4, 6, 8 or 10 times a power of ten, so that its half is round as well.
func roundUp(value float64) float64 {
	if value <= 0 {
		return 0
	}

	power := math.Pow(10, math.Floor(math.Log10(value)))
	for _, digit := range []float64{1, 2, 4, 6, 8} {
		if round := math.Round(digit*power*1e9) / 1e9; value <= round {
			return round
		}
	}
	return math.Round(10*power*1e9) / 1e9
}

// values are those beside the bars, from the top down.
func (b *bars) values() []string {
	if b.top <= 0 {
		return []string{"", b.axis(0)}
	}
	all := []string{b.axis(b.top)}
	if half := b.axis(b.top / 2); half != b.axis(b.top) && half != b.axis(0) {
		all = append(all, half)
	}
	return append(all, b.axis(0))
}

// moments are the days below the bars: the first, the middle and the last.
func (v *chartsView) moments() []string {
	n := len(v.days)
	at := []int{0, (n - 1) / 2, n - 1}
	if n < 5 || n%2 == 0 { // there is none in the middle, or no room for it
		at = []int{0, n - 1}
	}
	if n == 1 {
		at = at[:1]
	}

	var all []string
	for _, i := range at {
		all = append(all, *v.days[i].Name)
	}
	return all
}

// length returns how long the bar of a value is; what is not nothing can be seen.
func (b *bars) length(value float64, known bool) (units string, drawn bool) {
	if !known || value <= 0 || b.top <= 0 {
		return "", false
	}
	return strconv.FormatFloat(max(1, math.Round(chartBars*value/b.top*10)/10), 'f', -1, 64), true
}

func (b *bars) full(r *store.ChartRow) (units string, drawn bool) { return b.length(b.of(r)) }

// within returns the length of what is drawn inside of the bar of a row.
func (b *bars) within(r *store.ChartRow) (units string, drawn bool) {
	if b.part == nil {
		return "", false
	}
	return b.length(b.part(r))
}

// total says how much all bars are together, or the highest one.
func (b *bars) total() string {
	var sum store.ChartRow
	for i := range b.rows {
		r := &b.rows[i]
		if b.high {
			if value, ok := b.of(r); ok && value == b.most {
				return "up to " + b.say(r)
			}
			continue
		}
		sum.Count += r.Count
		sum.Failed += r.Failed
		sum.InputTokens, sum.OutputTokens = plus(sum.InputTokens, r.InputTokens), plus(sum.OutputTokens, r.OutputTokens)
		sum.CostUSD, sum.Unpriced = plus(sum.CostUSD, r.CostUSD), plus(sum.Unpriced, r.Unpriced)
	}

	if b.high {
		return ""
	}
	return b.say(&sum)
}

func plus[T int64 | float64](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(*a + *b)
}

// behind returns the address of the list of runs behind a bar.
func (v *chartsView) behind(by store.ChartBy, r *store.ChartRow, m *measure) string {
	q := url.Values{}
	for name, values := range m.only {
		q[name] = values
	}
	if v.Filter.Project != "" {
		q.Set("project", v.Filter.Project)
	}

	from, until := v.Filter.Since, v.Filter.Until
	if by == store.ByDay {
		day, _ := time.Parse(time.DateOnly, *r.Name)
		next := day.AddDate(0, 0, 1)
		if day.After(from) {
			from = day
		}
		if until == nil || next.Before(*until) {
			until = &next
		}
	} else if r.Name != nil {
		q.Set(string(by), *r.Name)
	}

	q.Set("since", from.UTC().Format(time.RFC3339Nano))
	if until != nil {
		q.Set("until", until.UTC().Format(time.RFC3339Nano))
	}
	return listPath(q)
}

// unpriced returns how many model calls have no cost.
func (v *chartsView) unpriced() (n int64) {
	for i := range v.Rows[store.ByModel] {
		n += optional.Value(v.Rows[store.ByModel][i].Unpriced)
	}
	return n
}

// more returns how many rows of a chart are left out.
func (v *chartsView) more(by store.ChartBy) int64 {
	rows := v.Rows[by]
	if len(rows) == 0 {
		return 0
	}
	return rows[0].Groups - int64(len(rows))
}

// nothing reports that nothing happened in the time.
func (v *chartsView) nothing() bool {
	return len(v.Rows[store.ByDay])+len(v.Rows[store.ByModel])+len(v.Rows[store.ByAgent])+len(v.Rows[store.ByTool]) == 0
}

// period says of which time the charts are.
func (v *chartsView) period() string {
	const layout = "2006-01-02 15:04"
	text := "Since " + v.Filter.Since.UTC().Format(layout)
	if v.Filter.Until != nil {
		text += ", until " + v.Filter.Until.UTC().Format(layout)
	}
	return text + " UTC"
}

// upright returns where a bar begins that stands on the ground.
func upright(units string) string {
	height, _ := strconv.ParseFloat(units, 64)
	return strconv.FormatFloat(chartBars-height, 'f', -1, 64)
}

// explain says what a bar counts, and which runs are behind it.
func explain(by store.ChartBy) string {
	list := "A bar leads to the runs that began in this time and have "
	switch by {
	case store.ByModel:
		return "Model calls count when they were made; time is that of the call. " + list +
			"such a call; of failed ones, to those of them in which anything failed."
	case store.ByAgent:
		return "Steps count when they began. " + list +
			"such a step; of failed ones, to those of them in which anything failed."
	}
	return "Tool calls count when they began. " + list +
		"such a call; of failed ones, to those of them in which anything failed."
}
