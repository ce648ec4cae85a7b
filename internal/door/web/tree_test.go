package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// ids returns the rows of a page, in their order, with - before those that are folded.
func ids(root *html.Node) (all []string) {
	for n := range root.Descendants() {
		if attr(n, "role") != "treeitem" {
			continue
		}
		id := attr(n, "id")
		if attr(n, "aria-expanded") == "false" {
			id = "-" + id
		}
		all = append(all, id)
	}
	return all
}

// A call at work shows how far it has come, with a bar where the whole is known. What was recorded is hostile, and says
// nothing after the call has ended.
func TestProgress(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})

	calls := map[string]struct {
		state      record.State
		progress   string
		text       string
		done, most string
	}{
		"whole":    {record.Running, `{"done":2.5,"total":10,"message":"<b>reading"}`, "2.5/10 <b>reading", "2.5", "10"},
		"open":     {record.Running, `{"done":3,"total":null,"message":null}`, "3", "", ""},
		"nothing":  {record.Running, `{"done":-5,"total":0}`, "-5/0", "", ""},
		"over":     {record.Completed, `{"done":10,"total":10,"message":"reading"}`, "", "", ""},
		"no such":  {record.Running, `{"done":"<script>","message":{}}`, "", "", ""},
		"too long": {record.Running, `{"message":"` + strings.Repeat("x", 10_000) + `"}`, "", "", ""},
	}
	storetest.Write(t, s.store, &record.Plan{RootPlanID: "run", CurrentPlanID: "run", State: new(record.Running)},
		&record.AgentExecution{RootPlanID: "run", PlanID: "run", StepID: "s", State: new(record.Running)})
	for id, c := range calls {
		storetest.Write(t, s.store, &record.ActTool{
			RootPlanID: "run", StepID: "s", ToolCallID: id, Name: new("work"), State: &c.state,
			Progress: []byte(c.progress),
		})
	}

	for id, want := range calls {
		at := "call:s/0/" + url.PathEscape(id)
		p := s.get("/runs/run?"+url.Values{"at": {at}}.Encode(), http.StatusOK)
		for where, n := range map[string]*html.Node{"tree": p.one("id", at), "detail": p.detail()} {
			said := ""
			done, most := "", ""
			for each := range n.Descendants() {
				if attr(each, "class") == "more progress" {
					said = strings.TrimSpace(text(each))
				}
				if each.Data == "progress" {
					done, most = attr(each, "value"), attr(each, "max")
				}
			}
			if said != want.text || done != want.done || most != want.most {
				t.Errorf("%s, %s: %q, %q of %q", id, where, said, done, most)
			}
		}
	}
}

// TestFolds: the address says what is folded. The way to the open row never is, and its links keep the fold.
func TestFolds(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run")
	storetest.Write(t, s.store, &record.ThinkAct{
		RootPlanID: "run", StepID: "run-triage", Seq: 0, State: new(record.Completed),
	})

	failed := []string{
		"step:run-r", "cycle:run-r/0", "call:run-r/0/c%2F1", "plan:run-sub", "step:run-counter", "cycle:run-counter/2",
		"call:run-counter/2/x",
	}

	for path, want := range map[string][]string{
		"/runs/run?fold=ok":  append([]string{"plan:run", "-step:run-triage"}, failed...),
		"/runs/run?fold=all": append([]string{"plan:run", "-step:run-triage"}, failed...),
		"/runs/run/tree?fold=none": append([]string{"plan:run", "step:run-triage", "cycle:run-triage/0"},
			failed...),
		"/runs/run?fold=all&at=plan:run": {"plan:run", "-step:run-triage", "-step:run-r"},
		"/runs/run?fold=ok&at=step:run-triage": append([]string{"plan:run", "step:run-triage", "cycle:run-triage/0"},
			failed...),
		"/runs/run/rows?under=step:run-r&fold=all": {"-cycle:run-r/0"},
	} {
		if strings.Contains(path, "under=") {
			path += "&at=plan:run"
		}

		p := s.get(path, http.StatusOK)
		if got := ids(p.root); !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", path, got, want)
		}
		for _, r := range p.all("role", "treeitem") {
			if to, err := url.Parse(attr(r, "href")); err != nil || !strings.Contains(path, "fold="+to.Query().Get("fold")) {
				t.Errorf("%s leads to %s", path, attr(r, "href"))
			}
		}
	}

	s.get("/runs/run?fold=some", http.StatusBadRequest)
}

// TestSections: a section has what is between its ends, whatever was added since, and whatever others would see folded
// by now.
func TestSections(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run")
	between := func(query, want string) {
		t.Helper()
		if got := strings.Join(ids(s.get("/runs/run/rows?"+query, http.StatusOK).root), " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}

	between("after=step:run-triage&until=cycle:run-r/0", "step:run-r cycle:run-r/0")
	between("after=plan:run-sub", "step:run-counter cycle:run-counter/2 call:run-counter/2/x")
	between("after=cycle:run-r/0&until=plan:run-sub&fold=all&at=plan:run", "call:run-r/0/c%2F1 -plan:run-sub")
	between("after=call:run-counter/2/x", "")
	between("after=&n=2", "plan:run step:run-triage")
	between("after=step:run-triage&n=1", "step:run-r")

	s.get("/runs/run/rows?after=plan:run&until=x", http.StatusBadRequest)
	s.get("/runs/run/rows?after=plan:run&n=0", http.StatusBadRequest)
	s.get("/runs/run/rows?after=plan:run&under=plan:run", http.StatusBadRequest)
	if all := s.get("/runs/run/failures", http.StatusOK).classed("hit"); len(all) != 1 ||
		!strings.Contains(text(all[0]), "run_sql") {
		t.Errorf("%d failures", len(all))
	}

	var changes []record.Change
	for i := range 250 {
		changes = append(changes, &record.ActTool{
			RootPlanID: "run", StepID: "run-counter", Seq: 2, ToolCallID: fmt.Sprint("more", i), CallIndex: new(int64(i + 1)),
		})
	}
	storetest.Write(t, s.store, changes...)
	s.get("/runs/run", http.StatusOK) // a new page

	p := s.get("/runs/run/rows?after=cycle:run-counter/2&at=plan:run", http.StatusOK)
	got, rest := ids(p.root), 0
	for _, section := range p.all("class", "section") {
		if from := attr(section, "data-from"); from != "" {
			if attr(section, "data-level") != "8" {
				t.Errorf("a section is of level %s", attr(section, "data-level"))
			}
			got, rest = append(got, ids(s.get(from, http.StatusOK).root)...), rest+1
		}
	}

	if len(got) != 251 || rest != 2 || len(slices.Compact(slices.Sorted(slices.Values(got)))) != 251 {
		t.Errorf("%d rows, of which %d sections came later", len(got), rest)
	}
}

// TestRunning: a run that goes on opens on the newest step that runs, though something failed in it. A row that is very
// deep says how deep.
func TestRunning(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	s.writeFailure("run")

	storetest.Write(t, s.store, &record.Plan{RootPlanID: "on", CurrentPlanID: "on", State: new(record.Running)},
		&record.AgentExecution{
			RootPlanID: "on", PlanID: "on", StepID: "a", StepIndex: new(int64(0)), State: new(record.Failed),
			StartTime: storetest.At(0),
		},
		&record.AgentExecution{
			RootPlanID: "on", PlanID: "on", StepID: "b", StepIndex: new(int64(1)), State: new(record.Running),
			StartTime: storetest.At(1),
		},
		&record.AgentExecution{
			RootPlanID: "on", PlanID: "on", StepID: "c", StepIndex: new(int64(2)), State: new(record.Failed),
			StartTime: storetest.At(2),
		})

	p := s.get("/runs/on", http.StatusOK)
	if at := attr(p.one("aria-selected", "true"), "id"); at != "step:b" {
		t.Errorf("%s is open", at)
	}
	if newest := attr(p.one("class", "head"), "data-newest"); newest != "step:b" {
		t.Errorf("the newest is %s", newest)
	}
	if got := text(p.one("class", "count")); got != "2 failures" {
		t.Errorf("it counts %s", got)
	}

	for at, want := range map[string]string{"": "step:c", "step:c": "step:a", "step:a": "step:c"} {
		path := "/runs/on"
		if at != "" {
			path += "?at=" + at
		}
		next, err := url.Parse(attr(s.get(path, http.StatusOK).one("data-key", "e"), "href"))
		if err != nil || next.Query().Get("at") != want {
			t.Errorf("after %q comes %s, want %s", at, next, want)
		}
	}

	var changes []record.Change
	for i := range 12 { // four levels each
		id, parent := fmt.Sprint("p", i), fmt.Sprint("p", i-1)
		plan := &record.Plan{RootPlanID: "p0", CurrentPlanID: id}
		if i > 0 {
			plan.ParentPlanID, plan.ToolCallID = &parent, new("c"+parent)
		}
		changes = append(changes, plan, &record.AgentExecution{RootPlanID: "p0", PlanID: id, StepID: "s" + id},
			&record.ActTool{RootPlanID: "p0", StepID: "s" + id, Seq: 0, ToolCallID: "c" + id})
	}

	storetest.Write(t, s.store, changes...)
	rows := s.get("/runs/p0", http.StatusOK).all("role", "treeitem")
	if last, at32 := text(rows[len(rows)-1]), text(rows[32]); len(rows) != 48 || !strings.Contains(last, "level 48") ||
		strings.Contains(at32, "level") {
		t.Errorf("%d rows, the last is %q", len(rows), last)
	}
}

// A copy says that it is one, and leads to its original in the run from which this one goes on. An address is hostile.
func TestCopies(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})

	storetest.Write(t, s.store,
		&record.Plan{
			RootPlanID: "fork", CurrentPlanID: "fork", ForkedFrom: new("plan:the%20first"), State: new(record.Running),
			StartTime: storetest.At(60),
		},
		&record.AgentExecution{RootPlanID: "fork", PlanID: "fork", StepID: "s", StartTime: storetest.At(61)},
		&record.ThinkAct{
			RootPlanID: "fork", StepID: "s", Seq: 0, ForkedFrom: new("cycle:o/0"), State: new(record.Failed),
			ThinkStartTime: storetest.At(1), ThinkEndTime: storetest.At(2), ErrorMessage: new("of the other run"),
		},
		&record.ThinkAct{RootPlanID: "fork", StepID: "s", Seq: 1, ForkedFrom: new(`"><script>&at=x`)},
		&record.ThinkAct{
			RootPlanID: "fork", StepID: "s", Seq: 2, ThinkStartTime: storetest.At(62), ThinkEndTime: storetest.At(63),
		},
	)

	for at, want := range map[string]struct{ mark, fact, href string }{
		"plan:fork": {"", "plan:the%20first", "/runs/the%20first?at=plan%3Athe%2520first"},
		"cycle:s/0": {"a copy of cycle:o/0", "cycle:o/0", "/runs/the%20first?at=cycle%3Ao%2F0"},
		"cycle:s/1": {`a copy of "><script>&at=x`, `"><script>&at=x`, "/runs/the%20first?at=%22%3E%3Cscript%3E%26at%3Dx"},
		"cycle:s/2": {},
	} {
		p := s.get("/runs/fork?"+url.Values{"at": {at}}.Encode(), http.StatusOK)
		mark, drawn := "", false
		for each := range p.one("id", at).Descendants() {
			if text(each) == "copied" && attr(each, "class") == "more" {
				mark = attr(each, "title")
			}
			drawn = drawn || each.Data == "rect"
		}

		fact, href := "", ""
		for each := range p.detail().Descendants() {
			if each.Data == "a" && strings.HasPrefix(attr(each, "href"), "/runs/the%20first") {
				fact, href = text(each), attr(each, "href")
			}
		}

		if mark != want.mark || fact != want.fact || href != want.href {
			t.Errorf("%s: mark %q, fact %q to %q", at, mark, fact, href)
		}
		if drawn != (want.mark == "") {
			t.Errorf("%s: its time is drawn: %t", at, drawn)
		}
		if at != "cycle:s/0" { // a copy is no failure of the run
			p.lacks("of the other run")
		}
	}
}
