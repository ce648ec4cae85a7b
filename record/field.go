package record

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Limits of what a field may hold.
const (
	// MaxIDBytes bounds ids, and names after they are cut.
	MaxIDBytes = 255
	// MaxTextBytes bounds texts and JSON values; longer ones are cut.
	MaxTextBytes = 4 << 20
	// MaxJSONDepth bounds the nesting of JSON values.
	MaxJSONDepth = 100
	// MaxListItems bounds lists of texts; longer ones are cut.
	MaxListItems = 1_000
	// MaxCount bounds counts and costs, so that their sums fit a bigint: one
	// absurd figure must not spoil those of everything above it.
	MaxCount = 1_000_000_000_000
)

// Type says what a field holds.
type Type uint8

// The types of fields, with their Go types.
const (
	Text  Type = iota // string, *string or a named string
	Int               // int64 or *int64
	Float             // *float64
	Time              // *time.Time
	Texts             // []string
	Bool              // *bool
	JSON              // json.RawMessage
)

// Rule says how two tellings of one field become one.
type Rule uint8

// The rules. They hold in [Row.Learn] and in the statements that are generated
// from this table, so that it does not matter where two changes meet.
const (
	// Newest: the higher revision wins; without one, the later arrival.
	Newest Rule = iota
	// Forward is for states: what settles more wins, then as Newest.
	Forward
	// Least and Greatest are for times that clocks may tell differently.
	Least
	Greatest
	// Attempt is the highest told. It re-opens the fields that are Scoped.
	Attempt
	// Follows is for a figure that belongs to another field and comes and goes with it.
	Follows
	// Fixed is for keys and the revision itself.
	Fixed
)

// Field describes one field of a kind. The table of a kind's fields is what the
// wire format, the folding of changes and the SQL of the write path share.
type Field struct {
	Name     string // on the wire
	Column   string // in the table
	Type     Type
	Rule     Rule
	Key      bool
	Required bool
	Scoped   bool // belongs to an attempt: starts anew with a higher one
	Derived  bool // told by code of this module, not on the wire
	AnyJSON  bool // a text that may be told as any JSON value
	// Rev is the field's place in a row's revisions, from 1; 0: it has none. The
	// place is stored: a new field goes to the end of its struct.
	Rev int
	// Of is, for [Follows], the field it belongs to.
	Of *Field

	index  int
	limit  int   // bytes; 0: none
	cuts   bool  // longer is cut, not refused
	min    int64 // of numbers
	counts bool  // the characters of Of
	values []string
	shape  string // of JSON: object, stringMaps, or any
}

// Told tells whether the field is one that clients tell, rather than one that is
// computed here.
func (f *Field) Told() bool { return f.Rule != Follows && !f.Derived }

// In gives the field of a change, settable.
func (f *Field) In(c Change) reflect.Value { return reflect.ValueOf(c).Elem().Field(f.index) }

// Text gives the text that the field holds in c; ok is false where nothing is
// told, or the field is no text.
func (f *Field) Text(c Change) (s string, ok bool) {
	v := f.In(c)
	switch {
	case f.Type != Text || v.IsZero():
		return "", false
	case v.Kind() == reflect.Pointer:
		v = v.Elem()
	}
	return v.String(), true
}

// places holds the places in [Fields] by the fields' names.
var tables, places, revisions = func() (map[Kind][]Field, map[Kind]map[string]int, map[Kind]int) {
	tables, places, revisions := map[Kind][]Field{}, map[Kind]map[string]int{}, map[Kind]int{}
	for _, k := range Kinds {
		tables[k], places[k] = table(k), map[string]int{}
		for i, f := range tables[k] {
			places[k][f.Name] = i
			revisions[k] = max(revisions[k], f.Rev)
		}
	}
	return tables, places, revisions
}()

// Fields gives the table of a kind's fields, keys first. It is shared: read only.
func Fields(k Kind) []Field { return tables[k] }

// FieldNamed gives the place in [Fields] of a field by its name on the wire.
func FieldNamed(k Kind, name string) (i int, ok bool) {
	i, ok = places[k][name]
	return i, ok
}

// Revisions is the number of fields of a kind that carry a revision.
func Revisions(k Kind) int { return revisions[k] }

// table reads the struct tags of a kind:
//
//	record:"<name on the wire>[,option...]"
//
// key, required; id (refused when too long), name (cut), text (cut), enum; json,
// object, stringMaps; state, least, greatest, attempt, charsOf=<text>, of=<field>
// (rules); scoped; derived; anyJSON; min=<number>; column=<name>.
func table(k Kind) []Field {
	t := reflect.TypeOf(New(k)).Elem()
	fields := make([]Field, 0, t.NumField())
	follows := map[int]string{}
	revs := 0
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("record"), ",")
		f := Field{Name: name, Column: snake(name), Type: typeOf(t.Field(i).Type), index: i}
		if f.Name == "rev" {
			f.Rule = Fixed
		}
		for option := range strings.SplitSeq(options, ",") {
			option, value, _ := strings.Cut(option, "=")
			switch option {
			case "key":
				f.Key, f.Required, f.Rule, f.limit = true, f.Type == Text, Fixed, MaxIDBytes
			case "required":
				f.Required = true
			case "id":
				f.limit = MaxIDBytes
			case "name":
				f.limit, f.cuts = MaxIDBytes, true
			case "text":
				f.limit, f.cuts = MaxTextBytes, true
			case "enum":
				f.values = enums[t.Field(i).Type.Elem()]
			case "json", "object", "stringMaps":
				f.shape, f.limit, f.cuts = option, MaxTextBytes, true
			case "state":
				f.Rule = Forward
				for _, s := range states[k] {
					f.values = append(f.values, string(s))
				}
			case "least":
				f.Rule = Least
			case "greatest":
				f.Rule = Greatest
			case "attempt":
				f.Rule = Attempt
			case "charsOf", "of":
				f.Rule, f.counts = Follows, option == "charsOf"
				follows[len(fields)] = value
			case "scoped":
				f.Scoped = true
			case "derived":
				f.Derived = true
			case "anyJSON":
				f.AnyJSON = true
			case "min":
				f.min, _ = strconv.ParseInt(value, 10, 64)
			case "column":
				f.Column = value
			case "":
			default:
				panic(fmt.Sprintf("record: unknown option %q of field %s.%s", option, k, name))
			}
		}
		if f.Rule == Newest || f.Rule == Forward {
			revs++
			f.Rev = revs
		}
		fields = append(fields, f)
	}
	for i, of := range follows {
		for j := range fields {
			if fields[j].Name == of {
				fields[i].Of = &fields[j]
			}
		}
	}
	return fields
}

var enums = map[reflect.Type][]string{
	reflect.TypeFor[ThoughtType](): {
		string(ThoughtAnalysis), string(ThoughtDecision), string(ThoughtAction),
		string(ThoughtObservation), string(ThoughtConclusion), string(ThoughtError),
	},
	reflect.TypeFor[SourceType](): {
		string(SourceFile), string(SourceURL), string(SourceClass), string(SourceCommit),
		string(SourceDocumentation), string(SourceSnippet), string(SourceEmbedding),
	},
	reflect.TypeFor[WaitType](): {
		string(WaitUserInput), string(WaitPlanValidation), string(WaitActionValidation),
	},
}

func typeOf(t reflect.Type) Type {
	if t == reflect.TypeFor[json.RawMessage]() {
		return JSON
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return Time
	case t.Kind() == reflect.Slice:
		return Texts
	case t.Kind() == reflect.Int64:
		return Int
	case t.Kind() == reflect.Float64:
		return Float
	case t.Kind() == reflect.Bool:
		return Bool
	default:
		return Text
	}
}

// snake turns a wire name into a column name: costUsd into cost_usd.
func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
