package code

import "strings"

var pythonRules = rules{
	functions: setOf("function_definition"),
	scopes:    setOf("class_definition"),
	nests:     setOf("if_statement for_statement while_statement try_statement with_statement match_statement"),
	branches: setOf(`if_statement elif_clause for_statement while_statement except_clause except_group_clause
		case_clause if_clause for_in_clause conditional_expression boolean_operator`),
	comments: setOf("comment"),
	parameterKinds: setOf(`identifier default_parameter typed_parameter typed_default_parameter list_splat_pattern
		dictionary_splat_pattern tuple_pattern`),
	importing: setOf("import_statement import_from_statement"),

	branch: func(n node) bool {
		return n.kind() != "case_clause" || strings.TrimSpace(pythonPattern(n)) != "_" || n.child("guard").there()
	},
	isReceiver: func(n node) bool {
		name, _, _ := strings.Cut(n.text(), ":")
		return name == "self" || name == "cls"
	},
	imports: pythonImports,
}

// pythonPattern returns what a case matches.
func pythonPattern(n node) string {
	all := n.children("case_pattern")
	if len(all) != 1 {
		return ""
	}
	return all[0].text()
}

func pythonImports(n node) (all []imported) {
	if n.kind() == "import_statement" {
		for _, name := range importedNames(n) {
			all = append(all, imported{name: name})
		}
		return all
	}

	from := n.child("module_name")
	if !from.there() {
		return nil
	}

	name := spaceless(from.text())
	members := importedNames(n)
	if len(members) == 0 { // import *
		return []imported{{name: name}}
	}
	for _, member := range members {
		// It may be a module in a package, or a name in a module.
		inner := strings.TrimSuffix(name, ".") + "." + member
		if strings.HasSuffix(name, ".") {
			inner = name + member
		}
		all = append(all, imported{name: name, tries: []string{inner, name}})
	}
	return all
}

// importedNames returns what an import names, without what it is called from there on.
func importedNames(n node) (names []string) {
	for _, c := range n.children() {
		if c.get().Field != "name" {
			continue
		}
		if c.kind() == "aliased_import" {
			c = c.child("name")
		}
		if c.there() {
			names = append(names, spaceless(c.text()))
		}
	}
	return names
}

func spaceless(s string) string { return strings.Join(strings.Fields(s), "") }
