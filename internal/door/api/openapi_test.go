package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/door/api"
	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/trace/receive"
	"github.com/actlog/actlog/record"
)

// parameter is one of the path of a route.
var parameter = regexp.MustCompile(`:(\w+)`)

func TestContractHasEveryRoute(t *testing.T) {
	t.Parallel()
	var got, want []string
	for _, r := range serve(t).Server.Routes {
		path := parameter.ReplaceAllString(r.Path, "{$1}")
		// without an id: the same handler as with a blank one
		if !strings.HasSuffix(path, "/") && r.Method != http.MethodHead {
			got = append(got, r.Method+" "+path)
		}
	}

	paths, _ := contract().Find("paths")
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

// nullable reports whether a schema allows null.
func nullable(schema obj) bool {
	if list, ok := schema["enum"].([]any); ok {
		return slices.Contains(list, nil)
	}
	if list, ok := schema["oneOf"].([]any); ok {
		return slices.ContainsFunc(list, func(s any) bool { return nullable(s.(obj)) })
	}
	return schema["type"] == "null" || slices.Contains(texts(schema["type"]), "null")
}

// TestContractHasEveryMemberOfAnswers compares the members of answers, which of them are
// always there, and which may be null.
func TestContractHasEveryMemberOfAnswers(t *testing.T) {
	t.Parallel()
	structs := maps.Clone(api.Structs)
	structs["Answer"], structs["Rejection"] = reflect.TypeFor[wire.Answer](), reflect.TypeFor[wire.Rejection]()
	structs["Problem"] = reflect.TypeFor[httpd.Problem]()
	structs["Unknown"], structs["UnknownItem"] = reflect.TypeFor[receive.Unknown](), reflect.TypeFor[receive.UnknownItem]()

	for name, typ := range structs {
		members, optional := map[string]bool{}, []string{}
		for i := range typ.NumField() {
			f := typ.Field(i)
			member, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if member == "-" {
				continue
			}
			members[member] = f.Type.Kind() == reflect.Pointer
			if options != "" {
				optional = append(optional, member)
			}
		}

		checkMembers(t, name, members, optional...)
	}

	once := map[string]string{"Step": "contents", "Cycle": "thinkInputParts"} // there only if asked for
	for name, o := range leastAnswers(t) {
		members := map[string]bool{}
		for member, value := range o {
			members[member] = value == nil
		}
		if name == "Artifact" { // any JSON
			members["value"] = false
		}
		checkMembers(t, name, members, once[name])
	}
}

// checkMembers compares the members of an answer, and whether they may be null, with the
// contract.
func checkMembers(t *testing.T, name string, members map[string]bool, optional ...string) {
	t.Helper()
	schema, _ := contract().Find("components", "schemas", name)
	if schema == nil {
		t.Errorf("the contract has no schema %s", name)
		return
	}

	properties := schema["properties"].(obj)
	required := []string{}
	for member, canBeNull := range members {
		property, _ := properties[member].(obj)
		if canBeNull != nullable(property) {
			t.Errorf("%s.%s: null is possible: %v, by the contract: %v", name, member, canBeNull, nullable(property))
		}
		if !slices.Contains(optional, member) {
			required = append(required, member)
		}
	}

	slices.Sort(required)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(properties)), slices.Sorted(maps.Keys(members))); diff != "" {
		t.Errorf("members of %s (-contract +server):\n%s", name, diff)
	}
	if diff := cmp.Diff(texts(schema["required"]), required); diff != "" {
		t.Errorf("required members of %s (-contract +server):\n%s", name, diff)
	}
	if schema["additionalProperties"] != false {
		t.Errorf("%s allows any member", name)
	}
}

// leastAnswers returns answers of which nothing is set that need not be, by the names of their
// schemas.
func leastAnswers(t testing.TB) map[string]obj {
	t.Helper()
	tool := &tree.ToolCall{Record: record.ActTool{State: new(record.Pending)}}
	cycle := &tree.Cycle{Record: record.ThinkAct{State: new(record.Pending)}}
	step := &tree.Step{Record: record.AgentExecution{State: new(record.Idle)}, Cycles: []*tree.Cycle{cycle}}
	plan := &tree.Plan{Record: record.Plan{State: new(record.Pending)}}
	started := &tree.Plan{Record: plan.Record, ToolCall: tool, Wait: new(record.Wait)}
	object := func(v any) obj { return v.(obj) }

	out := map[string]obj{
		"Plan": object(decoded(t, api.EncodePlan(plan))), "Step": object(decoded(t, api.EncodeStepOnce(step, nil))),
	}

	cut := &tree.Plan{Record: plan.Record, Omitted: new(tree.Omitted)}
	out["Omitted"] = object(lookup(t, decoded(t, api.EncodePlan(cut)), "omitted"))
	out["Cycle"] = object(lookup(t, out["Step"], "thinkActSteps.0"))
	out["ToolCall"] = object(lookup(t, decoded(t, api.EncodePlan(started)), "parentActToolCall"))
	out["Wait"] = object(lookup(t, decoded(t, api.EncodePlan(started)), "userInputWaitState"))
	out["PlanList"] = object(decoded(t, api.EncodePlans([]store.PlanSummary{{Record: plan.Record}})))
	out["PlanItem"] = object(lookup(t, out["PlanList"], "items.0"))

	for name, kind := range map[string]record.Kind{
		"Thought": record.KindThought, "Artifact": record.KindArtifact, "Source": record.KindSource,
		"WaitItem": record.KindWait,
	} {
		c := record.New(kind)
		if w, ok := c.(*record.Wait); ok {
			w.State = new(record.Waiting)
		}
		list := strings.TrimSuffix(name, "Item") + "List"
		out[list] = object(decoded(t, api.EncodePage(list, []store.Row{{Record: c}}, nil)))
		out[name] = object(lookup(t, out[list], "items.0"))
	}
	return out
}

// TestContractHasEveryMemberOfRows: an event has what records of the kind may have, and what
// is derived.
func TestContractHasEveryMemberOfRows(t *testing.T) {
	t.Parallel()
	schema, _ := contract().Find("components", "schemas", "EventRow")
	derived := map[record.Kind][]string{
		record.KindAgentExecution: {
			"completedThinkActStepsCount", "latestMethodName", "latestMethodArgs", "latestRoundNumber", "figures", "attempts",
		},
		record.KindPlan:     {"attempts"},
		record.KindThinkAct: {"attempts"},
		record.KindActTool:  {"inferred", "attempts"},
	}
	for _, kind := range record.Kinds {
		row := store.Row{Record: record.New(kind)}
		if kind == record.KindAgentExecution {
			row.RollUps = new(tree.Step)
		}
		raw, err := api.EncodeRows("p", []store.Row{row})
		if err != nil {
			t.Fatal(err)
		}

		got := lookup(t, decoded(t, raw), "rows.0").(obj)
		_, sent := recordSchema(t, kind)
		want := append([]string{"id", "truncated"}, derived[kind]...)
		for name := range sent["properties"].(obj) {
			f := field.ByName(kind, name)
			isAlias := f != nil && f.Alias == name
			if name != "rev" && name != "exception" && !isAlias {
				want = append(want, name)
			}
		}

		slices.Sort(want)
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
			t.Errorf("members of rows of %s (-contract +server):\n%s", kind, diff)
		}
		for name, property := range schema["properties"].(obj) {
			if value, has := got[name]; has && name != "figures" && (value == nil) != nullable(property.(obj)) {
				t.Errorf("%s.%s is %v, null is allowed by the contract: %v", kind, name, value, nullable(property.(obj)))
			}
		}
	}
}

// recordSchema returns the schema of a kind.
func recordSchema(t testing.TB, kind record.Kind) (name string, schema obj) {
	t.Helper()
	record, _ := contract().Find("components", "schemas", "Record")
	ref := record["discriminator"].(obj)["mapping"].(obj)[string(kind)]
	if ref == nil {
		t.Fatalf("the contract has no record %s", kind)
	}
	name = strings.TrimPrefix(ref.(string), "#/components/schemas/")
	schema, _ = contract().Find("components", "schemas", name)
	return name, schema
}

// least is a change of a kind with its required fields only.
func least(kind record.Kind) record.Change {
	c := record.New(kind)
	for _, f := range field.Fields(kind) {
		if f.Required {
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
			for _, f := range field.Fields(kind) {
				if !f.Sent() {
					continue
				}

				names = append(names, f.Name)
				if f.Alias != "" {
					names = append(names, f.Alias)
				}
				if f.Key || f.Required {
					required = append(required, f.Name)
				}

				property, _ := contract().Find("components", "schemas", kindSchema(t, kind), "properties", f.Name)
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

func checkField(t *testing.T, kind record.Kind, f *field.Field, property obj) {
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

	want := map[field.Type]string{
		field.Text: "string", field.Int: "integer", field.Float: "number", field.Time: "string", field.Texts: "array",
		field.JSON: "object",
	}[f.Type]
	if f.IsList() {
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
	if (property["format"] == "date-time") != (f.Type == field.Time) {
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
		_, _, err := field.Clean(c)
		return errors.As(err, &invalid) && invalid.Code == record.CodeInvalidValue && invalid.Field == f.Name
	}

	switch f.Type {
	case field.Text:
		if limited := refuses(strings.Repeat("x", record.MaxAddressBytes+1)); limited != (property["maxLength"] != nil) {
			t.Errorf("%s: longer is refused: %v, by the contract: %v", f.Name, limited, property["maxLength"])
		}
	case field.Int:
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
	case field.Float:
		if f.Name == "costUsd" && (refuses(0.0) || !refuses(-0.1) || refuses(1e12) || !refuses(1.1e12)) {
			t.Errorf("%s is not within its limits", f.Name)
		}
		if f.Name != "costUsd" && (property["maximum"] != json.Number("1") || refuses(0.0) || !refuses(-0.1) ||
			refuses(1.0) || !refuses(1.1)) {
			t.Errorf("%s is not from 0 to 1", f.Name)
		}
	}
}

// TestContractExamples checks every example against its schema.
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
				if err := contract().Validate(example.(obj)["value"], append(slices.Clone(at), "schema")...); err != nil {
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

	visit(contract().Doc, nil)
	if examples == 0 {
		t.Error("no example was found")
	}
}

// TestContractExampleIsAccepted writes the example of a request.
func TestContractExampleIsAccepted(t *testing.T) {
	t.Parallel()
	c := serve(t)
	example, _ := contract().Find("paths", "/api/v1/records", "post", "requestBody", "content", "application/json",
		"examples", "run", "value")
	c.Write(example["records"].([]any)...)
	expect(t, c.Details("plan-7"), obj{
		"title": "Quarterly report", "state": "COMPLETED", "summary": "Done",
		"agentExecutionSequence.0.subPlanExecutionRecords.0.currentPlanId": "plan-7-sales",
	})
}

func TestContractIsServed(t *testing.T) {
	t.Parallel()
	a := serve(t).Get("/openapi.yaml")
	wantStatus(t, a, http.StatusOK)
	if !bytes.Equal(a.Body, contract().Raw) {
		t.Error("another document is served")
	}
}
