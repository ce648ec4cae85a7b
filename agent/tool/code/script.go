package code

import (
	"path"
	"strings"
)

// scriptRules are those of TypeScript, with or without XML in it, which JavaScript is a part of.
var scriptRules = rules{
	functions: setOf("function_declaration generator_function_declaration method_definition"),
	anonymous: setOf("arrow_function function_expression generator_function"),
	scopes:    setOf("class_declaration abstract_class_declaration class internal_module module"),
	nests: setOf(`if_statement for_statement for_in_statement while_statement do_statement switch_statement
		try_statement`),
	branches: setOf(`if_statement for_statement for_in_statement while_statement do_statement switch_case catch_clause
		ternary_expression`),
	operators:      setOf("&& || ?? &&= ||= ??="),
	comments:       setOf("comment html_comment"),
	parameterKinds: setOf("required_parameter optional_parameter"),
	importing:      setOf("import_statement export_statement call_expression"),

	isReceiver: func(n node) bool { return n.child("pattern").kindOrNone() == "this" },
	imports:    scriptImports,
}

func scriptImports(n node) []imported {
	source := n.child("source")
	if n.kind() == "call_expression" {
		called := n.child("function")
		if !called.there() || called.kind() != "import" && called.text() != "require" {
			return nil
		}
		source = node{n.Tree, -1}
		if arguments := n.child("arguments"); arguments.there() {
			if texts := arguments.children("string"); len(texts) == 1 {
				source = texts[0]
			}
		}
	} else if !source.there() {
		for _, c := range n.children("import_require_clause") { // import a = require("b")
			source = c.child("source")
		}
	}
	if !source.there() {
		return nil
	}

	name := strings.Trim(source.text(), "'\"`")
	each := imported{name: name, tries: []string{name}}
	switch ext := path.Ext(name); {
	case name == "." || name == "..":
		each.tries[0] = name + "/"
	case ext == ".js" || ext == ".mjs" || ext == ".cjs" || ext == ".jsx": // what TypeScript will be compiled to
		each.tries = append(each.tries, strings.TrimSuffix(name, ext))
	}
	return []imported{each}
}
