package tool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// Bounds of schemas, our own and those of MCP servers. The library that checks by schemas has none: a schema that
// refers to itself makes it call itself until the stack overflows, which ends the process.
const (
	maxSchemaDepth   = 100        // how deep its JSON is nested: the library reads it once for each level
	maxSchemaPaths   = 4 << 20    // bytes of the places of its parts, and of their URIs
	maxSameValue     = 10_000     // how many schemas one value is checked by, before its items and members
	maxPatternBytes  = 32 << 10   // of all its patterns
	maxPatternStates = 100_000    // of all its patterns, as if their repetitions were written out
	maxCheckDepth    = 1000       // schemas that are under way at the same time during a check
	maxCheckSteps    = 10_000_000 // of one check; a step takes less than a microsecond
	maxCheckText     = 128 << 20  // bytes that the errors of one check may have in all
)

// errTooMuch says that a value is not checked by a schema, because that could take too long.
var errTooMuch = errors.New("it is too large, or too deep, to be checked by the schema")

// outline is what can be seen of a schema before it is used.
type outline struct {
	draft7     bool
	root       *subschema
	subschemas map[*jsonschema.Schema]*subschema
	places     map[string]*subschema   // by path
	uris       map[string][]*subschema // those with an $id; the root also without
	anchor     map[string][]*subschema // those with a $dynamicAnchor

	paths, patternBytes, patternStates int // how much of the bounds is used
}

// subschema is a schema in a schema.
type subschema struct {
	schema *jsonschema.Schema
	path   string
	base   *subschema // the innermost one around it that has a URI
	uri    *url.URL
	anchor map[string][]*subschema // those whose base it is

	same     []*subschema // what a value of it is checked by as well
	count    int          // how many those are, with theirs; 0: not known yet
	counting bool
	tried    bool // the check may go on if a value does not fit

	text     int // bytes that an error may show of it
	entries  int // what is looked up one by one
	states   int // of its pattern
	patterns []pattern
}

// pattern is one of patternProperties.
type pattern struct {
	expression *regexp.Regexp
	states     int
	schema     *jsonschema.Schema
}

// outlineOf returns an error if the schema cannot be used within the bounds.
func outlineOf(root *jsonschema.Schema) (*outline, error) {
	o := &outline{
		draft7:     strings.HasSuffix(root.Schema, "://json-schema.org/draft-07/schema#"),
		subschemas: map[*jsonschema.Schema]*subschema{}, places: map[string]*subschema{},
		uris: map[string][]*subschema{}, anchor: map[string][]*subschema{},
	}
	if err := o.add(root, "", nil, ""); err != nil {
		return nil, err
	}
	o.root = o.subschemas[root]

	for _, p := range o.subschemas {
		if err := o.refer(p); err != nil {
			return nil, fmt.Errorf("%s: %w", shownPlace(p.path), err)
		}
	}
	for _, p := range o.subschemas {
		if _, err := p.sameValue(); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func shownPlace(path string) string { return strconv.Quote(Cut("#"+path, maxShownPath)) }

// elsewhere are the keywords with schemas that are not for the value itself: they are for parts of it, or for nothing.
var elsewhere = []string{
	"$defs", "definitions", "contentSchema",
	"items", "prefixItems", "additionalItems", "contains", "unevaluatedItems",
	"properties", "patternProperties", "additionalProperties", "propertyNames", "unevaluatedProperties",
}

// tries are the keywords after whose schemas a check goes on though the value does not fit.
var tries = []string{"anyOf", "oneOf", "not", "if", "contains"}

// add adds a schema, and those in it.
func (o *outline) add(s *jsonschema.Schema, path string, around *subschema, keyword string) error {
	if s == nil {
		return fmt.Errorf("%s: it is no schema", shownPlace(path))
	}

	p := &subschema{schema: s, path: path, anchor: map[string][]*subschema{}, tried: slices.Contains(tries, keyword)}
	if around == nil {
		p.base, p.uri = p, new(url.URL)
		o.uris[""] = []*subschema{p}
	} else {
		if !slices.Contains(elsewhere, keyword) {
			around.same = append(around.same, p)
		}
		p.base = around.base
	}
	o.subschemas[s], o.places[path] = p, p

	if err := o.name(p); err != nil {
		return fmt.Errorf("%s: %w", shownPlace(path), err)
	}
	if o.paths += len(path); o.paths > maxSchemaPaths {
		return fmt.Errorf("it is too large: the names of its parts have more than %d bytes", maxSchemaPaths)
	}
	if err := o.measure(p); err != nil {
		return fmt.Errorf("%s: %w", shownPlace(path), err)
	}
	return eachIn(s, func(keyword, key string, sub *jsonschema.Schema) error {
		return o.add(sub, path+key, p, keyword)
	})
}

// name finds the names by which a schema can be referred to, as the library does. Where several have one name, all
// count.
func (o *outline) name(p *subschema) error {
	s := p.schema
	if s.ID != "" && (!o.draft7 || s.Ref == "") {
		id, err := url.Parse(s.ID)
		if err != nil {
			return errors.New("its $id is no URI")
		}

		if o.draft7 && id.Fragment != "" {
			anchor := strings.TrimPrefix(s.ID, "#")
			p.base.anchor[anchor] = append(p.base.anchor[anchor], p)
		} else {
			p.uri = p.base.uri.ResolveReference(id)
			uri := p.uri.String()
			o.uris[uri] = append(o.uris[uri], p)
			o.paths += len(uri)
			p.base = p
		}
	}

	for _, anchor := range []string{s.Anchor, s.DynamicAnchor} {
		if anchor != "" {
			p.base.anchor[anchor] = append(p.base.anchor[anchor], p)
		}
	}
	if s.DynamicAnchor != "" {
		o.anchor[s.DynamicAnchor] = append(o.anchor[s.DynamicAnchor], p)
	}
	return nil
}

// refer adds what a schema refers to to those for the same value.
func (o *outline) refer(p *subschema) error {
	for _, ref := range []string{p.schema.Ref, p.schema.DynamicRef} {
		if ref == "" {
			continue
		}
		uri, err := url.Parse(ref)
		if err != nil {
			return errors.New("its reference is no URI")
		}

		uri = p.base.uri.ResolveReference(uri)
		fragment := uri.Fragment
		uri.Fragment, uri.RawFragment = "", ""
		whole := uri.String()
		if o.paths += len(whole); o.paths > maxSchemaPaths {
			return fmt.Errorf("it is too large: its URIs have more than %d bytes", maxSchemaPaths)
		}

		found := 0
		for _, at := range o.uris[whole] {
			named := at.anchor[fragment]
			if fragment == "" || fragment[0] == '/' {
				named = nil
				if there := o.places[at.path+fragment]; there != nil {
					named = []*subschema{there}
				}
			}
			p.same = append(p.same, named...)
			found += len(named)
		}
		if found == 0 {
			return fmt.Errorf("it refers to %s, which is not in the schema", quoted(ref))
		}
	}

	// Which of these it is depends on the way to it.
	if _, anchor, ok := strings.Cut(p.schema.DynamicRef, "#"); ok {
		for _, each := range o.anchor[anchor] {
			if !slices.Contains(p.same, each) {
				p.same = append(p.same, each)
			}
		}
	}
	return nil
}

func quoted(text string) string { return strconv.Quote(Cut(text, maxShownNumber)) }

// sameValue returns how many schemas a value is checked by, with the one itself.
func (p *subschema) sameValue() (int, error) {
	if p.counting {
		return 0, fmt.Errorf("%s: it leads to itself, for the same value", shownPlace(p.path))
	}
	if p.count > 0 {
		return p.count, nil
	}

	p.counting = true
	count := 1
	for _, each := range p.same {
		n, err := each.sameValue()
		if err != nil {
			return 0, err
		}
		if count += n; count > maxSameValue {
			return 0, fmt.Errorf("%s: it leads to more than %d schemas for the same value", shownPlace(p.path), maxSameValue)
		}
	}
	p.count, p.counting = count, false
	return count, nil
}

// measure says what a visit of a schema costs.
func (o *outline) measure(p *subschema) (err error) {
	s := p.schema
	if s.Pattern != "" {
		if p.states, err = o.pattern(s.Pattern); err != nil {
			return err
		}
	}
	for text, sub := range s.PatternProperties {
		states, err := o.pattern(text)
		if err != nil {
			return err
		}
		expression, err := regexp.Compile(text)
		if err != nil {
			return fmt.Errorf("the pattern %s cannot be read", quoted(text))
		}
		p.patterns = append(p.patterns, pattern{expression, states, sub})
	}

	p.text = len(p.path) + len(s.ID) + len(s.Anchor) + len(s.DynamicAnchor) + len(s.Pattern) + valueOf(s.Enum).text
	if s.Const != nil {
		p.text += valueOf(*s.Const).text
	}

	p.entries = len(s.Properties) + len(s.Enum)
	lists := slices.Concat(slices.Collect(maps.Values(s.DependentRequired)),
		slices.Collect(maps.Values(s.DependencyStrings)))
	for _, list := range append(lists, s.Required) {
		p.entries += 1 + len(list)
		for _, name := range list {
			p.text += len(name)
		}
	}
	return nil
}

// pattern returns how many states a pattern has, about.
func (o *outline) pattern(text string) (int, error) {
	if o.patternBytes += len(text); o.patternBytes > maxPatternBytes {
		return 0, fmt.Errorf("its patterns have more than %d bytes", maxPatternBytes)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("the pattern %s cannot be read", quoted(text))
	}

	states := statesOf(parsed)
	if o.patternStates += states; o.patternStates > maxPatternStates {
		return 0, fmt.Errorf("its patterns have more than %d states", maxPatternStates)
	}
	return states, nil
}

// statesOf returns how many states an expression has, about, and at most a little more than the bound.
func statesOf(e *syntax.Regexp) int {
	states := 2
	if e.Op == syntax.OpLiteral {
		states += len(e.Rune)
	} else {
		states += len(e.Rune) / 64 // a class is one state, and searched quickly
	}

	for _, sub := range e.Sub {
		states += statesOf(sub)
	}
	if e.Op == syntax.OpRepeat {
		states *= max(e.Min+1, e.Max)
	}
	return min(states, maxPatternStates+1)
}

// fields are those of the library's Schema that have schemas.
var fields = func() (all []reflect.StructField) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[jsonschema.Schema]()) {
		switch f.Type {
		case reflect.TypeFor[*jsonschema.Schema](), reflect.TypeFor[[]*jsonschema.Schema](),
			reflect.TypeFor[map[string]*jsonschema.Schema]():
			all = append(all, f)
		}
	}
	return all
}()

// keywordOf returns the keyword that a field of the library's Schema has in JSON.
func keywordOf(f reflect.StructField) string {
	switch f.Name {
	case "Items", "ItemsArray":
		return "items"
	case "DependencySchemas":
		return "dependencies"
	}
	keyword, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return keyword
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// eachIn calls do for each schema in a schema, with what comes to the path of it.
func eachIn(s *jsonschema.Schema, do func(keyword, key string, sub *jsonschema.Schema) error) error {
	all := reflect.ValueOf(s).Elem()
	for _, f := range fields {
		keyword := keywordOf(f)
		switch subs := all.FieldByIndex(f.Index).Interface().(type) {
		case *jsonschema.Schema:
			if subs != nil {
				if err := do(keyword, "/"+keyword, subs); err != nil {
					return err
				}
			}

		case []*jsonschema.Schema:
			for i, sub := range subs {
				if err := do(keyword, "/"+keyword+"/"+strconv.Itoa(i), sub); err != nil {
					return err
				}
			}

		case map[string]*jsonschema.Schema:
			for _, key := range slices.Sorted(maps.Keys(subs)) {
				if err := do(keyword, "/"+keyword+"/"+escaper.Replace(key), subs[key]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkDepth returns an error if JSON is nested too deep for a schema.
func checkDepth(text []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		if _, err := d.ReadToken(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if d.StackDepth() > maxSchemaDepth {
			return fmt.Errorf("it is more than %d deep", maxSchemaDepth)
		}
	}
}

// value is a JSON value that is checked.
type value struct {
	text    int // bytes of it, about, as an error shows it
	parts   int // of the items, how many are no plain values
	isText  bool
	items   []value
	members map[string]value
}

func valueOf(x any) value {
	v := value{text: 24}
	switch x := x.(type) {
	case string:
		v.isText, v.text = true, 2+len(x)
	case []any:
		v.items = make([]value, len(x))
		for i, each := range x {
			v.items[i] = valueOf(each)
			v.text += v.items[i].text
			if v.items[i].items != nil || v.items[i].members != nil {
				v.parts++
			}
		}

	case map[string]any:
		v.members = make(map[string]value, len(x))
		for key, each := range x {
			member := valueOf(each)
			v.members[key] = member
			v.text += len(key) + member.text
		}
	}
	return v
}

// affords reports whether the library cannot take too long to check a value. It goes where the library may go,
// whatever fits there, so it never goes less far.
func (o *outline) affords(x any) bool {
	w := walk{parts: o.subschemas, steps: maxCheckSteps, text: maxCheckText}
	return w.visit(o.root.schema, valueOf(x), 1, false)
}

// walk goes through a schema and a value.
type walk struct {
	parts       map[*jsonschema.Schema]*subschema
	steps, text int // how much is left
}

// visit reports whether a value can be checked by a schema with what is left. Where the check goes on though the value
// does not fit, as tried says, there may be many errors; else there is one.
func (w *walk) visit(s *jsonschema.Schema, v value, depth int, tried bool) bool {
	if s == nil {
		return true
	}

	p := w.parts[s]
	w.steps -= 4 + p.entries + len(v.items) + len(v.members)
	if v.isText {
		w.steps -= v.text * p.states / 10
	}
	if s.DynamicRef != "" {
		w.steps -= depth // the library looks through all that is under way
	}
	if s.UniqueItems {
		w.steps -= v.parts * v.parts / 8 // different ones may have one hash there
	}

	text := depth * (16 + p.text + v.text) // an error is written again for each that is under way
	if depth > maxCheckDepth || w.steps < 0 || text > w.text {
		return false
	}
	if tried = tried || p.tried; tried {
		w.text -= text
	}

	for _, each := range p.same {
		if !w.visit(each.schema, v, depth+1, tried) {
			return false
		}
	}
	return w.visitItems(s, v, depth+1, tried) && w.visitMembers(p, v, depth+1, tried)
}

func (w *walk) visitItems(s *jsonschema.Schema, v value, depth int, tried bool) bool {
	for i, item := range v.items {
		var by []*jsonschema.Schema
		switch {
		case i < len(s.PrefixItems):
			by = append(by, s.PrefixItems[i], s.Contains)
		case s.Items != nil:
			by = append(by, s.Items, s.Contains)
		default:
			by = append(by, s.Contains, s.UnevaluatedItems)
		}
		if i < len(s.ItemsArray) { // of draft 7, with what is for the others
			by = append(by, s.ItemsArray[i])
		} else {
			by = append(by, s.AdditionalItems)
		}

		for _, each := range by {
			if !w.visit(each, item, depth, tried) {
				return false
			}
		}
	}
	return true
}

func (w *walk) visitMembers(p *subschema, v value, depth int, tried bool) bool {
	s := p.schema
	for key, member := range v.members {
		own, known := s.Properties[key]
		by := []*jsonschema.Schema{own}
		for _, each := range p.patterns {
			if w.steps -= 1 + len(key)*each.states/10; w.steps < 0 {
				return false
			}
			if each.expression.MatchString(key) {
				by, known = append(by, each.schema), true
			}
		}

		switch {
		case known:
		case s.AdditionalProperties != nil:
			by = append(by, s.AdditionalProperties)
		default:
			by = append(by, s.UnevaluatedProperties)
		}

		for _, each := range by {
			if !w.visit(each, member, depth, tried) {
				return false
			}
		}
		if s.PropertyNames != nil && !w.visit(s.PropertyNames, valueOf(key), depth, tried) {
			return false
		}
	}
	return true
}
