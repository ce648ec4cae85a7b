package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
)

// TestUnknown: O5: the command lists what was sent and is not shown, and an import warns of it.
func TestUnknown(t *testing.T) {
	t.Parallel()
	url, _ := serve(t, apitest.Config{}, nil)
	code, stdout, stderr := actlog(t, "unknown", "--server", url)
	if code != exitDone || stdout != "" || !strings.Contains(stderr, "all spans") {
		t.Errorf("at first: %d %q %q", code, stdout, stderr)
	}

	strange := agentRun(1, 0, 0)
	spans := strange.ResourceSpans().At(0).ScopeSpans().At(0)
	spans.Scope().SetName("acme\x1b[2J\tsdk")
	spans.Spans().At(0).Attributes().Clear()
	spans.Spans().At(0).Attributes().PutStr("acme.span.kind", "AGENT")
	spans.Spans().At(0).Attributes().PutStr("acme.\nprompt", "secret")
	file := fileOf(t, protobuf(t, strange))

	code, _, stderr = actlog(t, "import", file, "--server", url)
	if code != exitDone || !strings.Contains(stderr,
		filepath.Base(file)+": the spans were kept, but none of them is understood") {
		t.Errorf("code = %d %q", code, stderr)
	}
	if err := overHTTP(http.DefaultClient, url)(t.Context(), agentRun(2, 1, 1)); err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()

	out := must(t, "unknown", "--server", url)
	for _, want := range []string{
		"\nnot_understood: Spans that look like", "COUNT  LAST SEEN",
		"acme [2J sdk  acme.span.kind=AGENT  acme. prompt acme.span.kind\n", "\nno_plan: ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%q", want, out)
		}
	}

	if strings.Contains(out, "secret") || strings.Contains(out, "\x1b") {
		t.Errorf("unknown = %q", out)
	}
	if out := must(t, "unknown", "--json", "--server", url); strings.Count(out, "\n") != 2 ||
		!strings.HasPrefix(out, `{"reason":"not_understood",`) {
		t.Errorf("unknown = %v", out)
	}
}
