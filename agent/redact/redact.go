package redact

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// Counts says how many parts of texts were replaced, by kind. Regular expressions count as
// "redacted". It is nil if there were none.
type Counts map[string]int

// kindOther is the kind of regular expressions.
const kindOther = "redacted"

// Redactor replaces what matches its patterns. Its methods may be called at the same time. The zero
// Redactor, and a nil one, replace nothing.
type Redactor struct {
	patterns []kind
}

// New returns a Redactor of patterns: names of kinds (see [Kinds]) or regular expressions. All errors
// are returned at once, with the index of the pattern, and without what it says.
func New(patterns ...string) (*Redactor, error) {
	r := &Redactor{}
	var own []kind
	var errs []error
	for i, text := range patterns {
		if at := slices.Index(Kinds(), text); at >= 0 {
			if !slices.ContainsFunc(r.patterns, func(k kind) bool { return k.name == text }) {
				r.patterns = append(r.patterns, kinds[at])
			}
			continue
		}

		k, err := custom(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("pattern %d: %w", i+1, err))
			continue
		}
		own = append(own, k)
	}

	slices.SortFunc(r.patterns, func(a, b kind) int {
		return slices.Index(Kinds(), a.name) - slices.Index(Kinds(), b.name)
	})
	r.patterns = append(own, r.patterns...)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

// Check returns an error if the pattern is neither a kind nor a regular expression that can be used.
// The error does not have the pattern, unless it is a plain word.
func Check(pattern string) error {
	if slices.Contains(Kinds(), pattern) {
		return nil
	}
	_, err := custom(pattern)
	return err
}

var plainWord = regexp.MustCompile(`^[A-Za-z][A-Za-z_-]{0,30}$`)

func custom(text string) (kind, error) {
	if plainWord.MatchString(text) {
		// Most likely the name of a kind with a mistake, which would replace nothing.
		return kind{}, fmt.Errorf("no kind is called %q; there are: %s; to replace the word itself, write (?:%s)", text,
			strings.Join(Kinds(), ", "), text)
	}

	e, err := regexp.Compile(text)
	if err != nil {
		reason := "it cannot be read"
		if wrong, ok := errors.AsType[*syntax.Error](err); ok {
			reason = wrong.Code.String() // without the expression, which may be a secret
		}
		return kind{}, fmt.Errorf("not a regular expression (RE2): %s", reason)
	}
	if e.MatchString("") {
		return kind{}, errors.New("the regular expression matches the empty text")
	}
	return kind{name: kindOther, find: matches(e), open: openMatch(text)}, nil
}

// spareRounds bounds how often a part of a text is searched again. Each pattern that matches takes a
// round; these are for patterns that match again in what they left.
const spareRounds = 8

// Text returns the text with a marker for each match, and what was replaced. Markers in a text are
// kept, and split it: what stands between two markers is a text of its own. So nothing more changes
// if a text is redacted again.
func (r *Redactor) Text(text string) (string, Counts) {
	if r == nil || len(r.patterns) == 0 {
		return text, nil
	}

	w := writer{patterns: r.patterns}
	parts := w.split(text)
	for i, part := range parts {
		if i%2 == 0 {
			w.writePlain(part, 0)
		} else {
			w.out.WriteString(part)
		}
	}

	if w.counts == nil {
		return text, nil
	}
	return w.out.String(), w.counts
}

// maxMarker is how long a marker may be, in bytes.
const maxMarker = 16

// Settling returns a function for a text that still grows, which is called with more of it each time. It returns how
// much of the text can be shown, in bytes: where the end may be the beginning of something to replace, that is left
// out.
func (r *Redactor) Settling() func(text string) int {
	if r == nil || len(r.patterns) == 0 {
		return func(text string) int { return len(text) }
	}

	upTo, split := 0, false
	return func(text string) int {
		if !split {
			recent := text[max(0, upTo-maxMarker):] // of an older part it is known
			_, counts := r.Text(recent)
			split = counts != nil || markers.MatchString(recent)
		}
		upTo = r.stable(text, upTo, split)
		return upTo
	}
}

// stable returns how much of a text cannot change any more, as all before from cannot.
func (r *Redactor) stable(text string, from int, split bool) int {
	// What begins at the end may be replaced, and then the text before it is one of its own.
	for end := len(text); ; {
		earlier := end
		for _, p := range r.patterns {
			earlier = min(earlier, max(from, p.open(text, from, end, split)))
		}
		if earlier == end {
			return end
		}
		end = earlier
	}
}

// writer makes one redacted text.
type writer struct {
	patterns []kind
	out      strings.Builder
	counts   Counts
}

var markers = regexp.MustCompile(`\[(?:` + strings.Join(append(Kinds(), kindOther), "|") + `)\]`)

// split returns what stands between markers, and the markers, in turn.
func (w *writer) split(text string) (parts []string) {
	at := 0
	if strings.Contains(text, "[") {
		for _, m := range markers.FindAllStringIndex(text, -1) {
			parts = append(parts, text[at:m[0]], text[m[0]:m[1]])
			at = m[1]
		}
	}
	return append(parts, text[at:])
}

// writePlain writes a text without markers. What is left around a match is a text of its own, in which
// patterns may match that did not before, such as those with "^": it is searched again. After
// too many rounds all of it is replaced.
func (w *writer) writePlain(text string, round int) {
	if text == "" {
		return
	}

	for _, p := range w.patterns {
		if p.hint != nil && !p.hint(text) {
			continue
		}
		found := p.find(text)
		if len(found) == 0 {
			continue
		}

		if round == len(w.patterns)+spareRounds {
			w.mark(p.name)
			return
		}

		at := 0
		for _, s := range found {
			w.writePlain(text[at:s.start], round+1)
			w.mark(p.name)
			at = s.end
		}
		w.writePlain(text[at:], round+1)
		return
	}
	w.out.WriteString(text)
}

func (w *writer) mark(name string) {
	w.out.WriteString("[" + name + "]")
	if w.counts == nil {
		w.counts = Counts{}
	}
	w.counts[name]++
}
