package record

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// replacement stands where a text held what Postgres cannot keep: NUL, or bytes
// that are no UTF-8.
const replacement = "\uFFFD"

// Clean gives a private copy of c that the database will take as it is, and the
// names of the fields that were cut to their limit: NUL and invalid UTF-8 are
// replaced, long names and texts are cut at a character boundary, times are UTC
// in microseconds, blank optional ids are not told, character counts are
// computed. What cannot be mended is an [*InvalidError] that names the field.
func Clean(c Change) (Change, []string, error) {
	k := c.Kind()
	out, fields := New(k), tables[k]
	row := reflect.ValueOf(out).Elem()
	row.Set(reflect.ValueOf(c).Elem())
	var cut []string
	for i := range fields {
		f := &fields[i]
		shortened, err := f.clean(row.Field(f.index))
		if err != nil {
			return nil, nil, err
		}
		if shortened {
			cut = append(cut, f.Name)
		}
	}
	for i := range fields {
		switch f := &fields[i]; {
		case f.counts:
			f.count(c, out)
		case f.Of != nil:
			row.Field(f.index).SetZero()
		}
	}
	if p, ok := out.(*Plan); ok {
		if err := p.checkRelation(); err != nil {
			return nil, nil, err
		}
	}
	return out, cut, nil
}

func (f *Field) invalid(reason string, args ...any) error {
	return &InvalidError{Code: CodeInvalidValue, Field: f.Name, Reason: fmt.Sprintf(reason, args...)}
}

// clean checks and mends the value of one field in place.
func (f *Field) clean(v reflect.Value) (cut bool, err error) {
	if v.Kind() == reflect.Pointer && v.IsNil() && !f.Required {
		return false, nil
	}
	switch f.Type {
	case Text:
		return f.cleanText(v)
	case Texts:
		return f.cleanTexts(v)
	case JSON:
		return f.cleanJSON(v)
	case Int:
		return false, f.checkInt(v)
	case Float:
		if p := v.Interface().(*float64); p != nil {
			if math.IsNaN(*p) || math.IsInf(*p, 0) {
				return false, f.invalid("must be a finite number")
			}
			if f.Name == "costUsd" && *p < 0 {
				return false, f.invalid("must not be negative")
			}
			if f.Name == "costUsd" && *p > MaxCount {
				return false, f.invalid("must be at most %d", int64(MaxCount))
			}
		}
	case Time:
		if p := v.Interface().(*time.Time); p != nil {
			t := p.UTC().Truncate(time.Microsecond)
			if y := t.Year(); y < 1 || y > 9999 {
				return false, f.invalid("must lie in the years 1 to 9999")
			}
			v.Set(reflect.ValueOf(&t))
		}
	}
	return false, nil
}

func (f *Field) checkInt(v reflect.Value) error {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	switch n := v.Int(); {
	case n < f.min && f.min == 0:
		return f.invalid("must not be negative")
	case n < f.min:
		return f.invalid("must be at least %d", f.min)
	case n > maxSmall && f.small():
		return f.invalid("must be at most %d", maxSmall)
	case n > MaxCount && f.Rule != Fixed:
		return f.invalid("must be at most %d", int64(MaxCount))
	}
	return nil
}

// maxSmall leaves room in an integer column for one more: rounds are seq + 1.
const maxSmall = math.MaxInt32 - 1

// small tells which numbers stand in integer columns; all others are bigint.
func (f *Field) small() bool {
	switch f.Name {
	case "seq", "stepIndex", "maxSteps", "currentStep", "attempt", "callIndex", "iteration", "lineStart", "lineEnd":
		return true
	}
	return false
}

func (f *Field) cleanText(v reflect.Value) (cut bool, err error) {
	target := v
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return false, nil
		}
		target = v.Elem()
	}
	s := sanitize(target.String())
	optionalID := v.Kind() == reflect.Pointer && f.limit == MaxIDBytes && !f.cuts
	if strings.TrimSpace(s) == "" {
		switch {
		case f.Required:
			return false, &InvalidError{Code: CodeMissingField, Field: f.Name, Reason: "is required"}
		case optionalID && f.values == nil:
			v.SetZero()
			return false, nil
		}
	}
	if f.values != nil && !slices.Contains(f.values, s) {
		return false, f.invalid("must be one of %s", strings.Join(f.values, ", "))
	}
	if f.limit > 0 && len(s) > f.limit {
		if !f.cuts {
			return false, f.invalid("must be at most %d bytes, not %d", f.limit, len(s))
		}
		s, cut = Shorten(s, f.limit), true
	}
	if s == target.String() {
		return cut, nil
	}
	if v.Kind() == reflect.Pointer { // the caller's text stays as it is
		p := reflect.New(v.Type().Elem())
		p.Elem().SetString(s)
		v.Set(p)
	} else {
		v.SetString(s)
	}
	return cut, nil
}

func (f *Field) cleanTexts(v reflect.Value) (cut bool, err error) {
	if v.IsNil() {
		return false, nil
	}
	in := v.Interface().([]string)
	if len(in) > MaxListItems {
		in, cut = in[:MaxListItems], true
	}
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = sanitize(s)
		if len(out[i]) > f.limit {
			out[i], cut = Shorten(out[i], f.limit), true
		}
	}
	v.Set(reflect.ValueOf(out))
	return cut, nil
}

func (f *Field) cleanJSON(v reflect.Value) (cut bool, err error) {
	raw := v.Interface().(json.RawMessage)
	if raw == nil {
		return false, nil
	}
	out, err := cleanJSON(raw)
	if err != nil {
		return false, f.invalid("%s", err)
	}
	if string(out) == "null" {
		v.SetZero()
		return false, nil
	}
	if len(out) > f.limit {
		// JSON cannot be cut and stay JSON: what fits is kept as a string.
		out, cut = quoteShortened(out, f.limit), true
	} else if wasCut(out, f.limit) {
		cut = true
	} else if err := f.checkShape(out); err != nil {
		return false, err
	}
	v.SetBytes(out)
	return cut, nil
}

func (f *Field) checkShape(raw json.RawMessage) error {
	switch f.shape {
	case "object":
		if raw[0] != '{' {
			return f.invalid("must be a JSON object")
		}
	case "stringMaps":
		var maps []map[string]*string // pointers, to tell null from a string
		if err := json.Unmarshal(raw, &maps); err != nil || slices.ContainsFunc(maps, notStrings) {
			return f.invalid("must be a list of objects whose values are strings")
		}
	}
	return nil
}

func notStrings(m map[string]*string) bool {
	return m == nil || slices.Contains(slices.Collect(maps.Values(m)), nil)
}

// count computes a character count from the text as it was told, before it was
// cut.
func (f *Field) count(told, out Change) {
	if s, ok := f.Of.Text(told); ok {
		n := int64(utf8.RuneCountInString(s))
		f.In(out).Set(reflect.ValueOf(&n))
	} else {
		f.In(out).SetZero()
	}
}

func sanitize(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, replacement), "\x00", replacement)
}

// Shorten cuts s to at most limit bytes, at a character boundary.
func Shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// StillCut gives, of the fields of c that were once told with a value that had
// to be cut, those whose value is such a one: the others were told anew. Sorted,
// never nil.
func StillCut(c Change, names []string) []string {
	still := []string{}
	if len(names) == 0 {
		return still
	}
	fields := tables[c.Kind()]
	for i := range fields {
		f := &fields[i]
		if !slices.Contains(names, f.Name) {
			continue
		}
		if f.mayBeCut(c) {
			still = append(still, f.Name)
		}
	}
	slices.Sort(still)
	return still
}

// mayBeCut tells whether what c holds could be what is left of a longer value.
func (f *Field) mayBeCut(c Change) bool {
	switch v := f.In(c); {
	case v.IsZero():
		return false
	case f.Type == Texts:
		texts := v.Interface().([]string)
		return len(texts) >= MaxListItems || slices.ContainsFunc(texts, f.full)
	case f.Type == JSON:
		return v.Bytes()[0] == '"' // see quoteShortened
	default:
		s, _ := f.Text(c)
		return f.full(s)
	}
}
