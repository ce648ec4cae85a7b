package engine

import (
	"cmp"
	"encoding/json"
)

// About says what the doors know of an executor: of what runs can be started, how they are asked for, and how they
// answer. The zero value is that of an executor which is given a text.
type About struct {
	// Description says in a sentence or two what the runs do; empty: nothing is said.
	Description string
	// Text is the member of the input that says in words what is to be done. Default: request.
	Text string
	// Schema is the JSON schema of the input. Default: that of [Plain].
	Schema json.RawMessage
	// AnswersText says that the result of a run is a text, also if it looks like JSON.
	AnswersText bool
	// Startables returns that of which runs can be started. Default: the executor itself, with a form for the text.
	Startables func(Parts) []Startable
}

// Described is an executor that says what the doors show of it. One that is not is shown as one that is given a text.
type Described interface {
	Executor
	About() About
}

// AboutOf returns what the doors show of an executor, with the defaults.
func AboutOf(x Executor) (a About) {
	if described, ok := x.(Described); ok {
		a = described.About()
	}
	a.Text = cmp.Or(a.Text, "request")

	if a.Schema == nil {
		a.Schema = textSchema
	}
	if a.Startables == nil {
		itself := Startable{Description: a.Description, Fields: []Field{LongText("Request", a.Text)}}
		a.Startables = func(Parts) []Startable { return []Startable{itself} }
	}
	return a
}

// Startable is something of which runs can be started.
type Startable struct {
	Executor    string // its kind
	Name        string // of a definition; empty: it is the executor itself, whose runs need a model
	Type        string // of a workflow: simple_workflow or custom_workflow
	Title       string // what it is called if it has no name. Default: the kind of the executor
	Sort        string // what it is, in words. Default: the kind of the executor, or "executor" if it has no name
	Description string
	// Input has the members of the input that say what is run. Default: none, the request has the name.
	Input map[string]any
	// Fields are what is asked for.
	Fields []Field
}

// Field is a member of the input, as a form asks for it.
type Field struct {
	Member   []string // its name; before it those of the objects that it is in
	Label    string
	Kind     string // text, textarea, select or flag
	Required bool
	Hint     string
	Options  []string // of a select
	Value    any      // of a flag that is set
	JSON     bool     // what is typed may be JSON
}

// LongText returns a field that must have a text.
func LongText(label string, member ...string) Field {
	return Field{Member: member, Label: label, Kind: "textarea", Required: true}
}

// Defined returns what has definitions of a kind, in the order of the names. complete adds to each what the executor
// knows of it.
func Defined(parts Parts, kind string, complete func(s *Startable, definition json.RawMessage)) (all []Startable) {
	for _, name := range parts.Names(kind) {
		s := Startable{Name: name}
		body, ok := parts.Definition(kind, name)
		var d struct{ Description string }
		if ok && json.Unmarshal(body, &d) == nil {
			s.Description = d.Description
		}

		complete(&s, body)
		all = append(all, s)
	}
	return all
}
