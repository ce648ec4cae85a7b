package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestExportAndImportWithContentsOnce copies a tree whose prompts repeat each other. The copy has the same rows, and
// the same contents: also of texts that were cut to their limit, that have more than 16 pieces, and that are at a later
// revision.
func TestExportAndImportWithContentsOnce(t *testing.T) {
	t.Parallel()
	from, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s, fullRun()...)
	said := strings.Builder{}
	for i := range int64(6) {
		fmt.Fprintf(&said, "%d: %s", i,
			strings.Repeat(fmt.Sprintf("«%d» ünd <&> %x ", i, uint64(i+1)*0x9e3779b97f4a7c15), 100))
		storetest.Write(t, s, &record.ThinkAct{
			RootPlanID: "plan-1", StepID: "step-9", Seq: i, ThinkInput: new(said.String()), ThinkOutput: new("yes"),
		})
	}

	long := strings.Repeat("é", record.MaxTextBytes/2) + "é"
	storetest.Write(t, s, &record.ThinkAct{
		RootPlanID: "plan-1", StepID: "step-9", Seq: 7, ThinkInput: &long, Rev: new(int64(3)),
	})
	storetest.Write(t, s, &record.ThinkAct{
		RootPlanID: "plan-1", StepID: "step-9", Seq: 7, ThinkInput: new("superseded"), ThinkOutput: new("older"),
		Rev: new(int64(2)),
	})
	plain := must(t, "export", "plan-1", "--server", from)

	file := filepath.Join(t.TempDir(), "tree.zst")
	_, _, stderr := actlog(t, "export", "plan-1", "--contents", "once", "--server", from, "-o", file)
	if !strings.Contains(stderr, " lines\n") {
		t.Errorf("stderr = %v", stderr)
	}

	to, copied := serve(t, apitest.Config{}, nil)
	var got imported
	if err := json.Unmarshal([]byte(must(t, "import", file, "--json", "--server", to)), &got); err != nil {
		t.Fatal(err)
	}
	if records := int64(strings.Count(plain, "\n")); got.Records != records || got.Written != records {
		t.Errorf("%+v, want %d records", got, records)
	}
	if must(t, "export", "plan-1", "--server", to) != plain {
		t.Error("the copy is another tree")
	}

	for _, rows := range []string{
		// A text that was cut is exported with its number of characters, here as in the usual form.
		"SELECT string_agg(md5((to_jsonb(r) - ARRAY['id', 'first_seen_at', 'told_input_char_count', 'revs'])::text), ' ' " +
			"ORDER BY step_id, seq) FROM actlog.think_act_record AS r",
		"SELECT string_agg(md5(to_jsonb(r)::text), ' ' ORDER BY hash) FROM actlog.content AS r WHERE r.body IS DISTINCT " +
			"FROM 'superseded'",
	} {
		if diff := cmp.Diff(strings.Fields(storetest.Query[string](t, s, rows)),
			strings.Fields(storetest.Query[string](t, copied, rows))); diff != "" {
			t.Errorf("%s (-original +copy):\n%s", rows, diff)
		}
	}

	once := must(t, "export", "plan-1", "--contents", "once", "--server", from)
	if strings.Contains(once, "superseded") {
		t.Error("a content that no text has any more is exported")
	}
	if must(t, "export", "plan-1", "--contents", "once", "--server", to) != once {
		t.Error("with contents once, the copy is another tree")
	}

	must(t, "import", file, "--server", from)
	if must(t, "export", "plan-1", "--server", from) != plain {
		t.Error("the import into the first server changed something")
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "actlog-import-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if code, _, stderr := actlog(t, "export", "plan-1", "--contents", "twice"); code != exitUsage ||
		!strings.Contains(stderr, "--contents") {
		t.Errorf("code = %d %s", code, stderr)
	}
}

// TestImportOfBadContents: a file that does not hold together is refused, line by line, and the rest is written.
func TestImportOfBadContents(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)

	piece := func(text string) string {
		return fmt.Sprintf(`{"kind":"content","rootPlanId":"p","hash":"%s","body":%q}`, content.HashOf(text), text)
	}
	list := func(hashes ...content.Hash) string {
		b, _ := json.Marshal(hashes)
		return string(b)
	}
	page := func(hash content.Hash, parts ...content.Hash) string {
		return fmt.Sprintf(`{"kind":"content","rootPlanId":"p","hash":"%s","parts":%s}`, hash, list(parts...))
	}
	cycle := func(root string, parts ...content.Hash) string {
		return fmt.Sprintf(`{"kind":"thinkAct","rootPlanId":%q,"stepId":"s","seq":0,"thinkInputParts":%s}`, root,
			list(parts...))
	}

	a, b := content.HashOf("a"), content.HashOf("b")
	ab := content.PageOf([]content.Hash{a, b})
	large := strings.Repeat("x", 1<<20)
	xs := content.HashOf(large)

	for name, tt := range map[string]struct {
		lines []string
		want  string
	}{
		"good": {
			[]string{piece("a"), piece("a"), piece("b"), page(ab.Hash, a, b), cycle("p", ab.Hash, a)}, "",
		},
		"another hash": {
			[]string{strings.Replace(piece("a"), `"a"`, `"c"`, 1)},
			":1: invalid_value: hash is not that of the content, which is " + content.HashOf("c").String(),
		},
		"another hash of a page": {[]string{piece("a"), page(b, a)}, ":2: invalid_value: hash is not that"},
		"no hash": {
			[]string{`{"kind":"content","rootPlanId":"p","body":"a"}`}, ":1: missing_field: hash is required",
		},
		"no tree": {
			[]string{`{"kind":"content","body":"a"}`}, ":1: missing_field: rootPlanId is required",
		},
		"neither": {
			[]string{fmt.Sprintf(`{"kind":"content","rootPlanId":"p","hash":"%s"}`, a)}, ":1: invalid_value: body or parts",
		},
		"both": {
			[]string{strings.Replace(page(ab.Hash, a), `"parts"`, `"body":"a","parts"`, 1)}, ":1: invalid_value: body or parts",
		},
		"an unknown field": {
			[]string{strings.Replace(piece("a"), `"body"`, `"text"`, 1)}, ":1: unknown_field: text is no field of content",
		},
		"a body that is none": {
			[]string{fmt.Sprintf(`{"kind":"content","rootPlanId":"p","hash":"%s","body":1}`, a)},
			":1: invalid_value: body must be a string",
		},
		"parts that are none": {
			[]string{strings.Replace(page(a, a), list(a), `["zz"]`, 1)}, ":1: invalid_value: parts must be a list of hashes",
		},
		"a missing content": {
			[]string{piece("a"), cycle("p", a, b)},
			":2: invalid_value: thinkInputParts names " + b.String() + ", a content that is not in the lines before",
		},
		"that of another tree": {
			[]string{piece("a"), cycle("q", a)}, ":2: invalid_value: thinkInputParts names " + a.String(),
		},
		"a missing piece": {
			[]string{piece("a"), page(ab.Hash, a, b)}, ":2: invalid_value: parts names " + b.String(),
		},
		"a page that names itself": {[]string{page(a, a)}, ":1: invalid_value: hash is not that"},
		"a page of pages": {
			[]string{piece("a"), piece("b"), page(ab.Hash, a, b), page(content.PageOf([]content.Hash{ab.Hash}).Hash, ab.Hash)},
			":4: invalid_value: parts names " + ab.Hash.String() + ", which is a list",
		},
		"a text that grows too long": {
			[]string{piece(large), cycle("p", xs, xs, xs, xs, xs)}, ":2: invalid_value: thinkInputParts names over ",
		},
		"text and parts": {
			[]string{piece("a"), strings.Replace(cycle("p", a), `"seq"`, `"thinkInput":"a","seq"`, 1)},
			":2: invalid_value: thinkInputParts replaces thinkInput, so only one of them can be sent",
		},
		"parts of another kind": {
			[]string{`{"kind":"plan","rootPlanId":"p","currentPlanId":"p","thinkInputParts":[]}`},
			":1: unknown_field: thinkInputParts",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "f")
			lines := append(tt.lines, `{"kind":"plan","rootPlanId":"other","currentPlanId":"other"}`)
			if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}

			code, stdout, stderr := actlog(t, "import", file, "--json", "--server", url)
			if (code == exitDone) != (tt.want == "") || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d\n%.2000s", code, stderr)
			}

			var got imported
			if err := json.Unmarshal([]byte(stdout), &got); err != nil || got.Written != got.Records-got.Rejected ||
				got.Written == 0 {
				t.Errorf("%+v %v", got, err)
			}
			if tt.want == "" {
				if text := *storetest.StepDetail(t, s, "s").Cycles[0].Record.ThinkInput; text != "aba" {
					t.Errorf("text = %q", text)
				}
			}
		})
	}
}
