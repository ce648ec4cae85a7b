package code

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

var javaRules = rules{
	functions: setOf("method_declaration constructor_declaration compact_constructor_declaration"),
	anonymous: setOf("lambda_expression"),
	scopes: setOf(`class_declaration interface_declaration enum_declaration record_declaration
		annotation_type_declaration`),
	nests: setOf(`if_statement for_statement enhanced_for_statement while_statement do_statement switch_expression
		try_statement try_with_resources_statement synchronized_statement`),
	branches: setOf(`if_statement for_statement enhanced_for_statement while_statement do_statement switch_label
		catch_clause ternary_expression guard`),
	operators:      setOf("&& ||"),
	comments:       setOf("line_comment block_comment"),
	parameterKinds: setOf("formal_parameter spread_parameter identifier"),
	importing:      setOf("import_declaration"),

	branch: func(n node) bool {
		return n.kind() != "switch_label" || !strings.HasPrefix(n.text(), "default")
	},
	imports: javaImports,
}

func javaImports(n node) []imported {
	var name string
	for _, c := range n.children("scoped_identifier", "identifier") {
		name = spaceless(c.text())
	}

	if name == "" {
		return nil
	}
	if len(n.children("asterisk")) > 0 { // of a package, or of what is static in a class
		return []imported{{name: name + ".*", tries: []string{strings.ReplaceAll(name, ".", "/")}}}
	}

	// What is in a class, which begins with a capital letter, is in the file of the class.
	at := strings.ReplaceAll(name, ".", "/")
	each := imported{name: name, tries: []string{at}}
	for above := path.Dir(at); unicode.IsUpper(firstRune(path.Base(above))); above = path.Dir(above) {
		each.tries = append(each.tries, above)
	}
	return []imported{each}
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}
