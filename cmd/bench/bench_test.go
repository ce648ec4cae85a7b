package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) {
	if worker := []string{workerCommand}; slices.Equal(os.Args[1:], worker) { // see TestPeers
		os.Exit(run(context.Background(), worker, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// TestBench measures a few figures at a tiny scale and checks what is printed, and where. The gate
// measures everything at one percent.
func TestBench(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	page := filepath.Join(dir, "reporting.md")
	if err := os.WriteFile(page, []byte("## Failures\n```sql\n"+
		"SELECT count(*) FROM actlog.act_tool_info WHERE state = 'FAILED'\n```\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	out, file := new(bytes.Buffer), filepath.Join(dir, "figures.json")
	args := []string{"-bench", "write,call,report,memory", "-scale", "0.001", "-repeats", "1", "-json", file,
		"-reporting", page,
		"-cpuprofile", filepath.Join(dir, "cpu"), "-memprofile", filepath.Join(dir, "mem")}
	if code := run(t.Context(), args, out, out); code != exitDone {
		t.Fatalf("exit code %d:\n%s", code, out)
	}

	encoded, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}

	seen := map[string]int{}
	for _, f := range got.Figures {
		seen[f.Group]++
		if f.Ours == nil || !(f.Ours.Median > 0) || f.Target != nil && f.OK == nil {
			t.Errorf("%s: %s: %+v", f.Group, f.Name, f)
		}
		if f.Baseline != nil && (f.Ratio == nil || !(f.Ratio.Median > 0)) {
			t.Errorf("%s: %s has no ratio: %+v", f.Group, f.Name, f)
		}
		if !strings.Contains(out.String(), f.Group+": "+f.Name) {
			t.Errorf("the table lacks %s: %s", f.Group, f.Name)
		}
	}

	for name, n := range map[string]int{"write": 3, "call": 3, "report": 8, "memory": 2} {
		if seen[name] != n {
			t.Errorf("%d figures of %s, want %d", seen[name], name, n)
		}
	}
	if m := got.Machine; m.Stored < 1 || m.Zstd < m.Stored || m.Postgres == "" || m.FsyncMS <= 0 {
		t.Errorf("the machine: %+v", m)
	}
	for _, profile := range []string{"cpu", "mem"} {
		if info, err := os.Stat(filepath.Join(dir, profile)); err != nil || info.Size() == 0 {
			t.Errorf("profile %s: %v, %v", profile, info, err)
		}
	}
}

// TestPeers: where no other engine can be installed, ours is measured alone, and each of the others says why not.
func TestPeers(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	nothing := filepath.Join(t.TempDir(), "a", "b", "c")
	args := []string{"-bench", groupPeers, "-peers", nothing, "-scale", "0.001", "-repeats", "1"}
	if code := run(t.Context(), args, &out, &out); code != exitDone {
		t.Fatalf("exit code %d:\n%s", code, &out)
	}

	if !strings.Contains(out.String(), "peers: calls a second, 10 runs") {
		t.Errorf("ours was not measured:\n%s", &out)
	}
	for _, p := range peers {
		if want := "peers: " + p.name + ": not measured: it could not be installed: "; !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"-bench write,nothing", exitUsage, "-bench nothing: no such group; the groups are write, http"},
		{"-scale 0", exitUsage, "-scale must be more than 0"},
		{"-texts -1", exitUsage, "-texts must be at least 0"},
		{"-postgres -1", exitUsage, "-postgres must be a major version"},
		{"-bench write -postgres 9", exitFailed, "version 9; "},
		{"-repeats 0", exitUsage, "-repeats must be at least 1"},
		{"write", exitUsage, `"write" is not a flag`},
		{"-dir .", exitFailed, "-dir . must be an empty folder"},
		{"-h", exitDone, "-cpuprofile"},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), strings.Fields(tt.args), &out, &out); code != tt.code ||
			!strings.Contains(out.String(), tt.want) {
			t.Errorf("bench %s: exit code %d, %q; want %d, %q", tt.args, code, &out, tt.code, tt.want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	a := against("x", "s", []float64{2, 6, 9}, []float64{4, 8, 9}, "y", atLeast(0.75))
	if *a.Ratio != (value{0.75, 0.5, 1}) || !*a.OK {
		t.Errorf("the ratio is not the median of the ratios of the turns: %+v, %v", *a.Ratio, *a.OK)
	}
	if b := alone("x", "s", []float64{3, 1, 2, 4}, atMost(2.4)); b.Ours.Median != 2.5 || *b.OK {
		t.Errorf("b.Ours = %+v, %v", *b.Ours, *b.OK)
	}

	var out bytes.Buffer
	if err := (report{Figures: []figure{a, alone("none", "s", nil, nil).noted("not measured")}}).table(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"6 s (2 to 9)", "0.75 (0.5 to 1)", ">= 0.75  ok", "none: not measured"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}

	for v, want := range map[float64]string{
		0: "0", 1234.5: "1234", 0.012345: "0.0123", 12.3: "12.3", 100: "100", math.Inf(1): "+Inf",
	} {
		if got := digits(v); got != want {
			t.Errorf("digits(%v) is %s, want %s", v, got, want)
		}
	}
}

func TestQueriesOf(t *testing.T) {
	t.Parallel()
	page := "# Reports\n```sh\npsql\n```\n## One\ntext\n```sql\nSELECT 1;\n```\n## Two\n```sql\nALTER ROLE x;\n```\n" +
		"```sql\nWITH x AS (SELECT 2)\n-- # no heading\nSELECT * FROM x\n```\n"
	want := []query{{"One", "SELECT 1;"}, {"Two", "WITH x AS (SELECT 2)\n-- # no heading\nSELECT * FROM x"}}
	if got := queriesOf(page); !slices.Equal(got, want) {
		t.Errorf("queriesOf(page) = %q, want %q", got, want)
	}
}

func TestPeriodOfQuery(t *testing.T) {
	t.Parallel()
	q := query{"Slower?", "SELECT at >= now() - interval '7 days' WHERE at >= now() - interval '14 days' - interval '30 minutes'"}
	want := "SELECT at >= now() - interval '360 hours' WHERE at >= now() - interval '720 hours' - interval '30 minutes'"
	if got := q.of(30); got != want {
		t.Errorf("of 30 days: got %s, want %s", got, want)
	}

	q = query{"Last night?", "WHERE at >= now() - interval '12 hours'"}
	if got, want := q.of(1), "WHERE at >= now() - interval '24 hours'"; got != want {
		t.Errorf("of a day: got %s, want %s", got, want)
	}
	if stuck := (query{"Stuck?", "WHERE at < now() - interval '30 minutes'"}); stuck.hasPeriod() {
		t.Errorf("%s has a period", stuck.title)
	}
}

// TestTextIsRealistic: P4: the texts are neither noise nor repetition, compress no better than real
// ones, and depend on the seed. Real English and pages of documentation compress 2.7 times, source
// code and logs more.
func TestTextIsRealistic(t *testing.T) {
	t.Parallel()
	a, b := newText(7), newText(7)
	if !slices.Equal(a.sample(10), b.sample(10)) {
		t.Error("the same seed makes different texts")
	}

	_, changes := a.manySteps(5_000)
	var steps strings.Builder
	for _, c := range changes {
		switch c := c.(type) {
		case *record.AgentExecution:
			steps.WriteString(*c.AgentRequest + *c.Result)
		case *record.ActTool:
			steps.WriteString(*c.Parameters)
		}
	}

	near, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(128<<10))
	if err != nil {
		t.Fatal(err)
	}
	far, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(8<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(near.Close(), far.Close()) }()

	for name, tt := range map[string]struct {
		text string
		most float64
	}{
		"prose": {a.prose, 2.75}, "prompts": {a.prompts, 3.2}, "results": {a.results, 3.5}, "large plan": {steps.String(), 3},
	} {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := w.Write([]byte(tt.text))
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}

		size := float64(len(tt.text))
		gzipped := size / float64(packed.Len())
		nearby := size / float64(len(near.EncodeAll([]byte(tt.text), nil)))
		whole := size / float64(len(far.EncodeAll([]byte(tt.text), nil)))
		t.Logf("%s: gzip %.2f, zstd %.2f, with a large window %.2f", name, gzipped, nearby, whole)

		if gzipped < 2 || gzipped > tt.most {
			t.Errorf("gzip compresses %s %.2f times, %v is the most", name, gzipped, tt.most)
		}
		if whole > 1.15*nearby {
			t.Errorf("%s repeat themselves: zstd compresses them %.2f times, and %.2f times with a large window", name, nearby,
				whole)
		}
	}

	for _, arg := range a.args[:100] {
		if !json.Valid([]byte(arg)) {
			t.Errorf("not JSON: %s", arg)
		}
	}
}
