package mcp

import (
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// maxListed is how many values of a list are shown, and how many attempts.
const maxListed = 20

// factsOf returns the fields of a record that are no long texts, as the API names them. Keys and what is not set are
// left out.
func factsOf(r record.Change) map[string]any {
	facts := map[string]any{}
	for _, f := range fieldsOf(r) {
		if f.Long() || f.Key {
			continue
		}

		switch v := f.In(r); {
		case v.IsZero():
		case f.Type == field.Texts:
			list := v.Interface().([]string) //nolint:forcetypeassert // the type of the field says so
			facts[f.Name] = list[:min(len(list), maxListed)]
		default:
			facts[f.Name] = v.Interface()
		}
	}
	return facts
}

// fieldsOf returns the fields of a record that readers may see.
func fieldsOf(r record.Change) (all []*field.Field) {
	for _, f := range field.Fields(r.Kind()) {
		if f.Readable() {
			all = append(all, f)
		}
	}
	return all
}

// textOf returns a long text of a record. names are those of all that it has.
func textOf(r record.Change, name string) (text, names string, ok bool) {
	var there []string
	for _, f := range fieldsOf(r) {
		if value := longText(f, r); value != "" {
			there = append(there, f.Name)
			if f.Name == name {
				text, ok = value, true
			}
		}
	}
	return text, strings.Join(there, ", "), ok
}

// longText returns the value of a long field; empty: it is no such field, or not set.
func longText(f *field.Field, r record.Change) string {
	if !f.Long() {
		return ""
	}
	if f.Type == field.JSON {
		return string(f.In(r).Bytes())
	}
	text, _ := f.Text(r)
	return tree.Readable(f.Name, text)
}

// textsOf returns the beginnings of the texts of a row: the error first.
func textsOf(row *store.Detail, chars int, left *room) []passage {
	fields := fieldsOf(row.Record)
	slices.SortStableFunc(fields, func(a, b *field.Field) int { return rank(a) - rank(b) })
	texts := []passage{}
	for _, f := range fields {
		if text := longText(f, row.Record); text != "" {
			texts = append(texts, passageOf(row, f.Name, text, 0, chars, left))
		}
	}
	return texts
}

// rank says how soon a text is shown.
func rank(f *field.Field) int {
	switch {
	case f.Name == "errorMessage":
		return 0
	case f.Type == field.JSON:
		return 2
	}
	return 1
}

func passageOf(row *store.Detail, name, text string, offset, chars int, left *room) passage {
	p := cutPassage(name, text, offset, chars, left)
	p.Truncated = slices.Contains(row.Truncated, name)
	return p
}
