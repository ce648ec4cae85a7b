package api

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	segjson "github.com/segmentio/encoding/json"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

// view says how a kind of record is shown as JSON: every readable field but some, each always
// there.
type view []shownField

type shownField struct {
	*field.Field
	unset string // JSON that stands for a value that is not set
}

// viewOf returns the view of a kind without some fields. unset has the defaults of fields, by
// name, that are not null; some hold for every view.
func viewOf(k record.Kind, without []string, unset map[string]string) (v view) {
	for _, f := range field.Fields(k) {
		if !f.Readable() || slices.Contains(without, f.Name) {
			continue
		}

		def := unset[f.Name]
		switch {
		case def != "":
		case f.Rule == field.Attempt:
			def = "1"
		case f.Type == field.Texts || k == record.KindWait && f.Name == "formInputs" ||
			k == record.KindThinkAct && f.Name == "messages":
			def = "[]"
		case f.Type == field.Bool:
			def = "false"
		case k == record.KindPlan && f.Name == "project":
			def = `"` + defaultProject + `"`
		case k == record.KindWait && f.Name == "type":
			def = `"` + string(record.WaitUserInput) + `"`
		default:
			def = "null"
		}

		v = append(v, shownField{f, def})
	}

	return v
}

// withPieces returns the view with the pieces that texts are stored in behind them.
func (v view) withPieces() (with view) {
	for _, f := range v {
		if with = append(with, f); f.Pieces != nil {
			with = append(with, shownField{f.Pieces, "null"})
		}
	}
	return with
}

// views shows every readable field of each kind.
var views = func() map[record.Kind]view {
	all := map[record.Kind]view{}
	for _, k := range record.Kinds {
		all[k] = viewOf(k, nil, nil)
	}
	return all
}()

// object is a JSON object in the making.
type object struct {
	b []byte
	// spill takes parts of a large one; nil: it is held as a whole.
	spill func(part []byte) error
	err   error // of spill: nothing more is encoded
}

const (
	// spillBytes is how much is encoded before it is spilled.
	spillBytes = 64 << 10
	// keptBytes is how large a buffer may have become that is used again.
	keptBytes = 1 << 20
)

var objects = sync.Pool{New: func() any { return &object{b: make([]byte, 0, spillBytes+16<<10)} }}

// newObject returns an empty object. The caller frees it.
func newObject(spill func(part []byte) error) *object {
	o := objects.Get().(*object)
	o.spill = spill
	return o
}

func (o *object) reset() { o.b, o.err = o.b[:0], nil }

// free lets the buffer be used again.
func (o *object) free() {
	if o.reset(); cap(o.b) <= keptBytes {
		o.spill = nil
		objects.Put(o)
	}
}

// flush spills what is encoded.
func (o *object) flush() {
	if o.err == nil {
		o.err = o.spill(o.b)
	}
	o.b = o.b[:0]
}

// next spills what is encoded if it is enough. It is called between members and items.
func (o *object) next() {
	if last := len(o.b) - 1; o.spill != nil && last >= spillBytes {
		end := o.b[last] // it decides whether a comma comes next
		o.b = o.b[:last]
		o.flush()
		o.b = append(o.b, end)
	}
}

func (o *object) name(name string) {
	if n := len(o.b); n > 0 && o.b[n-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '"')
	o.b = append(o.b, name...) // ours, nothing to escape
	o.b = append(o.b, '"', ':')
}

func (o *object) raw(name, value string) {
	o.name(name)
	o.b = append(o.b, value...)
}

func (o *object) int(name string, n int64) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, n, 10)
}

func (o *object) bool(name string, v bool) { o.raw(name, strconv.FormatBool(v)) }

func (o *object) text(name string, s *string) {
	o.name(name)
	if s == nil {
		o.b = append(o.b, "null"...)
	} else {
		o.b = segjson.AppendEscape(o.b, *s, 0)
	}
}

// truncated adds the names of the fields that were cut.
func (o *object) truncated(fields []string) {
	o.name("truncated")
	o.b = appendTexts(o.b, fields)
}

func appendTexts(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = segjson.AppendEscape(b, s, 0)
	}
	return append(b, ']')
}

func appendHashes(b []byte, list [][]byte) []byte {
	b = append(b, '[')
	for i, hash := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(hex.AppendEncode(append(b, '"'), hash), '"')
	}
	return append(b, ']')
}

func (o *object) time(name string, t *time.Time) {
	o.name(name)
	if t == nil {
		o.b = append(o.b, "null"...)
	} else {
		o.b = appendTime(o.b, t)
	}
}

func appendTime(b []byte, t *time.Time) []byte {
	b = append(b, '"')
	b = t.AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// value adds a member of any other type. v has nothing that JSON cannot hold.
func (o *object) value(name string, v any) {
	o.name(name)
	o.b, _ = segjson.Append(o.b, v, 0)
}

// list adds a list whose items add appends.
func list[T any](o *object, name string, items []T, add func(*object, T)) {
	o.name(name)
	o.b = append(o.b, '[')
	for i, item := range items {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		if add(o, item); o.err != nil {
			return
		}
		o.next()
	}
	o.b = append(o.b, ']')
}

func (o *object) fields(v view, c record.Change) {
	row := reflect.ValueOf(c).Elem()
	for _, f := range v {
		o.name(f.Name)
		o.b = f.append(o.b, row.Field(f.Index()))
		o.next()
	}
}

func (f *shownField) append(b []byte, v reflect.Value) []byte {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return append(b, f.unset...)
		}
		if f.Type == field.Time {
			return appendTime(b, v.Interface().(*time.Time))
		}
		v = v.Elem()
	}

	switch f.Type {
	case field.Int:
		return strconv.AppendInt(b, v.Int(), 10)
	case field.Float:
		if !finite(v.Float()) {
			return append(b, "null"...)
		}
		b, _ = segjson.Append(b, v.Float(), 0)
		return b
	case field.Bool:
		return strconv.AppendBool(b, v.Bool())
	case field.Texts:
		return appendTexts(b, v.Interface().([]string))
	case field.Hashes:
		if v.IsNil() {
			return append(b, f.unset...)
		}
		return appendHashes(b, v.Interface().([][]byte))
	case field.JSON:
		raw := v.Bytes()
		if len(raw) == 0 || f.unset == "[]" && raw[0] != '[' { // not set, or cut to a string
			return append(b, f.unset...)
		}
		return append(b, compacted(raw)...)
	default:
		return segjson.AppendEscape(b, v.String(), 0)
	}
}

// attempts adds the list of the attempts at what a record is about, its own as the last one. It
// is empty if there was one attempt only.
func (o *object) attempts(past []record.Attempt, c record.Change) {
	if own := field.AttemptOf(c); own.Number > 1 {
		past = append(slices.Clip(past), own)
	}
	list(o, "attempts", past, addAttempt)
}

func addAttempt(o *object, a record.Attempt) {
	o.b = append(o.b, '{')
	o.int("attempt", a.Number)
	o.text("state", (*string)(&a.State))
	o.time("startTime", a.StartTime)
	o.time("endTime", a.EndTime)

	o.text("errorMessage", a.ErrorMessage)
	o.text("errorKind", a.ErrorKind)
	o.truncated(a.Truncated)
	o.b = append(o.b, '}')
}

// finite reports whether JSON can express a number. Clients send no others.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// compacted removes the spaces of JSON, and keeps its order. What is not JSON stays as it is.
func compacted(raw []byte) []byte {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return raw
	}
	return b.Bytes()
}

// encode returns v as encoding/json has it, without escapes for HTML, in half the time.
func encode(v any) ([]byte, error) {
	b, err := segjson.Append(make([]byte, 0, 4<<10), v, segjson.SortMapKeys)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return b, nil
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

const defaultProject = "default"
