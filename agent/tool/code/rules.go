package code

import "strings"

// rules say what the nodes of a grammar are, by their types.
type rules struct {
	functions      set // those that have a name and a body
	anonymous      set // functions without a name
	scopes         set // what gives its name to the functions in it
	nests          set // statements that others lie in
	branches       set // each is a path more
	operators      set // the operators that are, too
	comments       set
	parameterKinds set
	importing      set

	branch     func(node) bool // reports whether one of branches is a path more; nil: all are
	isReceiver func(node) bool // reports whether one of parameters is the receiver of a method; nil: none is
	imports    func(node) []imported
}

type set map[string]bool

func setOf(words string) set {
	s := set{}
	for word := range strings.FieldsSeq(words) {
		s[word] = true
	}
	return s
}
