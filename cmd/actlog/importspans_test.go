package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/actlog/actlog/internal/testkit/apitest"
)

// TestImportSpansOfJavaScript: a line may be a span as the SDK for JavaScript has it, as in the file of
// GitHub Copilot CLI: in any order, compressed or not, among records and exports.
func TestImportSpansOfJavaScript(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile(filepath.Join("testdata", "copilot.jsonl"))
	if err != nil {
		t.Fatal(err)
	}

	spans := strings.Split(strings.TrimSpace(string(file)), "\n")
	reversed := slices.Clone(spans)
	slices.Reverse(reversed)
	lines := func(all ...string) []byte { return []byte(strings.Join(all, "\n") + "\n") }
	const plan = "c164534fd69e72a4a3d619570d1c679d"
	const native = `{"kind":"plan","rootPlanId":"p-1","currentPlanId":"p-1","name":"native","state":"COMPLETED"}`
	export := string(asJSON(t, agentRun(7, 1, 0)))
	const metric = `{"type":"metric","descriptor":{"name":"gen_ai.client.token.usage"},"resource":{"attributes":{}}}`

	// Another version of the SDK, with other names.
	second := `{"resource":{"_rawAttributes":[["service.name","copilot"]]},"instrumentationLibrary":{"name":"x"},"_spanContext":{"traceId":"` + plan + `","spanId":"00000000000000aa","traceFlags":1},` +
		`"parentSpanContext":{"traceId":"` + plan +
		`","spanId":"b980610cfaa9d05a","isRemote":false},"name":"execute_tool look","kind":0,"startTime":[1795600001,600000000],"endTime":[1795600001,700000000],` +
		`"attributes":{"gen_ai.operation.name":"execute_tool","gen_ai.tool.name":"look","gen_ai.tool.call.arguments":{"paths":["a","b"]}},"status":{"code":2,"message":"no such file"},"events":[{"name":"exception","time":[1795600001,650000000],"attributes":{"exception.type":"ENOENT"}}],"links":[]}`

	var zipped, packed bytes.Buffer
	gz := gzip.NewWriter(&zipped)
	_, _ = gz.Write(file)
	_ = gz.Close()

	zs, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = zs.Write(file)
	_ = zs.Close()

	for name, c := range map[string]struct {
		content  []byte
		records  int64
		rejected int64
		stderr   string
		want     []string // in what show prints of the plan
	}{
		"the file":        {content: file, records: 2},
		"reversed":        {content: lines(reversed...), records: 2},
		"twice":           {content: lines(append(spans, reversed...)...), records: 4},
		"gzip":            {content: zipped.Bytes(), records: 2},
		"zstd":            {content: packed.Bytes(), records: 2},
		"metrics":         {content: lines(metric, spans[0], metric, spans[1]), records: 2},
		"with no type":    {content: []byte(strings.ReplaceAll(string(file), `"type": "span", `, "")), records: 2},
		"records first":   {content: lines(native, spans[0], export, spans[1]), records: 5},
		"an export first": {content: lines(export, spans[0], native, spans[1]), records: 5},
		"another version": {
			content: lines(spans[0], second, spans[1]), records: 3, want: []string{
				`"latestMethodName":"look"`, `"failures":1`, `"agentName":"copilot"`,
			},
		},
		"unknown kinds": {
			content: lines(spans[0], `{"kind":"nonsense"}`, `{"type":"event","traceId":"`+plan+`"}`, spans[1]), records: 4,
			rejected: 2, stderr: "FILE:2: unknown_kind",
		},
		"a bad time": {
			content: lines(spans[0], `{"type":"span","traceId":"`+plan+`","spanId":"00000000000000aa","startTime":["x"]}`,
				spans[1]), records: 3, rejected: 1,
			stderr: "FILE:2: malformed: reading a span: startTime must be [seconds, nanoseconds]",
		},
		"no ids": {
			content: lines(spans[0], `{"type":"span","name":"x"}`, spans[1]), records: 3, rejected: 1,
			stderr: "FILE:2: malformed: reading a span: traceId must be 32 hex digits",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := serve(t, apitest.Config{}, nil)
			got, code, stderr := importOf(t, url, c.content)
			if (code == exitDone) != (c.rejected == 0) || got.Records != c.records || got.Written != c.records-c.rejected ||
				!strings.Contains(stderr, c.stderr) {
				t.Fatalf("exit code %d, %+v: %s", code, got, stderr)
			}

			out := must(t, "show", plan, "--json", "--server", url)
			for _, want := range append(c.want, `"cp-1"`, "gpt-5-mini", "COMPLETED", `"inputTokens": 100`, `"outputTokens": 5`) {
				if !strings.Contains(out, want) && !strings.Contains(out, strings.ReplaceAll(want, ": ", ":")) {
					t.Errorf("no %s in %s", want, out)
				}
			}
			if strings.Contains(string(c.content), native) {
				must(t, "show", "p-1", "--server", url)
				must(t, "show", agentRunID(7), "--server", url)
			}
		})
	}
}
