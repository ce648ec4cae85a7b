package recorder_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

func TestLinkText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ö", 127) // every byte is escaped
	for _, link := range []recorder.Link{
		{RootPlanID: "r", PlanID: "p"},
		{RootPlanID: "r", PlanID: "p", StepID: "s"},
		{RootPlanID: "r", PlanID: "p", StepID: "s", ToolCallID: "t"},
		{
			RootPlanID: "a&b=c;d", PlanID: "x, \"y\"\r\nInjected: 1", StepID: "%41+é", Seq: 1<<31 - 1, ToolCallID: "日本",
			Project: "a b",
		},
		{RootPlanID: long, PlanID: long, StepID: long, Seq: 1<<31 - 1, ToolCallID: long, Project: long},
	} {
		text := link.String()
		if len(text) > recorder.MaxLinkBytes || strings.ContainsFunc(text, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune(`",;`, r)
		}) {
			t.Errorf("text of %d bytes is %q", len(text), text)
		}
		if got, err := recorder.ParseLink(text); err != nil || got != link {
			t.Errorf("%q is parsed as %+v, %v", text, got, err)
		}
	}

	if text := (recorder.Link{}).String(); text != "" {
		t.Errorf("no link is %q", text)
	}

	// The project of a plan may be longer than what the record keeps.
	cut := recorder.Link{RootPlanID: "r", PlanID: "p", Project: strings.Repeat("x", 300)}
	if got, err := recorder.ParseLink(cut.String()); err != nil || len(got.Project) != record.MaxIDBytes {
		t.Errorf("recorder.ParseLink(cut.String()) = %+v, %v", got, err)
	}
	if _, err := recorder.ParseLink("root=r&plan=p&colour=blue"); err != nil {
		t.Errorf("the link of a newer writer is refused: %v", err)
	}
}

func TestParseLinkRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":        "",
		"no root":        "plan=p",
		"no plan":        "root=r",
		"a blank plan":   "root=r&plan=+",
		"twice":          "root=r&root=q&plan=p",
		"no step":        "root=r&plan=p&tool=t&seq=0",
		"no number":      "root=r&plan=p&step=s&seq=x&tool=t",
		"below zero":     "root=r&plan=p&step=s&seq=-1&tool=t",
		"beyond range":   "root=r&plan=p&step=s&seq=2147483648&tool=t",
		"a bad escape":   "root=%zz&plan=p",
		"a semicolon":    "root=r;plan=p",
		"a NUL":          "root=r&plan=%00p",
		"no UTF-8":       "root=r&plan=%ff",
		"a long id":      "root=r&plan=" + strings.Repeat("x", 256),
		"a long project": "root=r&plan=p&project=" + strings.Repeat("x", 256),
		"too long":       "root=r&plan=p&x=" + strings.Repeat("x", recorder.MaxLinkBytes),
	} {
		var invalid *record.InvalidError
		if link, err := recorder.ParseLink(text); !errors.As(err, &invalid) || link != (recorder.Link{}) {
			t.Errorf("%s: got %+v, %v", name, link, err)
		}
	}
}

func TestLinkInAHeader(t *testing.T) {
	t.Parallel()
	link := recorder.Link{RootPlanID: "r", PlanID: "p", StepID: "s", ToolCallID: "t"}
	ctx := recorder.ContextWithLink(t.Context(), link)
	header := http.Header{}
	recorder.Inject(ctx, header)

	got, err := recorder.Extract(t.Context(), header)
	ok(t, err)
	if l, carried := recorder.LinkFrom(got); !carried || l != link {
		t.Errorf("recorder.LinkFrom(got) = %+v", l)
	}

	recorder.Inject(recorder.ContextWithLink(ctx, recorder.Link{}), header)
	if len(header) != 0 {
		t.Errorf("header is %v, want none without a link", header)
	}
	got, err = recorder.Extract(ctx, header)
	ok(t, err)
	if l, _ := recorder.LinkFrom(got); l != link {
		t.Errorf("without a header the link became %+v", l)
	}

	for _, bad := range []http.Header{
		{recorder.LinkHeader: {"nonsense"}},
		{recorder.LinkHeader: {link.String(), link.String()}},
	} {
		var invalid *record.InvalidError
		if got, err := recorder.Extract(t.Context(), bad); !errors.As(err, &invalid) || got != t.Context() {
			t.Errorf("%v: got %v, %v", bad, got, err)
		}
	}
}

func FuzzParseLink(f *testing.F) {
	f.Add("root=r&plan=p&step=s&seq=3&tool=t&project=x")
	f.Add("root=%C3%B6&plan=+p")
	f.Fuzz(func(t *testing.T, text string) {
		link, err := recorder.ParseLink(text)
		if err != nil {
			return
		}
		if again, err := recorder.ParseLink(link.String()); err != nil || again != link {
			t.Errorf("%q is parsed as %+v, and that as %+v, %v", text, link, again, err)
		}
	})
}
