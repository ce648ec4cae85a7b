package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"go.yaml.in/yaml/v3"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

const grafanaFolder = "../../../deploy/grafana/"

// The part of Grafana's dashboard model that our dashboard uses, as in package @grafana/schema 13.
// A new key needs a field here; an unknown key is probably a typing error.
type (
	grafanaDashboard struct {
		UID, Title, Description, Timezone, Refresh string
		ID                                         *int
		Tags                                       []string
		SchemaVersion, Version                     int
		Editable                                   bool
		GraphTooltip, FiscalYearStartMonth         int
		Time                                       struct{ From, To string }
		Timepicker                                 struct{}
		Links                                      []struct{}
		Annotations                                struct{ List []struct{} }
		Templating                                 struct{ List []grafanaVariable }
		Panels                                     []grafanaPanel
	}
	grafanaVariable struct {
		Name, Label, Description, Type, Query, Regex, AllValue string
		Datasource                                             grafanaDatasource
		Refresh, Sort, Hide                                    int
		SkipURLSync                                            bool `json:"skipUrlSync"`
		Multi, IncludeAll                                      bool
		Options                                                []struct{}
		Current                                                struct {
			Selected    bool
			Text, Value any
		}
	}
	grafanaDatasource struct{ Type, UID string }
	grafanaPanel      struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ X, Y, W, H int }
		Datasource               grafanaDatasource
		Collapsed                bool
		Panels                   []struct{}
		Interval                 string
		MaxDataPoints            int
		Targets                  []grafanaQuery
		Options                  map[string]any
		FieldConfig              struct {
			Defaults struct {
				Unit, NoValue     string
				Min, Decimals     *int
				Color, Thresholds map[string]any
				Custom            map[string]any
			}
			Overrides []grafanaOverride
		}
	}
	grafanaQuery struct {
		RefID, Format, EditorMode string
		RawSQL                    string `json:"rawSql"`
		RawQuery                  bool
		Datasource                grafanaDatasource
	}
	grafanaOverride struct {
		Matcher    struct{ ID, Options string }
		Properties []struct {
			ID    string
			Value any
		}
	}
)

func readGrafanaDashboard(t testing.TB) (d grafanaDashboard) {
	t.Helper()
	content, err := os.ReadFile(grafanaFolder + "dashboards/actlog.json")
	if err != nil {
		t.Fatal(err)
	}

	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d
}

// panel returns the panel with a title.
func (d grafanaDashboard) panel(t testing.TB, title string) grafanaPanel {
	t.Helper()
	i := slices.IndexFunc(d.Panels, func(p grafanaPanel) bool { return p.Title == title })
	if i < 0 {
		t.Fatalf("no panel %q", title)
	}
	return d.Panels[i]
}

// TestGrafanaDashboard checks that the dashboard is consistent in itself and with the provisioned
// data source, and that its panels fill the grid.
func TestGrafanaDashboard(t *testing.T) {
	t.Parallel()
	d := readGrafanaDashboard(t)
	if d.UID == "" || d.Title == "" || d.ID != nil || d.SchemaVersion < 39 || d.Refresh == "" {
		t.Errorf("readGrafanaDashboard() = %+v", d)
	}

	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL, User string
			SecureJSONData                     map[string]string `yaml:"secureJsonData"`
			JSONData                           map[string]any    `yaml:"jsonData"`
			Editable                           bool
		}
	}
	readYAML(t, grafanaFolder+"provisioning/datasources/actlog.yaml", &sources)
	if len(sources.Datasources) != 1 {
		t.Fatalf("sources = %+v", sources)
	}

	source := sources.Datasources[0]
	for what, value := range map[string]string{
		"url": source.URL, "password": source.SecureJSONData["password"], "sslmode": fmt.Sprint(source.JSONData["sslmode"]),
	} {
		if !regexp.MustCompile(`^\$ACTLOG_REPORT_[A-Z]+$`).MatchString(value) { // ${...} would expand a $ in the value
			t.Errorf("%s %q does not come from the environment", what, value)
		}
	}

	// Grafana reads the name of the database only from jsonData.
	if source.JSONData["database"] != "$ACTLOG_REPORT_DATABASE" || source.Access != "proxy" || sources.APIVersion != 1 {
		t.Errorf("source = %+v", source)
	}

	var providers struct {
		Providers []struct {
			Type    string
			Options struct{ Path string }
		}
	}
	readYAML(t, grafanaFolder+"provisioning/dashboards/actlog.yaml", &providers)
	if len(providers.Providers) != 1 || providers.Providers[0].Type != "file" ||
		providers.Providers[0].Options.Path != "/etc/grafana/dashboards" {
		t.Errorf("providers = %+v", providers)
	}

	ref := grafanaDatasource{Type: source.Type, UID: "${datasource}"}
	declared := map[string]bool{}
	for _, v := range d.Templating.List {
		declared[v.Name] = true
		switch v.Type {
		case "datasource":
			if v.Name != "datasource" || v.Query != source.Type || v.Current.Value != source.UID ||
				v.Current.Text != source.Name {
				t.Errorf("%+v is not the provisioned data source", v)
			}
		case "query":
			// Grafana inserts allValue unquoted; the queries compare with '*'.
			if v.Datasource != ref || !v.Multi || !v.IncludeAll || v.AllValue != "'*'" || v.Refresh != 2 {
				t.Errorf("v = %+v", v)
			}
		default:
			t.Errorf("variable %s: type %q", v.Name, v.Type)
		}

		if v.Label == "" || v.Description == "" {
			t.Errorf("variable %s has no label or no description", v.Name)
		}
	}

	var cells [24][]int // the id of the panel at each column and line
	ids := map[int]bool{}
	used := map[string]bool{"datasource": true}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID < 1 {
			t.Errorf("panel %q: id %d", p.Title, p.ID)
		}
		ids[p.ID] = true

		g := p.GridPos
		if g.X < 0 || g.Y < 0 || g.W < 1 || g.H < 1 || g.X+g.W > len(cells) {
			t.Fatalf("panel %q: %+v is outside the grid", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				for len(cells[x]) <= y {
					cells[x] = append(cells[x], 0)
				}
				if other := cells[x][y]; other != 0 {
					t.Fatalf("panels %d and %d overlap", other, p.ID)
				}
				cells[x][y] = p.ID
			}
		}

		if p.Title == "" {
			t.Errorf("panel %d has no title", p.ID)
		}
		if p.Type == "row" {
			continue
		}

		if p.Description == "" || p.Datasource != ref || len(p.Targets) != 1 || p.Targets[0].Datasource != ref {
			t.Errorf("panel %q: %+v", p.Title, p)
		}
		if want := map[string]string{
			"stat": "table", "table": "table", "timeseries": "time_series",
		}[p.Type]; len(p.Targets) != 1 || want == "" || p.Targets[0].Format != want {
			t.Fatalf("panel %q: type %q, %+v", p.Title, p.Type, p.Targets)
		}
		if p.Type != "table" && p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("panel %q has no unit", p.Title)
		}

		for _, m := range regexp.MustCompile(`\$\{(\w+)(:\w+)?\}`).FindAllStringSubmatch(p.Targets[0].RawSQL, -1) {
			used[m[1]] = true
			if !declared[m[1]] || m[2] != ":sqlstring" {
				t.Errorf("panel %q: %s", p.Title, m[0])
			}
		}
	}

	for x, column := range cells {
		if slices.Contains(column, 0) || len(column) != len(cells[0]) {
			t.Errorf("column %d of the grid has gaps: %v", x, column)
		}
	}
	if !maps.Equal(declared, used) {
		t.Errorf("declared variables %v, used %v", declared, used)
	}
}

func readYAML(t testing.TB, path string, into any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	decoder := yaml.NewDecoder(f)
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// grafanaRange is what a user has chosen: a time range, and the values of each variable. No value
// means All.
type grafanaRange struct {
	from, to time.Time
	chosen   map[string][]string
}

var (
	grafanaVariables = regexp.MustCompile(`\$\{(\w+):sqlstring\}`)
	grafanaMacros    = regexp.MustCompile(`\$([_a-zA-Z0-9]+)\(([^)]*)\)`)
)

// expand returns the SQL that Grafana sends. The browser inserts the variables, and then the server
// expands the macros. The query runs as if it were reportNow.
func (r grafanaRange) expand(t testing.TB, sql string) string {
	t.Helper()
	sql = grafanaVariables.ReplaceAllStringFunc(sql, func(s string) string {
		values := r.chosen[grafanaVariables.FindStringSubmatch(s)[1]]
		if len(values) == 0 {
			return "'*'"
		}

		var quoted []string
		for _, v := range values {
			quoted = append(quoted, "'"+strings.ReplaceAll(v, "'", "''")+"'")
		}
		return strings.Join(quoted, ",")
	})

	sql = strings.ReplaceAll(sql, "$__interval", "6h")
	sql = grafanaMacros.ReplaceAllStringFunc(sql, func(s string) string {
		m := grafanaMacros.FindStringSubmatch(s)
		args := strings.Split(m[2], ",")
		for i := range args {
			args[i] = strings.TrimSpace(args[i])
		}

		from, to := "'"+r.from.UTC().Format(time.RFC3339Nano)+"'", "'"+r.to.UTC().Format(time.RFC3339Nano)+"'"
		switch {
		case m[1] == "__timeFilter":
			return args[0] + " BETWEEN " + from + " AND " + to
		case m[1] == "__timeFrom":
			return from
		case m[1] == "__timeTo":
			return to
		case m[1] == "__timeGroupAlias" && len(args) >= 2:
			step, err := time.ParseDuration(strings.Trim(args[1], "'"))
			if err != nil {
				t.Fatal(err)
			}
			seconds := strconv.FormatFloat(step.Seconds(), 'g', -1, 64)
			return fmt.Sprintf(`floor(extract(epoch from %s)/%s)*%s AS "time"`, args[0], seconds, seconds)
		}
		t.Fatalf("unknown macro %s", s)
		return ""
	})
	return strings.ReplaceAll(sql, "now()", "timestamptz '"+reportNow.Format(time.RFC3339)+"'")
}

// asReporter returns a connection with the rights and settings of a login for reports.
func asReporter(t testing.TB, db *pgtest.DB) *pgx.Conn {
	t.Helper()
	return ownConn(t, db, "SET default_transaction_read_only = on; SET statement_timeout = '30s'; SET search_path = "+
		"report; SET ROLE actlog_report")
}

func isNumber(f pgconn.FieldDescription) bool {
	return slices.Contains([]uint32{pgtype.Int8OID, pgtype.Int4OID, pgtype.NumericOID, pgtype.Float8OID}, f.DataTypeOID)
}

// TestGrafanaQueries runs the query of every panel and every variable with the role for reports, on
// the two weeks of docs/reporting.md, and checks that Grafana can show the results.
func TestGrafanaQueries(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres plans and reads")
	t.Parallel()
	d := readGrafanaDashboard(t)
	db := pgtest.New(t)
	conn := asReporter(t, db)
	all := grafanaRange{from: reportNow.AddDate(0, 0, -14), to: reportNow}

	for _, p := range d.Panels { // an empty record is no error
		for _, q := range p.Targets {
			runQuery(t, conn, p.Title, all.expand(t, q.RawSQL))
		}
	}
	writeTwoWeeks(t, storetest.OpenURL(t, db.URL))

	values := map[string][]string{}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}

		r := runQuery(t, conn, v.Name, all.expand(t, v.Query))
		if len(r.FieldDescriptions) != 1 {
			t.Errorf("variable %s has %d columns", v.Name, len(r.FieldDescriptions))
		}
		for _, row := range r.Rows {
			values[v.Name] = append(values[v.Name], string(row[0]))
		}
	}
	if want := map[string][]string{
		"project": {"finance", "support"}, "environment": {"production"}, "agent": {
			"counter", "researcher", "triage", "writer",
		},
	}; !maps.EqualFunc(values, want, slices.Equal) {
		t.Errorf("variables: %v, want %v", values, want)
	}

	every, none := all, all
	every.chosen = values
	none.chosen = map[string][]string{"project": {"it's", "') OR true --"}}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			r := runQuery(t, conn, p.Title, all.expand(t, q.RawSQL))
			if len(r.Rows) == 0 {
				t.Errorf("%s: no rows", p.Title)
				continue
			}

			checkGrafanaResult(t, p, r)
			if p.Title == "Models without a price" { // it ignores the variables
				continue
			}

			// To choose every value leaves out only rows without a value. There are none.
			if got := len(runQuery(t, conn, p.Title, every.expand(t, q.RawSQL)).Rows); got != len(r.Rows) {
				t.Errorf("%s: %d rows with All, %d with every value chosen", p.Title, len(r.Rows), got)
			}
			if rows := runQuery(t, conn, p.Title, none.expand(t, q.RawSQL)).Rows; p.Type != "stat" && len(rows) > 0 {
				t.Errorf("%s: %d rows for projects that do not exist", p.Title, len(rows))
			} else if p.Type == "stat" && len(rows[0][0]) > 0 && string(rows[0][0]) != "0" {
				t.Errorf("%s: %s for projects that do not exist", p.Title, rows[0][0])
			}
		}
	}

	// A run that failed although its steps succeeded is shown, also for each of its agents.
	for _, title := range []string{"What failed last", "Failures by kind"} {
		p := d.panel(t, title)
		for agent, want := range map[string]bool{"researcher": true, "counter": false, "": true} {
			r := all
			if agent != "" {
				r.chosen = map[string][]string{"agent": {agent}}
			}

			shown := slices.ContainsFunc(runQuery(t, conn, title, r.expand(t, p.Targets[0].RawSQL)).Rows,
				func(row [][]byte) bool {
					return slices.ContainsFunc(row, func(v []byte) bool { return string(v) == "budget_spent" })
				})
			if shown != want {
				t.Errorf("%s, agent %q: shown is %t", title, agent, shown)
			}
		}
	}

	// Chosen values filter the runs.
	countRuns := func(chosen map[string][]string) int {
		r := all
		r.chosen = chosen
		n, err := strconv.Atoi(string(runQuery(t, conn, "runs", r.expand(t, d.Panels[0].Targets[0].RawSQL)).Rows[0][0]))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}

	for _, tt := range []struct {
		chosen map[string][]string
		where  string
	}{
		{nil, "true"},
		{map[string][]string{"project": {"finance"}}, "project = 'finance'"},
		{map[string][]string{"project": {"finance", "support"}, "environment": {"production"}}, "true"},
		{map[string][]string{"agent": {"triage"}}, "name = 'answer-ticket'"},
		{map[string][]string{"agent": {"triage", "counter"}, "project": {"finance"}}, "name = 'weekly-figures'"},
	} {
		want := storetest.Query[int](t, storetest.OpenURL(t, db.URL),
			"SELECT count(*) FROM report.plan WHERE is_root AND "+tt.where)
		if got := countRuns(tt.chosen); got != want || want == 0 {
			t.Errorf("%v: %d runs, want %d", tt.chosen, got, want)
		}
	}
}

// checkGrafanaResult checks that a panel can show the result of its query.
func checkGrafanaResult(t *testing.T, p grafanaPanel, r *pgconn.Result) {
	t.Helper()
	names := map[string]bool{} // what an override may name
	for i, f := range r.FieldDescriptions {
		if names[f.Name] || f.Name == "?column?" {
			t.Errorf("%s: column %q", p.Title, f.Name)
		}
		names[f.Name] = true
		if slices.Contains([]uint32{pgtype.JSONBOID, pgtype.IntervalOID, pgtype.TextArrayOID}, f.DataTypeOID) {
			t.Errorf("%s: Grafana cannot show the type of column %q", p.Title, f.Name)
		}

		hasUnit := slices.ContainsFunc(p.FieldConfig.Overrides, func(o grafanaOverride) bool {
			return o.Matcher.Options == f.Name && o.Properties[0].ID == "unit"
		})
		if p.Type == "table" && isNumber(f) != hasUnit {
			t.Errorf("%s: column %q: is a number %t, has a unit %t", p.Title, f.Name, isNumber(f), hasUnit)
		}
		if p.Type == "stat" && (!isNumber(f) || len(r.Rows) != 1 || len(r.Rows[0][i]) == 0) {
			t.Errorf("%s: column %q: %q", p.Title, f.Name, r.Rows[0][i])
		}
	}

	if p.Type == "timeseries" {
		checkGrafanaSeries(t, p, r)
		if names["metric"] { // each value is a series; our panels use states
			names = map[string]bool{}
			for _, s := range record.States(record.KindPlan) {
				names[string(s)] = true
			}
		}
	}

	for _, o := range p.FieldConfig.Overrides {
		if o.Matcher.ID != "byName" || !names[o.Matcher.Options] {
			t.Errorf("%s: an override of %q, which is not in %v", p.Title, o.Matcher.Options, slices.Sorted(maps.Keys(names)))
		}
	}
}

// checkGrafanaSeries checks the result of a panel of time series: the time comes first, in order,
// and then the figures. A column "metric" may name the series if there is only one figure.
func checkGrafanaSeries(t *testing.T, p grafanaPanel, r *pgconn.Result) {
	t.Helper()
	if p.Interval == "" || p.MaxDataPoints == 0 {
		t.Errorf("%s: interval %q, at most %d points", p.Title, p.Interval, p.MaxDataPoints)
	}

	fields := r.FieldDescriptions
	if fields[0].Name != "time" || !isNumber(fields[0]) {
		t.Fatalf("%s: the first column is %q", p.Title, fields[0].Name)
	}

	var last float64
	for _, row := range r.Rows {
		at, err := strconv.ParseFloat(string(row[0]), 64)
		if err != nil || at < last {
			t.Fatalf("%s: time %q after %f: %v", p.Title, row[0], last, err)
		}
		last = at
	}

	for _, f := range fields[1:] {
		if f.Name == "metric" {
			if len(fields) != 3 || f.DataTypeOID != pgtype.TextOID {
				t.Errorf("%s: %d columns beside metric", p.Title, len(fields)-1)
			}
			for _, row := range r.Rows {
				if len(row[1]) == 0 {
					t.Errorf("%s: a series without a name", p.Title)
				}
			}
		} else if !isNumber(f) {
			t.Errorf("%s: column %q is not a number", p.Title, f.Name)
		}
	}
}
