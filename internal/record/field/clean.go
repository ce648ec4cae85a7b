package field

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

	"github.com/actlog/actlog/record"
)

// Clean returns a copy of c that the database accepts, and the names of the fields that were
// cut to their limit. NUL and invalid UTF-8 are replaced, long names and texts are cut at a
// character boundary, times become UTC in microseconds, blank optional ids are dropped, and
// character counts are computed. For anything else that is wrong the error is a
// [*record.InvalidError] that names the field.
func Clean(c record.Change) (record.Change, []string, error) {
	out, fields := CloneChange(c), Fields(c.Kind())
	var cut []string
	for _, f := range fields {
		shortened, err := f.clean(f.In(out))
		if err != nil {
			return nil, nil, err
		}
		if shortened {
			cut = append(cut, f.Name)
		}
	}

	for _, f := range fields {
		switch {
		case f.counts:
			f.count(c, out)
		case f.Of != nil:
			f.In(out).SetZero()
		}
	}

	if p, ok := out.(*record.Plan); ok {
		if err := checkRelation(p); err != nil {
			return nil, nil, err
		}
	}
	return out, cut, nil
}

// checkRelation checks the rules that make plans a tree: a parent comes with the tool call
// that started the plan, a root has neither, and no plan is its own parent. A later change
// to a sub-plan may leave both out. Only a root plan can say that it was started from elsewhere.
func checkRelation(p *record.Plan) error {
	invalid := func(field, reason string) error {
		return &record.InvalidError{Code: record.CodeInvalidRelation, Field: field, Reason: reason}
	}

	switch {
	case p.StartedBy != nil && !p.IsRoot():
		return invalid("startedBy", "is for root plans; a sub-plan has parentPlanId and toolCallId")
	case p.ParentPlanID == nil && p.ToolCallID == nil:
		return nil
	case p.ToolCallID == nil:
		return invalid("toolCallId", "is required when parentPlanId is given")
	case p.ParentPlanID == nil:
		return invalid("parentPlanId", "is required when toolCallId is given")
	case p.IsRoot():
		return invalid("rootPlanId", "must differ from currentPlanId when parentPlanId is given")
	case *p.ParentPlanID == p.CurrentPlanID:
		return invalid("parentPlanId", "must differ from currentPlanId")
	}
	return nil
}

func (f *Field) invalid(reason string, args ...any) error {
	return &record.InvalidError{Code: record.CodeInvalidValue, Field: f.Name, Reason: fmt.Sprintf(reason, args...)}
}

// clean checks the value of one field and mends it in place.
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
		return false, f.checkFloat(v.Elem().Float())
	case Time:
		t := v.Interface().(*time.Time).UTC().Truncate(time.Microsecond)
		if y := t.Year(); y < record.MinYear || y > record.MaxYear {
			return false, f.invalid("must lie in the years %d to %d", record.MinYear, record.MaxYear)
		}
		v.Set(reflect.ValueOf(&t))
	}
	return false, nil
}

// maxSmall leaves room for one more in an integer column: rounds are seq + 1.
const maxSmall = math.MaxInt32 - 1

func (f *Field) checkInt(v reflect.Value) error {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}

	switch n := v.Int(); {
	case n < f.min && f.min == 0:
		return f.invalid("must not be negative")
	case n < f.min:
		return f.invalid("must be at least %d", f.min)
	case n > maxSmall && f.Small:
		return f.invalid("must be at most %d", maxSmall)
	case n > record.MaxCount && f.Rule != Fixed:
		return f.invalid("must be at most %d", int64(record.MaxCount))
	}
	return nil
}

func (f *Field) checkFloat(n float64) error {
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		return f.invalid("must be a finite number")
	case f.fraction && (n < 0 || n > 1):
		return f.invalid("must be from 0 to 1")
	case f.Decimal && n < 0:
		return f.invalid("must not be negative")
	case f.Decimal && n > record.MaxCount:
		return f.invalid("must be at most %d", int64(record.MaxCount))
	}
	return nil
}

func (f *Field) cleanText(v reflect.Value) (cut bool, err error) {
	target := v
	if v.Kind() == reflect.Pointer {
		target = v.Elem()
	}

	s := sanitize(target.String())
	optionalID := v.Kind() == reflect.Pointer && f.limit > 0 && !f.cuts
	if strings.TrimSpace(s) == "" {
		switch {
		case f.Required:
			return false, &record.InvalidError{Code: record.CodeMissingField, Field: f.Name, Reason: "is required"}
		case optionalID && f.values == nil:
			v.SetZero()
			return false, nil
		}
	}

	if f.values != nil && !slices.Contains(f.values, s) {
		return false, f.invalid("must be one of %s", strings.Join(f.values, ", "))
	}
	if f.trace {
		if s = plainTraceID(s); s == "" {
			return false, f.invalid("must be a trace id: 32 hex digits, not all of them 0")
		}
	}

	if f.limit > 0 && len(s) > f.limit {
		if !f.cuts {
			return false, f.invalid("must be at most %d bytes, not %d", f.limit, len(s))
		}

		cut = true
		if f.limit < record.MaxTextBytes { // a name
			s = Shorten(s, f.limit)
		} else {
			s = ShortenText(s, f.limit)
		}
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

// plainTraceID returns a trace id as traces have it: 32 lower-case hex digits. It also takes
// upper case, and the dashes of a UUID. It returns "" for any other text.
func plainTraceID(s string) string {
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		s = strings.ReplaceAll(s, "-", "")
	}
	if s = strings.ToLower(s); len(s) != 32 || strings.Trim(s, "0123456789abcdef") != "" || strings.Trim(s, "0") == "" {
		return ""
	}
	return s
}

func (f *Field) cleanTexts(v reflect.Value) (cut bool, err error) {
	if v.IsNil() {
		return false, nil
	}

	in := v.Interface().([]string)
	if len(in) > record.MaxListItems {
		in, cut = in[:record.MaxListItems], true
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
	raw := v.Bytes()
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

	switch {
	case f.shape == "startedBy":
		return false, f.cleanStartedBy(v, out)
	case f.limit == 0: // what the store looks up is short
	case len(out) > f.limit:
		// JSON cannot be cut and stay JSON: what fits is kept as a string.
		out, cut = quoteShortened(out, f.limit), true
	case wasCut(out, f.limit):
		cut = true
	default:
		if err := f.checkShape(out); err != nil {
			return false, err
		}
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
	case "objects":
		var list []map[string]json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil || slices.ContainsFunc(list, isNull) {
			return f.invalid("must be a list of objects")
		}
	case "stringMaps":
		var list []map[string]*string // pointers, to distinguish null from a string
		if err := json.Unmarshal(raw, &list); err != nil || slices.ContainsFunc(list, notStrings) {
			return f.invalid("must be a list of objects whose values are strings")
		}
	}
	return nil
}

// cleanStartedBy checks the link to the tool call that started a plan, and sets it in its one form.
func (f *Field) cleanStartedBy(v reflect.Value, raw json.RawMessage) error {
	if len(raw) > f.limit {
		return f.invalid("must be at most %d bytes, not %d", f.limit, len(raw))
	}
	var members map[string]string
	if err := json.Unmarshal(raw, &members); err != nil {
		return f.invalid("must be an object with planId and toolCallId, both of them texts")
	}

	by := record.StartedBy{PlanID: members["planId"], ToolCallID: members["toolCallId"]}
	delete(members, "planId")
	delete(members, "toolCallId")
	switch {
	case len(members) > 0:
		return f.invalid("has a member that is neither planId nor toolCallId")
	case strings.TrimSpace(by.PlanID) == "":
		return f.invalid("must have a planId that is not empty")
	case len(by.PlanID) > record.MaxIDBytes || len(by.ToolCallID) > record.MaxIDBytes:
		return f.invalid("must have ids of at most %d bytes", record.MaxIDBytes)
	}

	v.SetBytes(by.JSON())
	return nil
}

func isNull(m map[string]json.RawMessage) bool { return m == nil }

func notStrings(m map[string]*string) bool {
	return m == nil || slices.Contains(slices.Collect(maps.Values(m)), nil)
}

// count sets a character count, from the text as it was before it was cut.
func (f *Field) count(uncut, out record.Change) {
	if s, ok := f.Of.Text(uncut); ok {
		n := int64(utf8.RuneCountInString(s))
		f.In(out).Set(reflect.ValueOf(&n))
	} else {
		f.In(out).SetZero()
	}
}

// CloneChange returns a shallow copy of a change.
func CloneChange(c record.Change) record.Change {
	out := record.New(c.Kind())
	reflect.ValueOf(out).Elem().Set(reflect.ValueOf(c).Elem())
	return out
}
