package otlp_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/trace/otlp"
)

// script is a trace written by hand. Ids are small numbers, times are milliseconds.
type script struct {
	About    string // what it is an example of
	Scope    otlp.Scope
	Resource otlp.Attributes
	Spans    []struct {
		ID, Parent, Name string
		Remote, Stub     bool
		Kind             int32
		Logged           bool
		Start, End       int64
		Status           int32
		Message          string
		Scope            otlp.Scope
		Attributes       otlp.Attributes
		Events           []otlp.Event
	}
}

const noon = 1_795_176_000_000 // in milliseconds; 2026-11-20T12:00:00Z

func readScript(t testing.TB, path string) []otlp.Span {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parseScript(t, path, b)
}

// parseScript returns the spans of a script. The name is for errors.
func parseScript(t testing.TB, name string, b []byte) (spans []otlp.Span) {
	t.Helper()
	var s script
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatalf("%s: %v", name, err)
	}

	at := func(ms int64) int64 {
		if ms == 0 {
			return 0
		}
		return (noon + ms) * 1_000_000
	}
	id := func(s string) string {
		if s == "" {
			return ""
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%016x", n)
	}

	for _, in := range s.Spans {
		out := otlp.Span{
			TraceID: strings.Repeat("a", 32), SpanID: id(in.ID), ParentID: id(in.Parent), RemoteParent: in.Remote,
			Stub: in.Stub, Name: in.Name, Kind: in.Kind, Logged: in.Logged,
			Start: at(in.Start), End: at(in.End), Status: in.Status, StatusMessage: in.Message,
			Attributes: in.Attributes, Events: in.Events, Scope: s.Scope, Resource: s.Resource,
		}
		if in.Scope.Name != "" {
			out.Scope = in.Scope
		}
		for i := range out.Events {
			out.Events[i].Time = at(out.Events[i].Time)
		}
		spans = append(spans, out)
	}
	return spans
}

// scripts returns the paths of the traces written by hand.
func scripts(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}

	files = slices.DeleteFunc(files, func(path string) bool { return filepath.Base(filepath.Dir(path)) == "fixtures" })
	if len(files) < 12 {
		t.Errorf("%d traces", len(files))
	}
	return files
}

// TestConventions: testdata has one folder per convention, with traces and their rows. The first line
// of a golden file is the shape of the tree.
func TestConventions(t *testing.T) {
	t.Parallel()
	for _, path := range scripts(t) {
		t.Run(strings.TrimSuffix(filepath.ToSlash(path), ".json")[len("testdata/"):], func(t *testing.T) {
			t.Parallel()
			spans := readScript(t, path)
			changes := project(t, spans)
			golden(t, strings.TrimSuffix(path, ".json")+".golden", outline(changes)+"\n"+lines(t, changes))
			anyOrder(t, spans)
		})
	}
}
