package store

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/record"
)

// fill copies what a row says into a change of a kind.
type fill[S any] func(to record.Change, from *S)

// filler pairs the fields of a kind with the columns of a row that bear their
// name behind a prefix. Keys, revisions and computed figures are not read, nor
// are those in except. A field without its column is a mistake in a query and
// panics when the program starts.
func filler[S any](kind record.Kind, prefix string, except ...string) fill[S] {
	type pair struct {
		field *record.Field
		from  int
	}
	var pairs []pair
	row, told := reflect.TypeFor[S](), reflect.TypeOf(record.New(kind)).Elem()
	fields := record.Fields(kind)
	for i := range fields {
		f := &fields[i]
		if f.Key || f.Name == "rev" || !f.Told() || slices.Contains(except, f.Name) {
			continue
		}
		name := prefix + told.Field(i).Name
		column, ok := row.FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
		if !ok {
			panic(fmt.Sprintf("store: %s has no column for %s.%s", row, kind, f.Name))
		}
		pairs = append(pairs, pair{f, column.Index[0]})
	}
	return func(to record.Change, from *S) {
		v := reflect.ValueOf(from).Elem()
		for _, p := range pairs {
			copyValue(p.field.In(to), v.Field(p.from))
		}
	}
}

// copyValue sets a field of the record from a column that may be narrower, or of
// a plainer type. Times are UTC from here on.
func copyValue(to, from reflect.Value) {
	if from.IsZero() {
		return
	}
	if from.Kind() == reflect.Pointer {
		from = from.Elem()
	}
	target := to
	if to.Kind() == reflect.Pointer {
		target = reflect.New(to.Type().Elem()).Elem()
	}
	if t, ok := from.Interface().(time.Time); ok {
		from = reflect.ValueOf(t.UTC())
	}
	target.Set(from.Convert(target.Type()))
	if to.Kind() == reflect.Pointer {
		to.Set(target.Addr())
	}
}

func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
