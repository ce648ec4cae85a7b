package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/testkit/pgtest"
)

// chain returns a schema of which each part has the next one twice.
func chain(n int) string {
	var defs []string
	for i := range n {
		defs = append(defs, fmt.Sprintf(`"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	return fmt.Sprintf(`{"type":"object","$ref":"#/$defs/d0","$defs":{%s,"d%d":{"required":["no"]}}}`,
		strings.Join(defs, ","), n)
}

// nested returns an object in an object, and so on.
func nested(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }

// endless are schemas that no object fits, with arguments by which their check would end the process, or take too long.
func endless() map[string][2]string {
	ring := `"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}`
	all := map[string][2]string{
		"ring":               {`{"type":"object","anyOf":[{"$ref":"#/$defs/a"}],` + ring + `}`, `{}`},
		"ring in a property": {`{"type":"object","properties":{"x":{"$ref":"#/$defs/a"}},` + ring + `}`, `{"x":1}`},
		"ring in items": {
			`{"type":"object","properties":{"x":{"items":{"$ref":"#/$defs/a"}}},` + ring + `}`, `{"x":[1]}`,
		},
		"ring in names": {`{"type":"object","propertyNames":{"$ref":"#/$defs/a"},` + ring + `}`, `{"x":1}`},
		"ring in other properties": {
			`{"type":"object","additionalProperties":{"$ref":"#/$defs/a"},` + ring + `}`, `{"x":1}`,
		},
		"ring behind a pattern": {
			`{"type":"object","patternProperties":{"^x":{"$ref":"#/$defs/a"}},` + ring + `}`, `{"x":1}`,
		},
		"ring in contains": {
			`{"type":"object","properties":{"x":{"contains":{"$ref":"#/$defs/a"}}},` + ring + `}`, `{"x":[1]}`,
		},
		"itself":            {`{"type":"object","$ref":"#"}`, `{}`},
		"itself, not":       {`{"type":"object","not":{"$ref":"#"}}`, `{}`},
		"itself, if":        {`{"type":"object","if":{"$ref":"#"}}`, `{}`},
		"itself, then":      {`{"type":"object","if":true,"then":{"$ref":"#"}}`, `{}`},
		"itself, else":      {`{"type":"object","if":false,"else":{"oneOf":[{"$ref":"#"}]}}`, `{}`},
		"itself, dependent": {`{"type":"object","dependentSchemas":{"x":{"allOf":[{"$ref":"#"}]}}}`, `{"x":1}`},
		"itself, draft 7": {
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","dependencies":{"x":{"$ref":"#"}}}`, `{"x":1}`,
		},
		"itself, draft 7, by name": {
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","allOf":[{"$ref":"#a"}],"definitions":{"x":{"$id":"#a","not":{"$ref":"#a"}}}}`, `{}`,
		},
		"itself, by anchor":         {`{"type":"object","$anchor":"me","allOf":[{"$ref":"#me"}]}`, `{}`},
		"itself, by dynamic anchor": {`{"type":"object","$dynamicAnchor":"me","allOf":[{"$dynamicRef":"#me"}]}`, `{}`},
		"itself, by URI": {
			`{"$id":"https://example.org/a/b.json","type":"object","allOf":[{"$ref":"b.json"}]}`, `{}`,
		},
		"itself, by another's URI": {
			`{"type":"object","$defs":{"a":{"$id":"https://example.org/a","$ref":"b"},"b":{"$id":"https://example.org/b","$ref":"a"}},"allOf":[{"$ref":"https://example.org/a"}]}`, `{}`,
		},
		"dynamic, from elsewhere": {`{"$id":"https://example.org/a","type":"object","$dynamicAnchor":"n","$ref":"b",
			"$defs":{"b":{"$id":"b","$dynamicRef":"#n","$defs":{"n":{"$dynamicAnchor":"n"}}}}}`, `{}`},
		"chain": {chain(40), `{}`},
		"twice at each level": {
			`{"type":"object","allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, nested(60),
		},
		"deep arguments": {
			`{"type":"object","properties":{"a":{"allOf":[{"anyOf":[{"$ref":"#/$defs/v"}]}]}},"$defs":{"v":{"properties":{"a":{"$ref":"#/$defs/v"}}}}}`, nested(9000),
		},
		"no schema":   {`{"type":"object","$ref":"#/not"}`, `{}`},
		"deep schema": {`{"type":"object","not":` + strings.Repeat(`{"not":`, 9000) + `{}` + strings.Repeat("}", 9001), `{}`},
		"large pattern": {`{"type":"object","properties":{` + strings.TrimSuffix(strings.Repeat(
			`"x":{"pattern":"(?:`+strings.Repeat("x", 3000)+`){1000}"},`, 30), ",") + `}}`, `{"x":"y"}`},
		"large patterns of keys": {
			`{"type":"object","patternProperties":{"(?:` + strings.Repeat("x", 3000) + `){1000}":false}}`, `{"x":"y"}`,
		},
		"slow pattern": {`{"type":"object","properties":{"x":{"pattern":"(x?){1000}y$"}}}`,
			`{"x":"` + strings.Repeat("x", 1<<20) + `"}`},
		"large errors": {`{"type":"object","anyOf":[` + strings.Repeat(`{"required":["no"]},`, 5000) +
			`false],"properties":{"x":{"anyOf":[` +
			strings.Repeat(`{"type":"number"},`, 5000) + `false]}}}`, `{"x":"` + strings.Repeat("x", 1<<20) + `"}`},
		"long names": {
			`{"type":"object","properties":{"` + strings.Repeat("n", 60<<10) + `":{"allOf":[` + strings.Repeat(`{},`, 6000) +
				`false]}}}`, `{}`,
		},
		"long URIs": {`{"type":"object","$id":"https://example.org/` + strings.Repeat("n", 60<<10) + `/","$defs":{` +
			func() string {
				var defs []string
				for i := range 3000 {
					defs = append(defs, fmt.Sprintf(`"%d":{"$id":"%d"}`, i, i))
				}
				return strings.Join(defs, ",")
			}() + `},"required":["no"]}`, `{}`},
		"one hash": {`{"type":"object","properties":{"x":{"uniqueItems":true}}}`, `{"x":[` + func() string {
			var items []string // all ways to cut ten letters in six
			var add func(item []string, left int)
			add = func(item []string, left int) {
				if len(item) == 6 {
					items = append(items, `["`+strings.Join(append(item, strings.Repeat("x", left)), `","`)+`"]`)
					return
				}
				for n := range left + 1 {
					add(append(item[:len(item):len(item)], strings.Repeat("x", n)), left-n)
				}
			}
			add(nil, 12)
			return strings.Join(append(items, items[0]), ",")
		}() + `]}`},
	}

	return all
}

// A schema that could be checked without an end ends nothing: one of another's tool checks nothing, and one of our own
// is an error, when it is read or for the model.
func TestEndlessSchemas(t *testing.T) {
	t.Parallel()
	for name, tt := range endless() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema, arguments := json.RawMessage(tt[0]), json.RawMessage(tt[1])
			if err := tool.SchemaCheck(schema)(arguments); err != nil {
				t.Errorf("another's: %.200v, want nothing", err)
			}
			says := rawTool{}
			if err := tool.CheckArguments(schemaTool{says, schema}, arguments); err != nil {
				t.Errorf("a tool's: %.200v, want nothing", err)
			}

			check, err := tool.Checker(schema)
			if err == nil {
				err = check(string(arguments))
			}
			if err == nil || len(err.Error()) > 1000 {
				t.Errorf("our own: %.200v, want an error", err)
			}

			own, err := tool.SchemaFunc("own", "", schema, func(context.Context, tool.Call) (tool.Result, error) {
				return tool.Result{Text: "called"}, nil
			})
			if err != nil {
				return
			}

			r, err := own.Call(t.Context(), tool.Call{Arguments: arguments})
			if err != nil || !r.Failed || !strings.HasPrefix(r.Text, "Bad arguments: it is too large, or too deep,") {
				t.Errorf("%.200v, %v, want bad arguments", r, err)
			}
		})
	}
}

// schemaTool is a tool with a schema that checks nothing itself.
type schemaTool struct {
	rawTool
	schema json.RawMessage
}

func (s schemaTool) Spec() tool.Spec { return tool.Spec{Name: "raw", Schema: s.schema} }

// A schema that does not say that arguments are an object is checked as well.
func TestSchemasThatNameNoObject(t *testing.T) {
	t.Parallel()
	for _, typed := range []string{"", `"type":["object","null"],`, `"type":"object",`} {
		check := tool.SchemaCheck(json.RawMessage(`{` + typed + `"properties":{"n":{"type":"integer"}},"required":["n"]}`))
		if err := check(json.RawMessage(`{"n":1}`)); err != nil {
			t.Errorf("%s: %v", typed, err)
		}
		for _, bad := range []string{`{}`, `{"n":"x"}`} {
			if err := check(json.RawMessage(bad)); err == nil || !strings.Contains(err.Error(), "n") {
				t.Errorf("%s with %s: %v, want what does not fit", typed, bad, err)
			}
		}
	}
}

// A schema of a dialect that is not known checks nothing; as one of our own it is an error.
func TestDialects(t *testing.T) {
	t.Parallel()

	for dialect, known := range map[string]bool{
		"https://json-schema.org/draft/2020-12/schema": true, "http://json-schema.org/draft-07/schema#": true,
		"https://json-schema.org/draft-07/schema#": true,
		"http://json-schema.org/draft-04/schema#":  false, "https://json-schema.org/draft/2019-09/schema": false,
		"other": false,
	} {
		schema := json.RawMessage(`{"$schema":"` + dialect + `","type":"object","properties":{"n":{"type":"integer"}}}`)
		if err := tool.SchemaCheck(schema)(json.RawMessage(`{"n":1}`)); err != nil {
			t.Errorf("%s: %v", dialect, err)
		}
		if err := tool.SchemaCheck(schema)(json.RawMessage(`{"n":"x"}`)); (err != nil) != known {
			t.Errorf("%s: %v", dialect, err)
		}
		if _, err := tool.Checker(schema); (err == nil) != known {
			t.Errorf("%s, of our own: %v", dialect, err)
		}
	}
}

// Schemas that refer to themselves for parts of a value are checked to the end.
func TestSchemasThatReferToThemselves(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is refused, and in which words")
	t.Parallel()
	tree := `"properties":{"name":{"type":"string"},"children":{"type":"array","items":`
	draft7 := `"$schema":"http://json-schema.org/draft-07/schema#",`
	many := strings.Repeat(`{"required":["no"]},`, 2000)

	for _, tt := range []struct{ schema, good, bad string }{
		{
			`{"type":"object",` + tree + `{"$ref":"#"}}}}`, `{"name":"x","children":[{"children":[{"name":"y"}]}]}`,
			`{"children":[{"children":[{"name":1}]}]}`,
		},
		{
			`{"type":"object","$ref":"#/$defs/t","$defs":{"t":{` + tree + `{"$ref":"#/$defs/t"}}}}}}`,
			`{"children":[{"name":"y"}]}`, `{"children":[{"name":1}]}`,
		},
		{
			`{"type":"object","$anchor":"t",` + tree + `{"$ref":"#t"}}}}`, `{"children":[{"name":"y"}]}`,
			`{"children":[{"name":1}]}`,
		},
		{
			`{"type":"object","$dynamicAnchor":"t",` + tree + `{"$dynamicRef":"#t"}}}}`, `{"children":[{"name":"y"}]}`,
			`{"children":[{"name":1}]}`,
		},
		{
			`{"$id":"https://example.org/t","type":"object",` + tree + `{"$ref":"t"}}}}`, `{"children":[{"name":"y"}]}`,
			`{"children":[{"name":1}]}`,
		},
		{`{` + draft7 + `"type":"object","definitions":{"a/b~c":{"$id":"#t",` + tree +
			`{"$ref":"#t"}}}}},"properties":{"x":{"$ref":"#/definitions/a~1b~0c"}}}`,
			`{"x":{"children":[{"name":"y"}]}}`, `{"x":{"children":[{"name":1}]}}`},
		{`{"$id":"https://example.org/a","type":"object","allOf":[{"$ref":"b"}],"$defs":{"b":{"$id":"b","properties":{"x":{"type":"string"},"y":{"$ref":"a"}}}}}`,
			`{"y":{"x":"z"}}`, `{"y":{"y":{"x":1}}}`},
		{`{"type":"object","anyOf":[` + many + `{"required":["x"]}]}`, `{"x":1}`, `{}`},
		{`{"type":"object","properties":{"x":{"type":"array","items":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"string","pattern":"^[a-z]{0,100}$"}}}}}}`,
			`{"x":[{"a":1}` + strings.Repeat(`,{"a":1.5,"b":"some"}`, 20_000) + `]}`,
			`{"x":[{"a":1}` + strings.Repeat(`,{"a":1.5,"b":"some"}`, 20_000) + `,{"a":""}]}`},
		{
			`{"type":"object","properties":{"x":{"type":"string"}}}`, `{"x":"` + strings.Repeat("x", 2<<20) + `"}`,
			`{"x":["` + strings.Repeat("x", 2<<20) + `"]}`,
		},
		{`{"type":"object","properties":{"x":{"items":{"type":"array","items":{"type":"number"}}}}}`,
			`{"x":[` + strings.Repeat(`[1,2,3,4],`, 50_000) + `[]]}`,
			`{"x":[` + strings.Repeat(`[1,2,3,4],`, 50_000) + `[""]]}`},
		{
			`{"type":"object","properties":{"x":{"uniqueItems":true}}}`, `{"x":[{"a":1},{"a":2},1,"1"]}`,
			`{"x":[{"a":1},{"a":2},{"a":1}]}`,
		},
	} {
		check, err := tool.Checker(json.RawMessage(tt.schema))
		if err != nil {
			t.Errorf("%.200s: %v", tt.schema, err)
			continue
		}

		if err := check(tt.good); err != nil {
			t.Errorf("tt.schema = %.200s with %.100s: %v", tt.schema, tt.good, err)
		}
		for _, err := range []error{check(tt.bad), tool.SchemaCheck(json.RawMessage(tt.schema))(json.RawMessage(tt.bad))} {
			if err == nil || strings.Contains(err.Error(), "too large") {
				t.Errorf("%.200s with %.100s: %v, want what does not fit", tt.schema, tt.bad, err)
			}
		}
	}
}

// Whatever schemas refer to, a check ends.
func TestRandomSchemas(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is refused, and in which words")
	t.Parallel()

	random := rand.New(rand.NewPCG(1, 2))
	read, tooLarge := 0, 0
	for range 3000 {
		schema := randomSchema(random)
		check, err := tool.Checker(json.RawMessage(schema))
		if err != nil {
			continue
		}

		read++
		for _, text := range []string{`1`, `{"a":{"b":{"a":{"a":1}}},"b":[1,[1]]}`, `[{"a":1},[[1]],2]`, nested(30)} {
			if err := check(text); err != nil && strings.Contains(err.Error(), "too large") {
				tooLarge++
			}
		}
	}

	if read < 300 || read > 2700 || tooLarge == 0 {
		t.Errorf("%d schemas could be used, %d checks were too large; that tests little", read, tooLarge)
	}
}

// randomSchema returns a schema whose parts refer to each other in all ways.
func randomSchema(random *rand.Rand) string {
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	draft := pick("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#")
	places := []string{
		"http://x/", "/", "http://x/#/$defs/a", "b", "http://x/b", "/#/$defs/b", "http://x/#/$defs/c", "/#a", "/b#n", "/#n",
	}

	var part func(depth int, name string) string
	part = func(depth int, name string) string {
		members := []string{name}
		add := func(format string, args ...any) { members = append(members, fmt.Sprintf(format, args...)) }
		if random.IntN(3) == 0 {
			add(`"%s":"%s"`, pick("$ref", "$dynamicRef"), pick(places...))
		}

		if depth > 0 {
			for _, keyword := range []string{"not", "if", "then", "else", "additionalProperties", "unevaluatedProperties",
				"propertyNames", "items", "contains", "unevaluatedItems", "additionalItems"} {
				if random.IntN(12) == 0 {
					add(`"%s":%s`, keyword, part(depth-1, `"title":""`))
				}
			}
			for _, keyword := range []string{"allOf", "anyOf", "oneOf", "prefixItems"} {
				if random.IntN(8) == 0 {
					add(`"%s":[%s,%s]`, keyword, part(depth-1, `"title":""`), part(depth-1, `"title":""`))
				}
			}
			for _, keyword := range []string{"properties", "patternProperties", "dependentSchemas", "dependencies"} {
				if random.IntN(6) == 0 {
					add(`"%s":{"a":%s,"b":%s}`, keyword, part(depth-1, `"title":""`), part(depth-1, `"title":""`))
				}
			}
		}

		return "{" + strings.Join(members, ",") + "}"
	}

	anchor := `"$anchor":"a"`
	if strings.Contains(draft, "draft-07") {
		anchor, places = `"$id":"#a"`, places[:len(places)-2]
	}
	root := part(2, `"$schema":"`+draft+`","$id":"http://x/"`)
	return fmt.Sprintf(`%s,"$defs":{"a":%s,"b":%s,"c":%s}}`, strings.TrimSuffix(root, "}"),
		part(2, anchor), part(2, `"$id":"http://x/b","$dynamicAnchor":"n"`), part(1, `"$dynamicAnchor":"n"`))
}
