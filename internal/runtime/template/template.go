// Package template owns the values of the placeholders in plan templates, such as <<path>>.
package template

import (
	"regexp"

	"github.com/actlog/actlog/record"
)

// planID is a placeholder that always has a value: the plan of the run.
const planID = "planId"

// placeholder is as the configuration has it.
var placeholder = regexp.MustCompile(`<<([^<>\r\n]*)>>`)

// Check returns a [*record.InvalidError] that names the first placeholder without a value.
func Check(placeholders []string, values map[string]string) error {
	for _, name := range placeholders {
		if _, there := values[name]; !there && name != planID {
			return &record.InvalidError{
				Code: record.CodeMissingField, Field: name, Reason: "has no value: the template needs it",
			}
		}
	}
	return nil
}

// Fill replaces the placeholders of a text. plan is the plan of the run, whatever values say. Values are not
// searched for placeholders, and a placeholder without a value stays.
func Fill(text, plan string, values map[string]string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		name := found[2 : len(found)-2]
		if name == planID {
			return plan
		}
		if value, there := values[name]; there {
			return value
		}
		return found
	})
}
