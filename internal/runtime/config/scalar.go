package config

import (
	"math"
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/runtime/define"
)

// text returns a text that may go on record, so it has no variables.
func (n node) text() string {
	if !n.is("a text, in quotes if need be", "!!str") {
		return ""
	}
	text, _ := n.expand(false)
	return text
}

// word returns a text that is not empty.
func (n node) word() string {
	text := n.text()
	if n.ShortTag() == "!!str" && strings.TrimSpace(n.Value) == "" {
		n.problem("it is empty")
	}
	return text
}

// each returns what each element of a list is read as.
func each[T any](n node, read func(node) T) (all []T) {
	for _, element := range n.list() {
		all = append(all, read(element))
	}
	return all
}

// texts returns a list of texts.
func (n node) texts() []string { return each(n, node.text) }

// words returns a list of texts that are not empty.
func (n node) words() []string { return each(n, node.word) }

func (n node) boolean() (b bool) {
	if n.is("true or false", "!!bool") {
		_ = n.Decode(&b) // cannot fail: the tag says so
	}
	return b
}

// positive returns a whole number from 1 to most.
func (n node) positive(most int64) int64 { return n.whole(1, most) }

// whole returns a whole number from least to most.
func (n node) whole(least, most int64) (i int64) {
	if n.is("a whole number", "!!int") && (n.Decode(&i) != nil || i < least || i > most) {
		n.problem("want a whole number from %d to %d", least, most)
		return 0
	}
	return i
}

// number returns a number from least to most.
func (n node) number(least, most float64) (x float64) {
	if n.is("a number", "!!int", "!!float") && (n.Decode(&x) != nil || math.IsNaN(x) || x < least || x > most) {
		n.problem("want a number from %v to %v", least, most)
		return 0
	}
	return x
}

// amount returns a number above 0.
func (n node) amount() (x float64) {
	if n.is("a number", "!!int", "!!float") && (n.Decode(&x) != nil || math.IsNaN(x) || math.IsInf(x, 0) || x <= 0) {
		n.problem("want a number above 0")
		return 0
	}
	return x
}

func (n node) duration() (d define.Duration) {
	if !n.is("a time such as 30s or 2m", "!!str") {
		return 0
	}
	text := n.text()
	if err := d.UnmarshalText([]byte(text)); err != nil && (text != "" || n.Value == "") {
		n.problem("%v", err)
	}
	return d
}

func oneOf[T ~string](n node, choices ...T) T {
	text := T(n.text())
	if !slices.Contains(choices, text) && (text != "" || n.Value == "") {
		texts := make([]string, len(choices))
		for i, choice := range choices {
			texts[i] = string(choice)
		}
		n.problem("want %s", strings.Join(texts, " or "))
		return ""
	}
	return text
}

// command returns a program and its arguments.
func (n node) command() []string {
	command := n.texts()
	if n.ShortTag() == "!!seq" && (len(command) == 0 || n.Content[0].Value == "") {
		n.problem("want a program and its arguments")
	}
	return command
}
