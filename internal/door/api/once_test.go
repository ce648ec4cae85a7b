package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/door/api"
	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
)

// together is what docs/api.md shows: the text of parts.
func together(t testing.TB, contents obj, parts []any) string {
	t.Helper()
	var text strings.Builder
	for _, part := range parts {
		c, ok := contents[part.(string)].(obj)
		if !ok {
			t.Fatalf("content %v is missing", part)
		}
		if pieces, ok := c["parts"].([]any); ok {
			text.WriteString(together(t, contents, pieces))
		} else {
			text.WriteString(c["body"].(string))
		}
	}
	return text.String()
}

// whole puts the texts of a step together, and takes what only contents=once has out of it.
func whole(t testing.TB, step obj) obj {
	t.Helper()
	contents := step["contents"].(obj)
	delete(step, "contents")
	for _, cycle := range step["thinkActSteps"].([]any) {
		cycle := cycle.(obj)
		parts, inParts := cycle["thinkInputParts"]
		if !inParts {
			t.Error("no thinkInputParts")
		}
		delete(cycle, "thinkInputParts")

		if parts != nil {
			if cycle["thinkInput"] != nil {
				t.Error("parts stand beside the text")
			}
			cycle["thinkInput"] = together(t, contents, parts.([]any))
		}
	}
	return step
}

// longPrompts writes a step whose prompts grow: the last ones have more than 16 pieces, so they have pages.
func (c *client) longPrompts(root string, cycles int) {
	c.T.Helper()
	var said strings.Builder
	for i := range cycles {
		for j := range 80 {
			fmt.Fprintf(&said, "In cycle %d the agent of %s said «%d», ünd %x. ", i, root, j,
				uint64(i*100+j+1)*0x9e3779b97f4a7c15)
		}
		c.Write(cycle(root, "s", i, obj{"thinkInput": said.String(), "thinkOutput": fmt.Sprint("answer ", i)}),
			tool(root, "s", i, fmt.Sprint("call-", i)))
	}

	c.Write(cycle(root, "s", cycles, obj{"thinkInput": "short"}), cycle(root, "s", cycles+1))
}

// cutting are the ways in which servers may cut texts.
var cutting = map[string]func(*store.Config){
	"small":   func(*store.Config) {},
	"default": func(c *store.Config) { c.Contents = content.DefaultSizes },
}

// TestAStepWithContentsOnce: put together, it is the step as usual. Each content is there once, and first.
func TestAStepWithContentsOnce(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is read, and how much of it")
	t.Parallel()
	for name, sizes := range cutting {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serveWith(t, options{Store: sizes})
			c.longPrompts("p", 12)
			for _, path := range []string{"/api/v1/steps/s", agentExecution + "s"} {
				want := c.Read(path)
				a := wantStatus(t, c.Get(path+"?contents=once"), http.StatusOK)
				if !bytes.HasPrefix(a.Body, []byte(`{"contents":{`)) || a.Header.Get("ETag") == "" {
					t.Errorf("%.100s, ETag %q", a.Body, a.Header.Get("ETag"))
				}

				once := a.JSON(t).(obj)
				if n := len(once["contents"].(obj)); n != bytes.Count(a.Body, []byte(`":{"body":`))+
					bytes.Count(a.Body, []byte(`":{"parts":`)) || n == 0 {
					t.Errorf("%d contents: some come twice, or none is there", n)
				}
				if name == "small" && !bytes.Contains(a.Body, []byte(`":{"parts":`)) {
					t.Error("no prompt has pages")
				}

				if diff := cmp.Diff(want, any(whole(t, once))); diff != "" {
					t.Errorf("(-usual +put together):\n%s", diff)
				}
				wantStatus(t, c.Do(http.MethodGet, path+"?contents=once", nil, "If-None-Match", a.Header.Get("ETag")),
					http.StatusNotModified)
			}
		})
	}
}

// TestThePythonOfTheDocs puts texts together as docs/api.md shows.
func TestThePythonOfTheDocs(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no Python") // make python, which installs it, runs this test
	}
	docs, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}

	_, code, _ := strings.Cut(string(docs), "\n```python\n")
	code, _, ok := strings.Cut(code, "\n```\n")
	if !ok {
		t.Fatal("docs/api.md has no Python")
	}

	c := serve(t)
	c.longPrompts("p", 6)
	cmd := exec.CommandContext(t.Context(), python, "-c",
		"import json, sys\nstep = json.load(sys.stdin)\n"+code+
			"\njson.dump([c['thinkInput'] for c in step['thinkActSteps']], sys.stdout)")
	cmd.Stdin = bytes.NewReader(c.Get("/api/v1/steps/s?contents=once").Body)

	out, err := cmd.Output()
	var got, want []any
	if err != nil || json.Unmarshal(out, &got) != nil {
		t.Fatalf("%v: %.500s", err, out)
	}

	for _, cycle := range lookup(t, c.Read("/api/v1/steps/s"), "thinkActSteps").([]any) {
		want = append(want, cycle.(obj)["thinkInput"])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestALargeStepWithContentsOnce: a step that is streamed says the same, and begins with its contents.
func TestALargeStepWithContentsOnce(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is read, and how much of it")
	t.Parallel()
	c := serveWith(t, options{Store: cutting["default"]})
	c.longPrompts("p", 12)
	c.Exec(`UPDATE actlog.think_act_record SET think_output = repeat('0123456789', 100000)`) // 14 MB

	// the second time it is known to be large
	for range 2 {
		want := c.Read("/api/v1/steps/s")
		a := wantStatus(t, c.Get("/api/v1/steps/s?contents=once"), http.StatusOK)
		if !bytes.HasPrefix(a.Body, []byte(`{"contents":{`)) || a.Header.Get("ETag") != "" {
			t.Errorf("%.100s, ETag %q", a.Body, a.Header.Get("ETag"))
		}
		if got := any(whole(t, a.JSON(t).(obj))); !cmp.Equal(want, got) {
			t.Error("put together, it is another step")
		}
	}

	c.WantMetric("actlog_http_answer_bytes", 0)
}

// TestContentsAreOnceOrWhole: any other value is refused.
func TestContentsAreOnceOrWhole(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p"), step("p", "p", "s"))
	for _, path := range []string{"/api/v1/steps/s", agentExecution + "s", exported("p")} {
		wantProblem(t, c.Get(path+"?contents=twice"), http.StatusBadRequest, "contents")
		wantStatus(t, c.Get(path+"?contents="), http.StatusOK)
		wantStatus(t, c.Do(http.MethodHead, path+"?contents=once", nil), http.StatusOK)
	}

	if a := c.Get("/api/v1/steps/s?contents=once"); !bytes.HasPrefix(a.Body, []byte(`{"contents":{},"id":`)) {
		t.Errorf("a step without prompts: %.100s", a.Body)
	}
}

// TestRowsOnceAreEncodedAsTheWhole: row by row a step is the same bytes.
func TestRowsOnceAreEncodedAsTheWhole(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.longPrompts("p", 3)
	st, contents, err := s.Store.StepDetailOnce(t.Context(), "", "s")
	if err != nil {
		t.Fatal(err)
	}

	if got, want := api.EncodeStepRows(st, contents),
		append(api.EncodeStepOnce(st, contents), '\n'); !bytes.Equal(got, want) {
		t.Errorf("api.EncodeStepRows(st, contents):\n%s\nwant\n%s", got, want)
	}
}

// TestExportWithContentsOnce: each content comes once, before what names it; put together, the lines are those of the
// usual export. Servers do not take them as records.
func TestExportWithContentsOnce(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is read, and how much of it")
	t.Parallel()
	for name, sizes := range cutting {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serveWith(t, options{Store: sizes})
			c.longPrompts("p", 12)
			read := func(path string) (lines []obj) {
				for line := range bytes.Lines(wantStatus(t, c.Get(path), http.StatusOK).Body) {
					var o obj
					if err := json.Unmarshal(line, &o); err != nil {
						t.Fatal(err)
					}
					lines = append(lines, o)
				}
				return lines
			}

			want, contents := read(exported("p")), obj{}
			var got []obj
			for _, line := range read(exported("p") + "?contents=once") {
				if line["kind"] == "content" {
					hash := line["hash"].(string)
					if contents[hash] != nil || line["rootPlanId"] != "p" {
						t.Errorf("content %s of %v comes again", hash, line["rootPlanId"])
					}
					contents[hash] = line
					continue
				}

				if parts, ok := line["thinkInputParts"].([]any); ok {
					delete(line, "thinkInputParts")
					line["thinkInput"] = together(t, contents, parts)
				}
				got = append(got, line)
			}

			if len(contents) == 0 {
				t.Error("no contents")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-usual +put together):\n%s", diff)
			}
		})
	}

	c := serve(t)
	c.longPrompts("p", 1)
	for line := range bytes.Lines(c.Get(exported("p") + "?contents=once").Body) {
		a := c.Do(http.MethodPost, "/api/v1/records", bytes.NewReader(line), "Content-Type", "application/x-ndjson")
		inParts := bytes.Contains(line, []byte("thinkInputParts")) || bytes.HasPrefix(line, []byte(`{"kind":"content"`))

		if refused := a.Status == http.StatusUnprocessableEntity; refused != inParts {
			t.Errorf("%.100s: %d %s", line, a.Status, a.Body)
		}
		if inParts && !slices.ContainsFunc([]string{"unknown_kind", "unknown_field"}, func(code string) bool {
			return bytes.Contains(a.Body, []byte(code))
		}) {
			t.Errorf("a.Body = %s", a.Body)
		}
	}
}
