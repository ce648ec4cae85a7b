package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/door/api"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
)

// TestStructsAreEncodedAsTheStandardLibraryDoes compares bytes, for any values.
func TestStructsAreEncodedAsTheStandardLibraryDoes(t *testing.T) {
	t.Parallel()
	for name, answer := range api.Structs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				v := reflect.New(answer)
				anything(t, v.Elem(), 0)
				var want bytes.Buffer
				enc := json.NewEncoder(&want)
				enc.SetEscapeHTML(false)
				wantErr := enc.Encode(v.Interface())

				got, err := api.EncodeStruct(v.Interface())
				if (err == nil) != (wantErr == nil) {
					t.Fatalf("api.EncodeStruct(v.Interface()) = %v, want %v", err, wantErr)
				}
				if wantErr == nil && string(got)+"\n" != want.String() {
					t.Fatalf("api.EncodeStruct(v.Interface()):\n%s\nwant\n%s", got, want.String())
				}
			})
		})
	}
}

// TestRecordsAreEncodedAsTheStandardLibraryDoes is for answers that are made from the table of
// fields: each member is compared with the value in the record, as encoding/json writes it.
func TestRecordsAreEncodedAsTheStandardLibraryDoes(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is read, and how much of it")
	t.Parallel()
	t.Run("a plan", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			p := anyPlan(t, 0)
			same(t, "plan", api.EncodePlan(p), wantPlan(p))
		})
	})

	t.Run("a step", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			st := anyStep(t, 0)
			same(t, "step", api.EncodeStep(st), wantStep(st))
			if byRow := api.EncodeStepRows(st, nil); string(byRow) != string(api.EncodeStep(st))+"\n" {
				t.Fatalf("row by row it is %s", byRow)
			}
		})
	})

	for _, kind := range record.Kinds {
		t.Run("rows of "+string(kind), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				rows := []store.Row{anyRow(t, kind), anyRow(t, kind)}
				root := someTexts.Draw(t, "root")
				events, items := []any{}, []any{}
				for _, r := range rows {
					events, items = append(events, wantRow(r)), append(items, wantItem(r))
				}

				got, err := api.EncodeRows(root, rows)
				if err != nil {
					t.Fatal(err)
				}
				same(t, "event", got, obj{"rootPlanId": root, "rows": events})

				if kind == record.KindAgentExecution { // no list beside a plan has steps
					return
				}

				same(t, "page", api.EncodePage("x", rows, nil), obj{"items": items, "nextCursor": nil})
				first := api.EncodePage("x", nil, &store.Position{ID: root})
				same(t, "first page", first, obj{"items": []any{}, "nextCursor": decoded(t, first).(obj)["nextCursor"]})
			})
		})
	}
}

// TestNumbersThatJSONCannotExpress do not break the JSON around them.
func TestNumbersThatJSONCannotExpress(t *testing.T) {
	t.Parallel()
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		st := &tree.Step{
			Record: record.AgentExecution{State: new(record.Idle)}, Cycles: []*tree.Cycle{
				{Record: record.ThinkAct{State: new(record.Pending), CostUSD: &bad}},
			},
		}
		expect(t, decoded(t, api.EncodeStep(st)), obj{"thinkActSteps.0.costUsd": nil})
		st.Figures.CostUSD = &bad
		expect(t, decoded(t, api.EncodeStep(st)), obj{"figures.costUsd": nil})
	}
}

// TestDeepAnswers: plans may be nested deep.
func TestDeepAnswers(t *testing.T) {
	t.Parallel()
	const depth = 3_000
	p := &tree.Plan{Record: record.Plan{CurrentPlanID: "0", State: new(record.Running)}}
	for i := range depth {
		p = &tree.Plan{
			Record: record.Plan{CurrentPlanID: fmt.Sprint(i + 1), State: new(record.Running)}, SubPlans: []*tree.Plan{p},
		}
	}

	got := decoded(t, api.EncodePlan(p))
	for i := depth; i > 0; i-- {
		if id := lookup(t, got, "currentPlanId"); id != fmt.Sprint(i) {
			t.Fatalf("plan %v, want %d", id, i)
		}
		got = lookup(t, got, "subPlanExecutionRecords.0")
	}
}

func decoded(t rapid.TB, raw []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %.300s", err, raw)
	}
	return v
}

// same compares JSON with a value. The members of an object may come in any order; each must
// be there once. All else must be what encoding/json writes.
func same(t rapid.TB, at string, got []byte, want any) {
	t.Helper()
	switch want := want.(type) {
	case obj:
		members := membersOf(t, at, got)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(members))); diff != "" {
			t.Fatalf("members of %s (-want +got):\n%s", at, diff)
		}
		for name, value := range members {
			same(t, at+"."+name, value, want[name])
		}
	case []any:
		var items []json.RawMessage
		if err := json.Unmarshal(got, &items); err != nil || len(items) != len(want) {
			t.Fatalf("%s: %v, %d items, want %d", at, err, len(items), len(want))
		}
		for i := range want {
			same(t, fmt.Sprint(at, ".", i), items[i], want[i])
		}
	default:
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if enc.Encode(want) != nil { // a number that JSON cannot express
			b.WriteString("null\n")
		}
		if string(got)+"\n" != b.String() {
			t.Fatalf("%s: %s, want %s", at, got, b.String())
		}
	}
}

func membersOf(t rapid.TB, at string, raw []byte) map[string]json.RawMessage {
	t.Helper()
	all := map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(raw))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		t.Fatalf("%s is no object: %v: %.300s", at, err, raw)
	}

	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatalf("%s: %v: %.300s", at, err, raw)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatalf("at = %s.%v: %v: %.300s", at, name, err, raw)
		}

		if all[name.(string)] != nil {
			t.Fatalf("%s has %v twice", at, name)
		}
		all[name.(string)] = value
	}
	return all
}

// What answers must show of a record. Values are for encoding/json.

// wantFields returns the readable fields of a record, without some.
func wantFields(c record.Change, without ...string) obj {
	out := obj{}
	for _, f := range field.Fields(c.Kind()) {
		if !f.Sent() && f.Name != "inferred" || slices.Contains([]string{"rev", "exception"}, f.Name) ||
			slices.Contains(without, f.Name) {
			continue
		}

		out[f.Name] = orDefault(f.In(c), nil)
		switch raw, isJSON := f.In(c).Interface().(json.RawMessage); {
		case f.Type == field.Texts:
			out[f.Name] = orNone(f.In(c).Interface().([]string))
		case isJSON:
			out[f.Name] = compact(raw)
		}
	}

	for name, value := range map[string]any{"attempt": 1, "inferred": false} {
		if old, has := out[name]; has && old == nil {
			out[name] = value
		}
	}
	switch c := c.(type) {
	case *record.Plan:
		out["project"] = orDefault(reflect.ValueOf(c.Project), "default")
	case *record.ThinkAct:
		if slices.Contains(without, "messages") {
			break
		}
		out["messages"], out["fallbackFrom"] = form(c.Messages), form(c.FallbackFrom)
	case *record.Wait:
		out["type"] = orDefault(reflect.ValueOf(c.Type), "USER_INPUT")
		out["formInputs"] = form(c.FormInputs)
	}
	return out
}

func orDefault(v reflect.Value, d any) any {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return d
	}
	return v.Interface()
}

func orNone(list []string) any {
	if list == nil {
		return []string{}
	}
	return list
}

func compact(raw json.RawMessage) any {
	var b bytes.Buffer
	if raw == nil {
		return nil
	}
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return json.RawMessage(b.Bytes())
}

func form(raw json.RawMessage) any {
	if !bytes.HasPrefix(raw, []byte("[")) {
		return json.RawMessage("[]")
	}
	return compact(raw)
}

// with adds members.
func with(o obj, more ...obj) obj {
	for _, m := range more {
		maps.Copy(o, m)
	}
	return o
}

func wantItem(r store.Row) obj {
	out := with(wantFields(r.Record), obj{"id": r.ID, "truncated": orNone(r.Truncated)})
	if field.HasAttempts(r.Record.Kind()) {
		maps.Copy(out, wantAttempts(r.PastAttempts, r.Record))
	}
	return out
}

func wantRow(r store.Row) obj {
	out := with(wantItem(r), obj{"kind": r.Record.Kind()})
	if r.RollUps != nil {
		maps.Copy(out, wantRollUps(r.RollUps))
	}
	return out
}

func wantRollUps(st *tree.Step) obj {
	return obj{
		"completedThinkActStepsCount": st.CompletedCycles, "latestMethodName": st.LatestToolName,
		"latestMethodArgs":  st.LatestToolArgs,
		"latestRoundNumber": st.LatestRound, "figures": api.FiguresOf(&st.Figures),
	}
}

func wantPlan(p *tree.Plan) obj {
	r := &p.Record
	out := with(wantFields(r), wantAttempts(p.PastAttempts, r), obj{
		"id": p.ID, "currentStepIndex": p.CurrentStepIndex(), "completed": r.State.Terminal(),
		"lastSignOfLife": p.LastSignOfLife, "userInputWaitState": nil, "parentActToolCall": nil,
		"structureResult": nil, "link": nil, "figures": api.FiguresOf(&p.Figures), "total": api.FiguresOf(&p.Total),
		"truncated":              orNone(p.Truncated),
		"agentExecutionSequence": wantAll(p.Steps, wantStepOfTree), "subPlanExecutionRecords": wantAll(p.SubPlans, wantPlan),
		"placeholder": p.Placeholder, "alsoUnder": orNone(p.AlsoUnder), "omitted": nil,
	})

	if o := p.Omitted; o != nil {
		out["omitted"] = obj{"plans": o.Plans, "planIds": orNone(o.PlanIDs)}
	}
	if w := p.Wait; w != nil {
		out["userInputWaitState"] = obj{
			"planId": r.RootPlanID, "title": orDefault(reflect.ValueOf(w.Title), "Awaiting user input."), "waiting": true,
			"waitId":          w.WaitID,
			"formDescription": w.FormDescription, "formInputs": form(w.FormInputs),
			"type": orDefault(reflect.ValueOf(w.Type), "USER_INPUT"),
		}
	}

	if p.ToolCall != nil {
		out["parentActToolCall"] = wantToolCall(p.ToolCall)
	}
	if s := p.StructureResult; s != nil {
		out["structureResult"] = *s
		if json.Valid([]byte(*s)) {
			out["structureResult"] = string(compact(json.RawMessage(*s)).(json.RawMessage))
		}
	}
	if p.Link != "" {
		out["link"] = p.Link
	}
	return out
}

func wantAll[T any](items []T, want func(T) obj) []any {
	out := []any{}
	for _, item := range items {
		out = append(out, want(item))
	}
	return out
}

func wantStepOfTree(st *tree.Step) obj {
	out, r := wantStep(st), &st.Record
	if r.ErrorMessage != nil && strings.HasPrefix(*r.ErrorMessage, "System execution error at step") &&
		r.State.Status() == record.StatusFinished && r.Result != nil && *r.Result != "" {
		recovered := *r
		recovered.ErrorMessage = nil
		out["errorMessage"], out["attempts"] = nil, wantAttempts(st.PastAttempts, &recovered)["attempts"]
	}
	return out
}

func wantStep(st *tree.Step) obj {
	r := &st.Record
	status := r.State.Status()
	return with(wantFields(r, "spanId"), wantRollUps(st), wantAttempts(st.PastAttempts, r), obj{
		"id": st.ID, "maxSteps": orDefault(reflect.ValueOf(r.MaxSteps), 0),
		"currentStep": orDefault(reflect.ValueOf(r.CurrentStep), 0), "status": status,
		"completed": status == "FINISHED", "running": status == "RUNNING", "idle": status == "IDLE",
		"subPlanCount": int64(len(st.SubPlans)) + st.Omitted, "alsoUnder": orNone(st.AlsoUnder),
		"subPlanExecutionRecords": wantAll(st.SubPlans, wantPlan), "truncated": orNone(st.Truncated),
		"thinkActSteps": wantAll(st.Cycles, func(c *tree.Cycle) obj {
			return with(wantCycle(c), obj{"parentExecutionId": st.ID})
		}),
	})
}

func wantCycle(c *tree.Cycle) obj {
	r := &c.Record
	out := with(wantFields(r, "rootPlanId", "stepId", "spanId"), wantAttempts(c.PastAttempts, r), obj{
		"id": c.ID, "status": r.State.Status(), "actionNeeded": len(c.ToolCalls) > 0, "toolName": nil, "toolParameters": nil,
		"actToolInfoList": wantAll(c.ToolCalls, wantToolCall), "truncated": orNone(c.Truncated),
	})
	if len(c.ToolCalls) > 0 {
		out["toolName"], out["toolParameters"] = c.ToolCalls[0].Record.Name, c.ToolCalls[0].Record.Parameters
	}
	return out
}

func wantToolCall(c *tree.ToolCall) obj {
	return with(wantFields(&c.Record, "rootPlanId", "stepId", "seq", "toolCallId", "spanId"),
		wantAttempts(c.PastAttempts, &c.Record), obj{"id": c.Record.ToolCallID, "truncated": orNone(c.Truncated)})
}

// wantAttempts returns the earlier attempts and that of the record, if it is not the first.
func wantAttempts(past []record.Attempt, c record.Change) obj {
	if own := field.AttemptOf(c); own.Number > 1 {
		past = append(slices.Clone(past), own)
	}
	return obj{"attempts": wantAll(past, func(a record.Attempt) obj {
		return obj{
			"attempt": a.Number, "state": a.State, "startTime": a.StartTime, "endTime": a.EndTime,
			"errorMessage": a.ErrorMessage, "errorKind": a.ErrorKind, "truncated": orNone(a.Truncated),
		}
	})}
}

// Random values.

var (
	someTexts = rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"", "plain text", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "<a href=\"x\">&</a>", "\u2028\u2029", "é 漢字 🙂 plain behind",
		"bad \xff\xc3 bytes", "\xed\xa0\x80",
		"System execution error at step 3", `{ "b" : 1.50, "a":[ ] }`, " null ", "12", `"x`,
	}))
	someFloats = rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{
		0, math.Copysign(0, -1), 1e-6, 9.9e-7, 1e20, 1e21, 0.1, 1e-12, math.NaN(),
	}))
	someRaws = rapid.SampledFrom([]string{
		"", `{ "b" : [1 , 2.50, "a  b` + "\u2028" + ` <&>"],` + "\n\t" + `"a": null }`, `{}`, ` [ ] `, `[ ]`,
		`[ {"a" : "<&>"} ]`, `-0.0`, `"\ud800 <"`,
		"\"\u2028\"", `{"z":1,"a":1e400}`,
	})
)

// anything fills a value of an answer or a record, not too deep.
func anything(t *rapid.T, v reflect.Value, depth int) {
	switch to := v.Addr().Interface().(type) {
	case *json.RawMessage:
		if raw := someRaws.Draw(t, "raw"); raw != "" {
			*to = json.RawMessage(raw)
		}
		return
	case *time.Time:
		*to = time.UnixMicro(rapid.Int64Range(-62135596800_000_000, 253402300799_999_999).Draw(t, "time")).UTC()
		return
	case *[][]byte: // what texts are kept in, which no one reads beside the texts
		return
	case *record.State:
		*to = record.State(rapid.SampledFrom([]string{
			"IDLE", "PENDING", "RUNNING", "WAITING", "COMPLETED", "FAILED", "UNKNOWN",
		}).Draw(t, "state"))
		return
	}

	switch v.Kind() {
	case reflect.String:
		v.SetString(someTexts.Draw(t, "text"))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(int(rapid.Int64().Draw(t, "int"))))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Byte().Draw(t, "byte")))
	case reflect.Float64:
		v.SetFloat(someFloats.Draw(t, "float"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Pointer:
		if depth < 4 && rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			anything(t, v.Elem(), depth+1)
		}
	case reflect.Slice:
		if depth < 4 && rapid.Bool().Draw(t, "there") {
			v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 2).Draw(t, "length"), 2))
			for i := range v.Len() {
				anything(t, v.Index(i), depth+1)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			anything(t, v.Field(i), depth)
		}
	default:
		t.Fatalf("a member of type %s", v.Type())
	}
}

// anyRecord fills a record. Reads set the state of those that have one.
func anyRecord(t *rapid.T, c record.Change) {
	v := reflect.ValueOf(c).Elem()
	anything(t, v, 0)
	if s := v.FieldByName("State"); s.IsValid() && s.IsNil() {
		s.Set(reflect.ValueOf(new(record.Running)))
	}
}

func anyList(t *rapid.T) (list []string) {
	anything(t, reflect.ValueOf(&list).Elem(), 0)
	return list
}

func anyFigures(t *rapid.T) (f tree.Figures) {
	anything(t, reflect.ValueOf(&f).Elem(), 0)
	return f
}

func anyText(t *rapid.T) (s *string) {
	anything(t, reflect.ValueOf(&s).Elem(), 0)
	return s
}

func few[T any](t *rapid.T, depth int, one func(*rapid.T, int) T) (list []T) {
	if depth < 3 {
		for range rapid.IntRange(0, 2).Draw(t, "items") {
			list = append(list, one(t, depth+1))
		}
	}
	return list
}

func anyRow(t *rapid.T, kind record.Kind) store.Row {
	r := store.Row{
		ID: rapid.Int64().Draw(t, "id"), Record: record.New(kind), Truncated: anyList(t), PastAttempts: few(t, 0, anyAttempt),
	}
	anyRecord(t, r.Record)
	if kind == record.KindAgentExecution && rapid.Bool().Draw(t, "sums") {
		r.RollUps = anyStep(t, 3)
	}
	return r
}

func anyAttempt(t *rapid.T, _ int) (a record.Attempt) {
	anything(t, reflect.ValueOf(&a).Elem(), 0)
	return a
}

func anyPlan(t *rapid.T, depth int) *tree.Plan {
	p := &tree.Plan{
		ID: rapid.Int64().Draw(t, "id"), Truncated: anyList(t), StructureResult: anyText(t), Figures: anyFigures(t),
		Total: anyFigures(t),
		Link:  rapid.SampledFrom([]tree.Link{"", tree.LinkToolCall, tree.LinkInferred}).Draw(t, "link"),
		Steps: few(t, depth, anyStep), SubPlans: few(t, depth, anyPlan), PastAttempts: few(t, depth, anyAttempt),
	}
	p.Placeholder, p.AlsoUnder = rapid.Bool().Draw(t, "placeholder"), anyList(t)
	if rapid.Bool().Draw(t, "cut") {
		p.Omitted = &tree.Omitted{Plans: rapid.Int64().Draw(t, "omitted"), PlanIDs: anyList(t)}
	}
	anyRecord(t, &p.Record)

	if rapid.Bool().Draw(t, "called") {
		p.ToolCall = anyToolCall(t, depth)
	}
	if rapid.Bool().Draw(t, "waits") {
		p.Wait = new(record.Wait)
		anyRecord(t, p.Wait)
	}
	return p
}

func anyStep(t *rapid.T, depth int) *tree.Step {
	st := &tree.Step{
		ID: rapid.Int64().Draw(t, "id"), Truncated: anyList(t), Figures: anyFigures(t),
		CompletedCycles: rapid.Int64().Draw(t, "cycles"),
		LatestRound:     rapid.Int64().Draw(t, "round"), LatestToolName: anyText(t), LatestToolArgs: anyText(t),
		PastAttempts: few(t, depth, anyAttempt),
		SubPlans:     few(t, depth, anyPlan), AlsoUnder: anyList(t), Omitted: int64(rapid.IntRange(0, 3).Draw(t, "omitted")),
	}
	anyRecord(t, &st.Record)
	if depth == 0 { // trees have none
		st.Cycles = few(t, depth, anyCycle)
	}
	return st
}

func anyCycle(t *rapid.T, depth int) *tree.Cycle {
	c := &tree.Cycle{
		ID: rapid.Int64().Draw(t, "id"), Truncated: anyList(t), PastAttempts: few(t, depth, anyAttempt),
		ToolCalls: few(t, depth, anyToolCall),
	}
	anyRecord(t, &c.Record)
	return c
}

func anyToolCall(t *rapid.T, depth int) *tree.ToolCall {
	c := &tree.ToolCall{ID: rapid.Int64().Draw(t, "id"), Truncated: anyList(t), PastAttempts: few(t, depth, anyAttempt)}
	anyRecord(t, &c.Record)
	return c
}
