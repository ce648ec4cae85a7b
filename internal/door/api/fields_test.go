package api_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

var update = flag.Bool("update", false, "write the tables of fields in docs/api.md")

// F2: the page has a table of the fields of each kind, as the contract has them.
func TestFieldsOfTheDocs(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- fields: made by go test ./internal/door/api -run TestFieldsOfTheDocs -update -->\n", "<!-- end of fields -->"
	var tables strings.Builder
	for _, kind := range record.Kinds {
		fmt.Fprintf(&tables, "\n**`%s`**\n\n| field | type | what it is |\n|---|---|---|\n", kind)
		for _, f := range field.Fields(kind) {
			if f.Sent() {
				property, _ := contract().Find("components", "schemas", kindSchema(t, kind), "properties", f.Name)
				fmt.Fprintf(&tables, "| %s | %s | %s |\n", fieldNames(f), typeName(f), description(property))
			}
		}
	}

	const path = "../../../docs/api.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	before, rest, ok := strings.Cut(string(text), begin)
	_, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatalf("%s has no place for the fields", path)
	}

	want := before + begin + tables.String() + "\n" + end + after
	switch {
	case want == string(text):
	case *update:
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the fields of %s are not those of the contract; run this test with -update", path)
	}
}

func fieldNames(f *field.Field) string {
	name := "`" + f.Name + "`"
	if f.Key || f.Required {
		name += ", required"
	}
	if f.Alias != "" {
		name += "; also `" + f.Alias + "`"
	}
	return name
}

func typeName(f *field.Field) string {
	switch f.Type {
	case field.Int:
		return "integer"
	case field.Float:
		return "number"
	case field.Time:
		return "time"
	case field.Bool:
		return "boolean"
	case field.Texts:
		return "list of texts"
	case field.JSON:
		return "JSON"
	case field.Hashes:
		return "list of hashes"
	}

	if f.AnyJSON {
		return "text or JSON"
	}
	return "text"
}

// description returns what the contract says of a property, where it refers to another schema as well.
func description(property obj) string {
	if property["description"] == nil {
		if ref, ok := property["$ref"].(string); ok {
			property, _ = contract().Find(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	text, _ := property["description"].(string)
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
