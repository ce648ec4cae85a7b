package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"golang.org/x/net/html"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/web"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// writeFigures writes runs of two days of two projects. It returns the time at which the first one began.
func (s *site) writeFigures() time.Time {
	s.t.Helper()
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -2).Add(9 * time.Hour)
	for i := range 12 {
		root, at := fmt.Sprint("run-", i), first.Add(time.Duration(i%2)*24*time.Hour+time.Duration(i)*time.Minute)
		after := func(seconds int) *time.Time { return new(at.Add(time.Duration(seconds) * time.Second)) }
		state := record.Completed
		if i%5 == 0 {
			state = record.Failed
		}
		step := root + "-s"

		storetest.Write(s.t, s.store,
			&record.Plan{
				RootPlanID: root, CurrentPlanID: root, Project: new([]string{"docs", "o'brien"}[i%2]), State: &state,
				StartTime: after(0), EndTime: after(10 + i),
			},
			&record.AgentExecution{
				RootPlanID: root, PlanID: root, StepID: step, AgentName: new(fmt.Sprint("agent <b>", i%3)), State: &state,
				StartTime: after(0), EndTime: after(9),
			},
			&record.ThinkAct{
				RootPlanID: root, StepID: step, Seq: 0, ModelName: new([]string{"gpt-5-mini", "unknown"}[i%2]),
				Provider: new("openai"), InputTokens: new(int64(1_000 * (i + 1))), OutputTokens: new(int64(100)),
				State: new(record.Completed), ThinkStartTime: after(1), ThinkEndTime: after(3 + i),
			},
			&record.ActTool{
				RootPlanID: root, StepID: step, Seq: 0, ToolCallID: "c", Name: new("look_up"), State: &state, StartTime: after(4),
				EndTime: after(5 + i),
			},
			&record.ActTool{
				RootPlanID: root, StepID: step, Seq: 1, ToolCallID: "d", State: &state, StartTime: after(4), EndTime: after(5),
			})
	}

	return first
}

// tags returns the elements of a name under a node.
func tags(in *html.Node, name string) (found []*html.Node) {
	for n := range in.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			found = append(found, n)
		}
	}
	return found
}

// TestCharts: the statement that stands at a chart has its figures, and each bar leads to the runs behind it.
func TestCharts(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFigures()
	for _, query := range []string{"", "?project=o%27brien", "?since=3d&until=24h"} {
		p := s.get("/charts"+query, http.StatusOK)
		sources := tags(p.root, "pre")
		if len(sources) != 4 {
			t.Fatalf("%q: %d statements", query, len(sources))
		}

		read := func(i int) []map[string]any {
			rows, err := s.store.DB().Query(t.Context(), sources[i].FirstChild.Data)
			if err != nil {
				t.Fatal(err)
			}
			all, err := pgx.CollectRows(rows, pgx.RowToMap)
			if err != nil {
				t.Fatalf("%q: %v in %s", query, err, sources[i].FirstChild.Data)
			}
			return all
		}

		days := read(0)
		if len(days) == 0 || len(days) > 2 {
			t.Fatalf("%q: %d days", query, len(days))
		}
		for _, day := range days {
			for _, m := range []struct{ name, column string }{{"runs", "count"}, {"failed", "failed"}} {
				label := fmt.Sprintf("%s: %s %d", day["name"], m.name, day[m.column])
				bar := p.one("aria-label", label)
				if n := len(s.get(attr(bar, "href")+"&limit=500", http.StatusOK).all("name", "run")); int64(n) != day[m.column] {
					t.Errorf("%q: %s leads to %d runs", query, label, n)
				}
			}

			cost := "not known"
			if day["cost_usd"] != nil {
				cost = dollars(t, day["cost_usd"])
			}
			p.one("aria-label", fmt.Sprintf("%s: cost %s", day["name"], cost))
		}

		for i, table := range tags(p.root, "table") {
			rows := read(i + 1)
			lines := tags(tags(table, "tbody")[0], "tr")
			if len(lines) != len(rows) || len(rows) == 0 {
				t.Fatalf("%q: table %d has %d lines, its statement %d", query, i, len(lines), len(rows))
			}
			for j, row := range rows {
				name, _ := row["name"].(string)
				if got := text(tags(lines[j], "th")[0]); name != "" && got != name || name == "" && got != "not recorded" {
					t.Errorf("%q: line %d is of %q, not %q", query, j, got, name)
				}

				cells := tags(lines[j], "td")
				want := []string{fmt.Sprintf("calls %d", row["count"]), fmt.Sprintf("failed %d", row["failed"])}
				if i == 1 {
					want[0] = fmt.Sprintf("steps %d", row["count"])
				}
				if got := []string{text(cells[0]), text(cells[1])}; !slices.Equal(got, want) {
					t.Errorf("%q: %s has %q, not %q", query, name, got, want)
				}

				if i < 2 {
					if got := text(cells[4]); row["cost_usd"] != nil && !strings.Contains(got, dollars(t, row["cost_usd"])) ||
						row["cost_usd"] == nil && strings.Contains(got, "$") {
						t.Errorf("%q: the cost of %s is %s, not %v", query, name, got, row["cost_usd"])
					}
				}
				found := len(s.get(attr(tags(cells[0], "a")[0], "href"), http.StatusOK).all("name", "run"))
				if found == 0 {
					t.Errorf("%q: the bar of %s leads to no run", query, name)
				}
			}
		}

		if query == "" && !strings.Contains(text(p.root), "6 model calls without a price") {
			t.Error("what has no price is not told")
		}
	}

	nothing := s.get("/charts?since=2020-01-01&until=2020-01-05", http.StatusOK)
	if got := text(nothing.root); !strings.Contains(got, "Nothing happened in this time.") {
		t.Errorf("text(nothing.root) = %v", got)
	}

	for query, field := range map[string]string{
		"since=soon": "since", "since=2000-01-01": "since", "until=2020-01-01&since=2020-01-02": "until", "begin=1": "begin",
	} {
		if p := s.get("/charts?"+query, http.StatusBadRequest); !strings.HasPrefix(text(p.one("role", "alert")), field) {
			t.Errorf("%s: %s", query, text(p.one("role", "alert")))
		}
	}
	if to := s.send("GET", "/charts?since=&project=docs", "").Header.Get("Location"); to != "/charts?project=docs" {
		t.Errorf("empty fields lead to %s", to)
	}
}

// dollars writes an amount of the database as the page does.
func dollars(t *testing.T, amount any) string {
	t.Helper()
	value, err := amount.(pgtype.Numeric).Float64Value()
	if err != nil {
		t.Fatalf("%v: %v", amount, err)
	}
	return "$" + strconv.FormatFloat(value.Float64, 'f', 4, 64)
}

// TestManyAgents: what does not stand in a chart is counted.
func TestManyAgents(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	changes := []record.Change{&record.Plan{RootPlanID: "run", CurrentPlanID: "run", StartTime: new(time.Now())}}
	for i := range 57 {
		changes = append(changes, &record.AgentExecution{
			RootPlanID: "run", PlanID: "run", StepID: strconv.Itoa(i),
			AgentName: new(strings.Repeat("x", 200) + strconv.Itoa(i)), StartTime: new(time.Now()),
		})
	}
	storetest.Write(t, s.store, changes...)

	p := s.get("/charts?"+url.Values{"since": {"1h"}}.Encode(), http.StatusOK)
	if got := text(p.root); !strings.Contains(got, "7 more, with fewer steps.") {
		t.Errorf("text(p.root) = %v", got)
	}
}

// TestChartsWithoutReports: a server whose role must not read the reports says what to do.
func TestChartsWithoutReports(t *testing.T) {
	t.Parallel()
	s := serve(t, storetest.OpenURL(t, storetest.WriterURL(t, pgtest.New(t))), apitest.Config{}, web.Runtime{})
	if p := s.get("/charts", http.StatusServiceUnavailable); !strings.Contains(text(p.root), "grant it actlog_report") {
		t.Errorf("p.root = %v", text(p.root))
	}
}
