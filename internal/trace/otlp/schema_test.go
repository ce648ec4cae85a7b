package otlp

import "testing"

// TestEveryFieldIsKnown checks that a new version of OTLP's descriptors has no field whose type or enumeration is
// unknown here: a fault in it could not be described.
func TestEveryFieldIsKnown(t *testing.T) {
	t.Parallel()
	for name, m := range messages {
		for number, f := range m.fields {
			if f.of == nil && (f.value.valid == nil || f.value.must == "a number, or a name such as ") {
				t.Errorf("field %d of %s, %s: must be %q", number, name, f.name, f.value.must)
			}
		}
	}
	if len(messages) < 10 {
		t.Errorf("%d messages", len(messages))
	}
}
