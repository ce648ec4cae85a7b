// Package field owns the one table of fields: what each field of a record may hold, how
// two changes to it become one, and which part it plays. It is read from the struct tags
// of package record. Cleaning, folding, the wire format and the SQL of the record all
// follow from this table. It knows no SQL.
package field

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/actlog/actlog/record"
)

// Type says what a field holds.
type Type uint8

// The types of fields, with their Go types.
const (
	Text   Type = iota // string, *string or a named string
	Int                // int64 or *int64
	Float              // *float64
	Time               // *time.Time
	Texts              // []string
	Bool               // *bool
	JSON               // json.RawMessage
	Hashes             // [][]byte
)

// Rule says how two values of one field become one.
type Rule uint8

// The rules. [Row.Learn] and the merge statements of fieldsql both follow them, so it does
// not matter whether two changes meet in memory or in the database.
const (
	// Newest: the higher revision wins. Without revisions the later arrival wins.
	Newest Rule = iota
	// Forward is for states: the more final one wins, then as Newest.
	Forward
	// Least and Greatest are for times: clocks may disagree.
	Least
	Greatest
	// Attempt keeps the highest value. A higher one resets the Scoped fields.
	Attempt
	// Follows is for a value that belongs to another field and changes with it.
	Follows
	// Fixed is for keys and the revision itself.
	Fixed
)

// Role is the special part that a field plays. Most fields have none.
type Role uint8

// The roles.
const (
	NoRole    Role = iota
	Revision       // orders contradicting changes; stored per field, not as a column
	Once           // served to one reader, once; not exported
	Heartbeat      // a sign of life of the process that runs the plan
	Derived        // set by this module only: not accepted on the wire, but shown
)

// Field describes one field of a kind.
type Field struct {
	Name   string // on the wire
	Alias  string // another name on the wire, in what clients send
	Column string // what was written; empty for the revision
	Shown  string // the column that reads show: Column, or one generated from it
	Type   Type
	Rule   Rule
	Role   Role
	Key    bool
	// Required fields must be set in every change.
	Required bool
	// Scoped fields belong to an attempt: a higher attempt resets them.
	Scoped  bool
	AnyJSON bool // a text that may be sent as any JSON value
	Small   bool // an integer column; other numbers are bigint
	Decimal bool // an amount in a numeric column; other floats are double precision
	// Searched texts are found by the search over runs.
	Searched bool
	// Rev is the field's place in a row's revisions, from 1; 0 if it has none. Places are
	// stored, so a new field goes to the end of its struct.
	Rev int
	// Of is the field that a [Follows] field belongs to.
	Of *Field
	// With is the price that a [Follows] field is stored with; nil for other fields.
	With *Field
	// Pieces is the field with the pieces of a text that may be stored in pieces, see package content. Then
	// the text's own field has a mark.
	Pieces *Field

	index int
	limit int   // bytes; 0 for no limit
	cuts  bool  // longer values are cut, not refused
	min   int64 // of numbers
	// fraction bounds a number by 0 and 1. trace makes a text the id of a trace.
	fraction, trace bool
	counts          bool // the number of characters of Of
	values          []string
	shape           string // of JSON: object, objects, stringMaps, startedBy or any
}

// Sent reports whether clients send the field. The others are computed here.
func (f *Field) Sent() bool { return f.Rule != Follows && f.Role != Derived }

// Stored reports whether the field has a column.
func (f *Field) Stored() bool { return f.Role != Revision }

// Readable reports whether every reader may see the field.
func (f *Field) Readable() bool { return f.Rule != Follows && f.Role != Revision && f.Role != Once }

// Long reports whether values of the field may be long texts, or JSON.
func (f *Field) Long() bool { return f.Type == JSON || f.limit == record.MaxTextBytes }

// worded reports whether the field holds words: a name, a text or JSON.
func (f *Field) worded() bool { return f.Readable() && f.cuts }

// In returns the field of a change, settable.
func (f *Field) In(c record.Change) reflect.Value { return reflect.ValueOf(c).Elem().Field(f.index) }

// Index returns the field's place in the struct of its kind, and in [Fields].
func (f *Field) Index() int { return f.index }

// IsList reports whether the field holds JSON that is a list.
func (f *Field) IsList() bool { return f.shape == "stringMaps" || f.shape == "objects" }

// Text returns the text that the field holds in c. ok is false if it is not set, or not a
// text.
func (f *Field) Text(c record.Change) (s string, ok bool) {
	v := f.In(c)
	switch {
	case f.Type != Text || v.IsZero():
		return "", false
	case v.Kind() == reflect.Pointer:
		v = v.Elem()
	}
	return v.String(), true
}

type kindTable struct {
	fields    []*Field
	attempt   *Field
	byName    map[string]*Field
	searched  []*Field
	worded    []*Field
	inPieces  []*Field
	revisions int
}

var tables = func() map[record.Kind]*kindTable {
	all := map[record.Kind]*kindTable{}
	for _, kind := range record.Kinds {
		t := &kindTable{fields: readTags(kind), byName: map[string]*Field{}}
		for _, f := range t.fields {
			t.byName[f.Name] = f
			if f.Alias != "" {
				t.byName[f.Alias] = f
			}

			t.revisions = max(t.revisions, f.Rev)
			if f.Rule == Attempt {
				t.attempt = f
			}

			if f.Searched {
				t.searched = append(t.searched, f)
			}
			if f.Pieces != nil {
				t.inPieces = append(t.inPieces, f)
			}
			if f.worded() {
				t.worded = append(t.worded, f)
			}
		}
		all[kind] = t
	}
	return all
}()

// Fields returns the fields of a kind, keys first. The slice is shared: do not change it.
func Fields(k record.Kind) []*Field { return tables[k].fields }

// Searched returns the fields of a kind that the search over runs finds. The slice is shared: do
// not change it.
func Searched(k record.Kind) []*Field { return tables[k].searched }

// Worded returns the fields of a kind that hold words: names, texts and JSON. The slice is shared: do not change it.
func Worded(k record.Kind) []*Field { return tables[k].worded }

// InPieces returns the fields of a kind whose texts may be stored in pieces. The slice is shared: do not change it.
func InPieces(k record.Kind) []*Field { return tables[k].inPieces }

// CharsOf returns the field with the number of characters of a text.
func CharsOf(k record.Kind, text *Field) *Field {
	fields := Fields(k)
	return fields[slices.IndexFunc(fields, func(f *Field) bool { return f.counts && f.Of == text })]
}

// ByName returns the field with a name on the wire, or with it as its other one; nil: there is none.
func ByName(k record.Kind, name string) *Field { return tables[k].byName[name] }

// HasAttempts reports whether rows of a kind are attempted again. Those that are have Scoped
// fields.
func HasAttempts(k record.Kind) bool { return attemptField(k) != nil }

// attemptField returns the field with the number of the attempt; nil if the kind has none.
func attemptField(k record.Kind) *Field { return tables[k].attempt }

// Revisions returns how many fields of a kind have a revision.
func Revisions(k record.Kind) int { return tables[k].revisions }

// MaxFields bounds the fields of a kind: statements keep sets of them in 64 bits.
const MaxFields = 64

// maxStartedBy bounds a link to the tool call that started a plan, in bytes of JSON, whose characters may be escaped.
const maxStartedBy = 16 * record.MaxIDBytes

// readTags makes the table of a kind from its struct tags:
//
//	record:"<name on the wire>[,option...]"
//
// Keys and ids: key, required, id and address (refused if too long). Texts: name and text (cut if too
// long), trace, enum, anyJSON. JSON: json, object, objects, stringMaps, startedBy. Numbers: small, decimal,
// fraction, min=<number>. Rules: state, least, greatest, attempt, charsOf=<text>, partsOf=<text>, of=<field>,
// with=<price>. Roles: revision, once, heartbeat, derived. Others: scoped, searched, column=<name>, shown=<column>.
func readTags(k record.Kind) []*Field {
	t := reflect.TypeOf(record.New(k)).Elem()
	if t.NumField() > MaxFields {
		panic(fmt.Sprintf("field: kind %s has %d fields; statements can name %d", k, t.NumField(), MaxFields))
	}

	var fields []*Field
	revisions := 0
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("record"), ",")
		f := &Field{Name: name, Column: snake(name), Type: typeOf(t.Field(i).Type), index: i}

		for option := range strings.SplitSeq(options, ",") {
			option, value, _ := strings.Cut(option, "=")
			switch option {
			case "key":
				f.Key, f.Required = true, f.Type == Text
				f.Rule, f.limit = Fixed, record.MaxIDBytes
			case "required":
				f.Required = true
			case "id":
				f.limit = record.MaxIDBytes
			case "address":
				f.limit = record.MaxAddressBytes
			case "name":
				f.limit, f.cuts = record.MaxIDBytes, true
			case "text":
				f.limit, f.cuts = record.MaxTextBytes, true
			case "enum":
				f.values = enums[t.Field(i).Type.Elem()]
			case "json", "object", "objects", "stringMaps":
				f.shape = option
				f.limit, f.cuts = record.MaxTextBytes, true
			case "startedBy":
				f.shape, f.limit = option, maxStartedBy
			case "anyJSON":
				f.AnyJSON = true
			case "small":
				f.Small = true
			case "decimal":
				f.Decimal = true
			case "fraction":
				f.fraction = true
			case "trace":
				f.trace, f.limit = true, record.MaxIDBytes
			case "min":
				f.min, _ = strconv.ParseInt(value, 10, 64)
			case "state":
				f.Rule, f.values = Forward, texts(record.States(k)...)
			case "least":
				f.Rule = Least
			case "greatest":
				f.Rule = Greatest
			case "attempt":
				f.Rule = Attempt
			case "charsOf", "partsOf", "of":
				f.Rule, f.counts = Follows, option == "charsOf"
				f.Of = named(fields, value)
				if option == "partsOf" {
					f.Of.Pieces = f
				}
			case "with":
				f.With = named(fields, value)
			case "revision":
				f.Role, f.Rule = Revision, Fixed
				f.Column = ""
			case "once":
				f.Role = Once
			case "heartbeat":
				f.Role = Heartbeat
			case "derived":
				f.Role = Derived
			case "scoped":
				f.Scoped = true
			case "searched":
				f.Searched = true
			case "alias":
				f.Alias = value
			case "column":
				f.Column = value
			case "shown":
				f.Shown = value
			case "":
			default:
				panic(fmt.Sprintf("field: unknown option %q of field %s.%s", option, k, name))
			}
		}

		if f.Shown == "" {
			f.Shown = f.Column
		}
		if f.Rule == Newest || f.Rule == Forward {
			revisions++
			f.Rev = revisions
		}
		fields = append(fields, f)
	}
	return fields
}

// named returns the field of a name; nil if none has it.
func named(fields []*Field, name string) *Field {
	for _, f := range fields {
		if f.Name == name {
			return f
		}
	}
	return nil
}

var enums = map[reflect.Type][]string{
	reflect.TypeFor[record.ThoughtType](): texts(record.ThoughtAnalysis, record.ThoughtDecision, record.ThoughtAction,
		record.ThoughtObservation, record.ThoughtConclusion, record.ThoughtError),
	reflect.TypeFor[record.SourceType](): texts(record.SourceFile, record.SourceURL, record.SourceClass,
		record.SourceCommit,
		record.SourceDocumentation, record.SourceSnippet, record.SourceEmbedding),
	reflect.TypeFor[record.WaitType](): texts(record.WaitUserInput, record.WaitPlanValidation,
		record.WaitActionValidation),
}

func texts[T ~string](values ...T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
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
	case t == reflect.TypeFor[[][]byte]():
		return Hashes
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
