// Package template owns the placeholders in the texts of plan templates, such as <<path>>.
package template

import (
	"regexp"
	"slices"

	"github.com/actlog/actlog/record"
)

// PlanID is a placeholder that every template may have: the plan of the run.
const PlanID = "planId"

var placeholder = regexp.MustCompile(`<<([^<>\s](?:[^<>\n]*[^<>\s])?)>>`)

// Parameters returns the placeholders of texts but [PlanID], once each, in the order in which they come.
func Parameters(texts ...string) (names []string) {
	for _, text := range texts {
		for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
			if name := m[1]; name != PlanID && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// Check returns a [*record.InvalidError] that names the first placeholder of texts without a value.
func Check(values map[string]string, texts ...string) error {
	for _, name := range Parameters(texts...) {
		if _, there := values[name]; !there {
			return &record.InvalidError{Code: record.CodeMissingField, Field: name, Reason: "has no value: the template needs it"}
		}
	}
	return nil
}

// Fill replaces the placeholders of a text. planID is that of the run, whatever values say. Values are not
// searched for placeholders, and a placeholder without a value stays.
func Fill(text, planID string, values map[string]string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		name := found[2 : len(found)-2]
		if name == PlanID {
			return planID
		}
		if value, there := values[name]; there {
			return value
		}
		return found
	})
}
