package tool

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/model"
)

// Set is tools by name, in order. It does not change.
type Set struct {
	tools  []Tool
	byName map[string]Tool
}

// NewSet returns a set of tools. All errors are returned at once: names that a tool cannot have, two
// tools with the same name or with names that are the same to a model, schemas that are not of an
// object.
func NewSet(tools ...Tool) (*Set, error) {
	s := &Set{byName: make(map[string]Tool, len(tools))}
	offered := map[string]string{}
	var errs []error
	for _, t := range tools {
		spec := t.Spec()
		if err := CheckName(spec.Name); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := CheckSchema(spec.Schema); err != nil {
			errs = append(errs, fmt.Errorf("tool %s: %w", spec.Name, err))
		}

		if other, ok := offered[model.OfferedName(spec.Name)]; ok {
			if other == spec.Name {
				errs = append(errs, fmt.Errorf("two tools have the name %s", other))
			} else {
				errs = append(errs, fmt.Errorf("the tools %s and %s are both %s to a model", other, spec.Name,
					model.OfferedName(other)))
			}
			continue
		}

		offered[model.OfferedName(spec.Name)] = spec.Name
		s.tools = append(s.tools, t)
		s.byName[spec.Name] = t
	}

	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// Get returns the tool of a name, as the record has it.
func (s *Set) Get(name string) (Tool, bool) {
	t, ok := s.byName[name]
	return t, ok
}

// Tools returns the tools in their order.
func (s *Set) Tools() []Tool { return slices.Clone(s.tools) }

// Names returns the names of the tools in their order.
func (s *Set) Names() []string {
	names := make([]string, len(s.tools))
	for i, t := range s.tools {
		names[i] = t.Spec().Name
	}
	return names
}

// Select returns the tools that match any of the patterns, in the order of the set. A name without
// "*" that nobody has is an error. A pattern with "*" may match nothing.
func (s *Set) Select(patterns ...string) (*Set, error) {
	var errs []error
	for _, p := range patterns {
		if err := CheckPattern(p); err != nil {
			errs = append(errs, err)
		} else if _, ok := s.byName[p]; !ok && !strings.Contains(p, "*") {
			errs = append(errs, fmt.Errorf("no tool has the name %s; there are: %s", p, cutList(s.Names())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}

	some := &Set{byName: map[string]Tool{}}
	for _, t := range s.tools {
		name := t.Spec().Name
		if slices.ContainsFunc(patterns, func(p string) bool { return Match(p, name) }) {
			some.tools = append(some.tools, t)
			some.byName[name] = t
		}
	}
	return some, nil
}

// cutList returns names for an error message, not all of them if there are many.
func cutList(names []string) string {
	const most = 20
	if len(names) == 0 {
		return "none"
	}
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
