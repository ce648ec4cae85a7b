package fieldsql_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestEveryShape checks that Postgres accepts every statement: of each field alone and of random
// sets of fields. The tests of the store check which rows the statements make.
func TestEveryShape(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, k := range record.Kinds {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			conn, err := db.Pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			prepare := func(what any, sql string, params int) {
				t.Helper()
				prepared, err := conn.Conn().PgConn().Prepare(t.Context(), "", sql, nil)
				if err != nil {
					t.Fatalf("%+v: %v\n%s", what, err, sql)
				}
				if got := len(prepared.ParamOIDs); got != params {
					t.Errorf("%+v takes %d parameters, want %d", what, got, params)
				}
			}

			table := fieldsql.TableOf(k)
			for _, shape := range shapesOf(k) {
				alwaysUpdated := k == record.KindPlan || k == record.KindAgentExecution && !shape.Grows // even if only keys are set
				params := len(shape.Named(k))
				for _, has := range []bool{shape.Cut, shape.Revs, shape.Past(k), shape.Placed, k == record.KindPlan} {
					if has {
						params++
					}
				}

				sql := fieldsql.Merge(k, shape)
				prepare(shape, sql, params)
				keysOnly := len(shape.Named(k)) == len(fieldsql.Shape{}.Named(k)) && !shape.Cut
				if keysOnly && alwaysUpdated == strings.Contains(sql, "DO NOTHING") {
					t.Errorf("%+v: wrong action on conflict:\n%s", shape, sql)
				}
			}

			if table.NamesPartition { // a kind that spans make rows of
				params := len(fieldsql.TraceShape(k).Named(k)) + 2
				for _, has := range []bool{fieldsql.TraceShape(k).Past(k), k == record.KindPlan} {
					if has {
						params++
					}
				}
				prepare("replace", fieldsql.Replace(k, false), params)
				if k != record.KindPlan {
					prepare("replace, growing", fieldsql.Replace(k, true), params+1)
				}
			}

			keys := len(fieldsql.Keys(k)) + 1
			prepare("latest tool", fieldsql.LatestTool, 3)
			prepare("remove calls", fieldsql.RemoveCalls, 6)
			prepare("by key", fieldsql.ByKey(k), keys)

			params := 1
			if table.Partitioned {
				params++
			}
			prepare("export", fieldsql.Export(k, true), params)
			prepare("export of contents once", fieldsql.Export(k, false), params)
			prepare("contents", fieldsql.Contents(), 2)

			page := fieldsql.Page{
				Kind: k, Where: "t.root_plan_id = $1::text", Order: []string{fieldsql.Keys(k)[0].SQL}, Limit: "$2::integer",
				Bytes: "1000",
			}
			prepare("page", "SELECT "+fieldsql.Select(fieldsql.Readable(k, "i"))+" FROM ("+page.SQL()+") AS i ORDER BY i.place",
				2)

			var sections []fieldsql.Section
			for _, other := range append([]record.Kind{k}, record.Kinds...) { // the first section sets the types
				sections = append(sections, fieldsql.Section{
					Kind: other, Columns: fieldsql.Readable(other, "x"),
					From: "FROM actlog." + fieldsql.TableOf(other).Name + " AS x WHERE x.root_plan_id = $1::text",
				})
			}
			prepare("union", fieldsql.Union("", sections...).SQL, 1)
		})
	}
}

// shapesOf returns shapes of a kind: the special ones, each field alone, and random sets. The
// random sets are the same in every run.
func shapesOf(k record.Kind) []fieldsql.Shape {
	shapes := []fieldsql.Shape{{}, {Revs: true}, {Cut: true}, fieldsql.WholeShape(k), fieldsql.TraceShape(k)}
	for i := range field.Fields(k) {
		shapes = append(shapes, fieldsql.Shape{Fields: 1 << i, Revs: i%2 == 0, Reopens: i%3 == 0})
	}

	r := rand.New(rand.NewPCG(1, uint64(len(shapes))))
	for range 40 {
		shapes = append(shapes, fieldsql.Shape{
			Fields: r.Uint64() & fieldsql.WholeShape(k).Fields, Revs: r.IntN(2) == 0, Cut: r.IntN(2) == 0,
			Reopens: r.IntN(2) == 0,
		})
	}

	if fieldsql.TableOf(k).NamesPartition && k != record.KindPlan {
		for _, shape := range shapes {
			shape.Placed = true
			shapes = append(shapes, shape)
			shape.Grows = true
			shapes = append(shapes, shape)
		}
	}
	return shapes
}

// TestNamed checks that a statement names the keys, the fields of its shape and the fields that
// follow them. If it may reopen a row, it also names what an attempt resets.
func TestNamed(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		kind    record.Kind
		set     string
		reopens bool
		want    string
	}{
		{record.KindThinkAct, "", false, "rootPlanId stepId seq"},
		{record.KindThinkAct, "thinkInput", false, "rootPlanId stepId seq thinkInput thinkInputChars thinkInputParts"},
		{
			record.KindThinkAct, "modelName", false,
			"rootPlanId stepId seq modelName inputPrice outputPrice cacheReadPrice cacheWritePrice tariff",
		},
		{record.KindActTool, "attempt", false, "rootPlanId stepId seq toolCallId attempt"},
		{
			record.KindActTool, "attempt", true,
			"rootPlanId stepId seq toolCallId state attempt errorMessage errorKind startTime endTime",
		},
		{record.KindPlan, "title", false, "rootPlanId currentPlanId title"},
	} {
		shape := fieldsql.Shape{Reopens: tt.reopens}
		fields := field.Fields(tt.kind)
		for i, f := range fields {
			if f.Name == tt.set {
				shape.Fields |= 1 << i
			}
		}

		var got []string
		for _, f := range shape.Named(tt.kind) {
			got = append(got, f.Name)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s with %q set, reopens %t: %q, want %q", tt.kind, tt.set, tt.reopens, got, tt.want)
		}
	}
}
