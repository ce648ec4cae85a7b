package otlp_test

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/actlog/actlog/internal/trace/otlp"
)

// TestMemoryOfLongTraces checks that what is allocated for a trace grows with its length, and not with the square of
// it. It does not run beside other tests, whose memory would count too.
func TestMemoryOfLongTraces(t *testing.T) {
	allocated := func(n int, shape string) uint64 {
		spans := shaped(n, shapes[shape])
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		otlp.Project(spans)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}

	for shape := range shapes {
		small, large := allocated(1_000, shape), allocated(8_000, shape)
		if large > 2*8*small {
			t.Errorf("%s: %d bytes for 1,000 spans, %d for 8,000", shape, small, large)
		}
	}
}

// TestDeepTraces checks that spans in each other take no stack: the program ends if one is larger than this. It does
// not run beside other tests, for which the limit would count too.
func TestDeepTraces(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	const n = 20_000
	below := shaped(n, shapes["parts in each other"])
	for i := range below[:n-1] { // of a web server
		below[i].Name, below[i].Attributes = "GET /", nil
	}

	for shape, spans := range map[string][]otlp.Span{
		"chain": shaped(n, shapes["chain"]), "asides": shaped(n, shapes["asides in each other"]),
		"parts": shaped(n, shapes["parts in each other"]), "a part below": below,
	} {
		if rows := otlp.Project(spans); len(rows) == 0 {
			t.Errorf("%s: no rows", shape)
		}
	}
}

// TestNamesOfCutTexts checks that a row has each name of what was cut in its spans once, and not too many.
func TestNamesOfCutTexts(t *testing.T) {
	t.Parallel()
	r := sorted(otlp.Project(shaped(500, shapes["cut texts of one call"])))
	if len(r.cycles) != 1 {
		t.Fatalf("%d cycles", len(r.cycles))
	}

	var metadata struct{ TruncatedAttributes []string }
	if err := json.Unmarshal(r.cycles[0].Metadata, &metadata); err != nil {
		t.Fatal(err)
	}
	names := metadata.TruncatedAttributes
	if len(names) != 100 || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != 100 {
		t.Errorf("%d names: %q", len(names), names)
	}
}
