package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/actlog/actlog/internal/api"
	"github.com/actlog/actlog/internal/wire"
	"github.com/actlog/actlog/record"
)

// openAPI is the contract, with its schemas ready for use.
type openAPI struct {
	doc      obj
	compiler *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema
}

var contract = sync.OnceValue(func() *openAPI {
	var fromYAML any
	if err := yaml.Unmarshal(api.OpenAPI, &fromYAML); err != nil {
		panic(err)
	}
	raw, err := json.Marshal(fromYAML)
	if err != nil {
		panic(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("http://actlog/openapi.json", doc); err != nil {
		panic(err)
	}
	return &openAPI{doc: doc.(obj), compiler: c, schemas: map[string]*jsonschema.Schema{}}
})

// find walks to a part of the document, through references.
func (o *openAPI) find(pointer ...string) (part obj, at []string) {
	part = o.doc
	for _, name := range pointer {
		next, ok := part[name].(obj)
		if !ok {
			return nil, nil
		}
		part, at = next, append(at, name)
		if ref, ok := part["$ref"].(string); ok {
			part, at = o.find(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return part, slices.Clone(at)
}

func (o *openAPI) validate(value any, pointer ...string) error {
	var location strings.Builder
	location.WriteString("http://actlog/openapi.json#")
	for _, name := range pointer {
		location.WriteString("/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name)))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	schema := o.schemas[location.String()]
	if schema == nil {
		var err error
		if schema, err = o.compiler.Compile(location.String()); err != nil {
			return err
		}
		o.schemas[location.String()] = schema
	}
	return schema.Validate(value)
}

// route gives the path of the document that a request's path belongs to.
func (o *openAPI) route(path string) (string, bool) {
	paths, _ := o.find("paths")
	segments := strings.Split(path, "/")
	for _, route := range slices.Sorted(maps.Keys(paths)) {
		if slices.EqualFunc(strings.Split(route, "/"), segments, func(r, s string) bool {
			return r == s || strings.HasPrefix(r, "{")
		}) {
			return route, true
		}
	}
	return "", false
}

// checkAnswer holds an answer to the contract.
func (o *openAPI) checkAnswer(method, path string, a answer) error {
	head := method == http.MethodHead
	if head { // as GET, without a body
		method = http.MethodGet
	}
	route, ok := o.route(path)
	operation, _ := o.find("paths", route, strings.ToLower(method))
	if !ok || operation == nil {
		if a.status == http.StatusNotFound || a.status == http.StatusMethodNotAllowed || a.status == http.StatusUnauthorized {
			return nil
		}
		return errors.New("the contract has no such operation")
	}
	response, at := o.find("paths", route, strings.ToLower(method), "responses", strconv.Itoa(a.status))
	if response == nil {
		return fmt.Errorf("the contract has no status %d here: %.300s", a.status, a.body)
	}
	headers, _ := response["headers"].(obj)
	for name := range headers {
		if a.header.Get(name) == "" {
			return fmt.Errorf("the answer %d has no %s", a.status, name)
		}
	}
	content, _ := response["content"].(obj)
	if content == nil || head {
		if len(a.body) > 0 {
			return fmt.Errorf("the answer %d has a body: %.300s", a.status, a.body)
		}
		return nil
	}
	mediaType, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	if content[mediaType] == nil {
		return fmt.Errorf("the contract has no content type %q for %d", mediaType, a.status)
	}
	if mediaType == wire.TypeNDJSON {
		lines := bytes.Split(bytes.TrimSpace(a.body), []byte("\n"))
		return o.checkRecords(slices.Concat([]byte(`{"records":[`), bytes.Join(lines, []byte(",")), []byte(`]}`)))
	}
	value := any(string(a.body))
	if strings.HasSuffix(mediaType, "json") {
		var err error
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(a.body)); err != nil {
			return err
		}
	}
	return o.validate(value, append(at, "content", mediaType, "schema")...)
}

// checkRecords holds a body of records to the contract.
func (o *openAPI) checkRecords(body []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return o.validate(value, "components", "schemas", "Records")
}

func TestContractHasEveryRoute(t *testing.T) {
	t.Parallel()
	var got, want []string
	for _, r := range api.Routes(api.New(nil, api.Config{Logger: slog.New(slog.DiscardHandler)})) {
		path := strings.NewReplacer(":planId", "{planId}", ":stepId", "{stepId}").Replace(r.Path)
		if !strings.HasSuffix(path, "/") && r.Method != http.MethodHead { // without an id: the same handler as with a blank one
			got = append(got, r.Method+" "+path)
		}
	}
	paths, _ := contract().find("paths")
	for path, operations := range paths {
		for method := range operations.(obj) {
			if method != "parameters" {
				want = append(want, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes (-contract +server):\n%s", diff)
	}
}

func texts(v any) []string {
	list, _ := v.([]any)
	out := []string{}
	for _, x := range list {
		out = append(out, fmt.Sprint(x))
	}
	slices.Sort(out)
	return out
}

// nullable tells whether a schema allows null.
func nullable(schema obj) bool {
	if list, ok := schema["enum"].([]any); ok {
		return slices.Contains(list, nil)
	}
	if list, ok := schema["oneOf"].([]any); ok {
		return slices.ContainsFunc(list, func(s any) bool { return nullable(s.(obj)) })
	}
	return schema["type"] == "null" || slices.Contains(texts(schema["type"]), "null")
}

func TestContractHasEveryMemberOfAnswers(t *testing.T) {
	t.Parallel()
	answers := maps.Clone(api.Answers)
	answers["Answer"], answers["Rejection"] = reflect.TypeFor[wire.Answer](), reflect.TypeFor[wire.Rejection]()
	for name, typ := range answers {
		schema, _ := contract().find("components", "schemas", name)
		if schema == nil {
			t.Errorf("the contract has no schema %s", name)
			continue
		}
		members, required := []string{}, []string{}
		properties := schema["properties"].(obj)
		for i := range typ.NumField() {
			f := typ.Field(i)
			member, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if member == "-" {
				continue
			}
			members = append(members, member)
			if options == "" {
				required = append(required, member)
			}
			property, _ := properties[member].(obj)
			canBeNull := f.Type.Kind() == reflect.Pointer || f.Type == reflect.TypeFor[json.RawMessage]() && member == "metadata"
			if canBeNull != nullable(property) {
				t.Errorf("%s.%s: null is possible: %v, by the contract: %v", name, member, canBeNull, nullable(property))
			}
		}
		slices.Sort(members)
		slices.Sort(required)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(properties)), members); diff != "" {
			t.Errorf("members of %s (-contract +server):\n%s", name, diff)
		}
		if diff := cmp.Diff(texts(schema["required"]), required); diff != "" {
			t.Errorf("required members of %s (-contract +server):\n%s", name, diff)
		}
		if schema["additionalProperties"] != false {
			t.Errorf("%s allows any member", name)
		}
	}
}

// recordSchema gives the schema of a kind.
func recordSchema(t testing.TB, kind record.Kind) (name string, schema obj) {
	t.Helper()
	record, _ := contract().find("components", "schemas", "Record")
	ref := record["discriminator"].(obj)["mapping"].(obj)[string(kind)]
	if ref == nil {
		t.Fatalf("the contract has no record %s", kind)
	}
	name = strings.TrimPrefix(ref.(string), "#/components/schemas/")
	schema, _ = contract().find("components", "schemas", name)
	return name, schema
}

// least is a change of a kind that holds nothing but what it must.
func least(kind record.Kind) record.Change {
	c := record.New(kind)
	for i := range record.Fields(kind) {
		if f := &record.Fields(kind)[i]; f.Required {
			f.In(c).SetString("x")
		}
	}
	return c
}

var enums = map[record.Kind][]string{
	record.KindThought: {"analysis", "decision", "action", "observation", "conclusion", "error"},
	record.KindSource:  {"FILE", "URL", "CLASS", "COMMIT", "DOCUMENTATION", "SNIPPET", "EMBEDDING"},
	record.KindWait:    {"USER_INPUT", "PLAN_VALIDATION", "ACTION_VALIDATION"},
}

// TestContractHasEveryFieldOfRecords compares names, needs, types, limits and
// closed sets with what package record enforces.
func TestContractHasEveryFieldOfRecords(t *testing.T) {
	t.Parallel()
	for _, kind := range record.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			_, schema := recordSchema(t, kind)
			properties := schema["properties"].(obj)
			names, required := []string{"kind"}, []string{"kind"}
			for i := range record.Fields(kind) {
				f := &record.Fields(kind)[i]
				if !f.Told() {
					continue
				}
				names = append(names, f.Name)
				if f.Key || f.Required {
					required = append(required, f.Name)
				}
				property, _ := contract().find("components", "schemas", kindSchema(t, kind), "properties", f.Name)
				if property == nil {
					t.Errorf("the contract lacks %s", f.Name)
					continue
				}
				checkField(t, kind, f, property)
			}
			slices.Sort(names)
			slices.Sort(required)
			if diff := cmp.Diff(slices.Sorted(maps.Keys(properties)), names); diff != "" {
				t.Errorf("fields (-contract +server):\n%s", diff)
			}
			if diff := cmp.Diff(texts(schema["required"]), required); diff != "" {
				t.Errorf("required (-contract +server):\n%s", diff)
			}
			if schema["additionalProperties"] != false {
				t.Error("unknown fields are allowed")
			}
		})
	}
}

func kindSchema(t testing.TB, kind record.Kind) string {
	t.Helper()
	name, _ := recordSchema(t, kind)
	return name
}

func checkField(t *testing.T, kind record.Kind, f *record.Field, property obj) {
	t.Helper()
	if property["enum"] != nil {
		want := enums[kind]
		if f.Name == "state" {
			want = nil
			for _, s := range record.States(kind) {
				want = append(want, string(s))
			}
		}
		want = append(slices.Clone(want), fmt.Sprint(nil))
		slices.Sort(want)
		if diff := cmp.Diff(texts(property["enum"]), want); diff != "" {
			t.Errorf("%s (-contract +server):\n%s", f.Name, diff)
		}
		return
	}
	if f.AnyJSON || kind == record.KindArtifact && f.Name == "value" {
		if property["type"] != nil {
			t.Errorf("%s takes any JSON, by the contract %v", f.Name, property["type"])
		}
		return
	}
	want := map[record.Type]string{record.Text: "string", record.Int: "integer", record.Float: "number", record.Time: "string", record.Texts: "array", record.JSON: "object"}[f.Type]
	if f.Name == "formInputs" {
		want = "array"
	}
	types := texts(property["type"])
	if s, ok := property["type"].(string); ok {
		types = []string{s}
	}
	if !slices.Contains(types, want) {
		t.Errorf("%s is %s, by the contract %v", f.Name, want, types)
	}
	if nullable(property) == (f.Key || f.Required) {
		t.Errorf("%s: null is allowed by the contract: %v", f.Name, nullable(property))
	}
	if (property["format"] == "date-time") != (f.Type == record.Time) {
		t.Errorf("%s: format %v", f.Name, property["format"])
	}
	refuses := func(value any) bool {
		c := least(kind)
		v := f.In(c)
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
		}
		v.Set(reflect.ValueOf(value).Convert(v.Type()))
		var invalid *record.InvalidError
		_, _, err := record.Clean(c)
		return errors.As(err, &invalid) && invalid.Code == record.CodeInvalidValue && invalid.Field == f.Name
	}
	switch f.Type {
	case record.Text:
		if limited := refuses(strings.Repeat("x", record.MaxIDBytes+1)); limited != (property["maxLength"] == json.Number("255")) {
			t.Errorf("%s: longer is refused: %v, by the contract: %v", f.Name, limited, property["maxLength"])
		}
	case record.Int:
		limit := func(name string) int64 {
			n, err := strconv.ParseInt(fmt.Sprint(property[name]), 10, 64)
			if err != nil {
				t.Errorf("%s has no %s", f.Name, name)
			}
			return n
		}
		low, high := limit("minimum"), limit("maximum")
		if refuses(low) || !refuses(low-1) || refuses(high) || high+1 > high && !refuses(high+1) {
			t.Errorf("%s is not from %d to %d", f.Name, low, high)
		}
	case record.Float:
		if f.Name == "costUsd" && (refuses(0.0) || !refuses(-0.1) || refuses(1e12) || !refuses(1.1e12)) {
			t.Errorf("%s is not within its limits", f.Name)
		}
	}
}

// TestContractExamples holds every example to the schema beside it.
func TestContractExamples(t *testing.T) {
	t.Parallel()
	examples := 0
	var visit func(part any, at []string)
	visit = func(part any, at []string) {
		switch part := part.(type) {
		case obj:
			named, _ := part["examples"].(obj)
			for name, example := range named {
				examples++
				if err := contract().validate(example.(obj)["value"], append(slices.Clone(at), "schema")...); err != nil {
					t.Errorf("example %s of %v: %v", name, at, err)
				}
			}
			for name, sub := range part {
				visit(sub, append(slices.Clone(at), name))
			}
		case []any:
			for i, sub := range part {
				visit(sub, append(slices.Clone(at), strconv.Itoa(i)))
			}
		}
	}
	visit(contract().doc, nil)
	if examples == 0 {
		t.Error("no example was found")
	}
}

// TestContractExampleIsTaken writes the example of a request.
func TestContractExampleIsTaken(t *testing.T) {
	t.Parallel()
	c := serve(t)
	example, _ := contract().find("paths", "/api/v1/records", "post", "requestBody", "content", "application/json", "examples", "run", "value")
	c.write(example["records"].([]any)...)
	expect(t, c.details("plan-7"), obj{
		"title": "Quarterly report", "state": "COMPLETED", "summary": "Done",
		"agentExecutionSequence.0.subPlanExecutionRecords.0.currentPlanId": "plan-8",
	})
}

func TestContractIsServed(t *testing.T) {
	t.Parallel()
	a := serve(t).get("/openapi.yaml")
	wantStatus(t, a, http.StatusOK)
	if !bytes.Equal(a.body, api.OpenAPI) {
		t.Error("another document is served")
	}
}
