package otlp

import (
	"slices"

	"github.com/actlog/actlog/internal/record/loosejson"
)

// cutText is a list of messages, or an object around one, that an SDK cut at a limit.
type cutText struct {
	sent  string
	whole string // what can be read of it, as JSON
}

// wholeMessages returns what can be read of a list of messages that was cut, or of an object around one. It reports
// false for any other text. To find out that a text was not cut takes little.
func wholeMessages(s string) (string, bool) {
	if !loosejson.Unclosed(s) {
		return "", false
	}

	whole, ok := loosejson.Complete(s)
	if !ok || !withinDepth(whole) || !hasMessage(whole, true, 0) {
		return "", false
	}
	return whole, true
}

// mend returns a span in which the texts of messages that were cut are whole, and these texts.
func mend(s *Span) (*Span, []cutText) {
	if len(s.Truncated) == 0 {
		return s, nil
	}

	truncated := make(map[string]bool, len(s.Truncated))
	for _, name := range s.Truncated {
		truncated[name] = true
	}

	var cuts []cutText
	mended := *s
	mended.Attributes = mendAttributes(s.Attributes, truncated, &cuts)
	mended.Events = slices.Clone(s.Events)
	for i := range mended.Events {
		e := &mended.Events[i]
		e.Attributes = mendAttributes(e.Attributes, truncated, &cuts)
	}
	return &mended, cuts
}

func mendAttributes(a Attributes, truncated map[string]bool, cuts *[]cutText) Attributes {
	copied := false
	for i := range a {
		if !truncated[a[i].Key] {
			continue
		}

		sent := a[i].Value.Text
		whole, ok := wholeMessages(sent)
		if !ok {
			continue
		}

		if !copied {
			a, copied = slices.Clone(a), true
		}
		a[i].Value.Text = whole
		*cuts = append(*cuts, cutText{sent, whole})
	}
	return a
}
