package otlp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

// TestStartedBy checks that the root plan of a trace says what started it, as its spans or their resource do, and
// nothing below it.
func TestStartedBy(t *testing.T) {
	t.Parallel()
	text := func(key, value string) otlp.Attribute {
		return otlp.Attribute{Key: key, Value: otlp.Value{Text: value}}
	}

	by := otlp.Attributes{text("actlog.started_by.plan_id", "plan-1"), text("actlog.started_by.tool_call_id", "call-1")}
	for where, add := range map[string]func(*otlp.Span){
		"attributes": func(s *otlp.Span) { s.Attributes = append(s.Attributes, by...) },
		"resource":   func(s *otlp.Span) { s.Resource = append(s.Resource, by...) },
	} {
		spans := copied(readScript(t, scripts(t)[0]))
		for i := range spans {
			add(&spans[i])
			for _, a := range []otlp.Attributes{spans[i].Attributes, spans[i].Resource} {
				slices.SortFunc(a, func(a, b otlp.Attribute) int { return strings.Compare(a.Key, b.Key) })
			}
		}

		plans := 0
		for _, c := range project(t, spans) {
			p, ok := c.(*record.Plan)
			if !ok {
				continue
			}

			plans++
			want := ""
			if p.IsRoot() {
				want = `{"planId":"plan-1","toolCallId":"call-1"}`
			}
			if string(p.StartedBy) != want {
				t.Errorf("%s: startedBy of plan %s is %s, want %s", where, p.CurrentPlanID, p.StartedBy, want)
			}
		}
		if plans == 0 {
			t.Errorf("%s: the trace has no plan", where)
		}
	}
}
