package upsert_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/upsert"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestEveryShape: Postgres takes the statement of each field alone, and of any
// others together; what rows it makes is for the tests of the store.
func TestEveryShape(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, table := range upsert.Tables {
		k := table.Kind
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			shapes := []upsert.Shape{{}, {Revs: true}, {Cut: true}, upsert.Whole(k)}
			for i := range record.Fields(k) {
				shapes = append(shapes, upsert.Shape{Fields: 1 << i, Revs: i%2 == 0, Reopens: i%3 == 0})
			}
			r := rand.New(rand.NewPCG(1, uint64(len(shapes))))
			for range 40 {
				shapes = append(shapes, upsert.Shape{Fields: r.Uint64() & upsert.Whole(k).Fields, Revs: r.IntN(2) == 0, Cut: r.IntN(2) == 0, Reopens: r.IntN(2) == 0})
			}
			if table.Parted && k != record.KindPlan {
				for _, shape := range shapes {
					shape.Placed = true
					shapes = append(shapes, shape)
				}
			}
			conn, err := db.Pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			for _, shape := range shapes {
				sql, err := upsert.Statement(k, shape)
				if err != nil {
					t.Fatal(err)
				}
				prepared, err := conn.Conn().PgConn().Prepare(t.Context(), "", sql, nil)
				if err != nil {
					t.Fatalf("%+v: %v\n%s", shape, err, sql)
				}
				want := len(shape.Args(k))
				for _, more := range []bool{shape.Cut, shape.Revs, shape.Placed, k == record.KindPlan} {
					if more {
						want++
					}
				}
				if got := len(prepared.ParamOIDs); got != want {
					t.Errorf("%+v takes %d parameters, not %d", shape, got, want)
				}
				if keysOnly := len(shape.Args(k)) == len(upsert.Shape{}.Args(k)) && !shape.Cut; keysOnly && (k != record.KindPlan && k != record.KindAgentExecution) != strings.HasSuffix(sql, "DO NOTHING") {
					t.Errorf("%+v:\n%s", shape, sql)
				}
			}
		})
	}
}

// TestArgs: what belongs to a field comes with it.
func TestArgs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind    record.Kind
		told    string
		reopens bool
		want    string
	}{
		{record.KindThinkAct, "", false, "rootPlanId stepId seq"},
		{record.KindThinkAct, "thinkInput", false, "rootPlanId stepId seq thinkInput thinkInputChars"},
		{record.KindThinkAct, "modelName", false, "rootPlanId stepId seq modelName inputPrice outputPrice cacheReadPrice cacheWritePrice"},
		{record.KindActTool, "attempt", false, "rootPlanId stepId seq toolCallId attempt"},
		{record.KindActTool, "attempt", true, "rootPlanId stepId seq toolCallId state attempt errorMessage errorKind endTime"},
		{record.KindPlan, "title", false, "rootPlanId currentPlanId title"},
	} {
		shape := upsert.Shape{Reopens: tt.reopens}
		fields := record.Fields(tt.kind)
		for i, f := range fields {
			if f.Name == tt.told {
				shape.Fields |= 1 << i
			}
		}
		var got []string
		for _, i := range shape.Args(tt.kind) {
			got = append(got, fields[i].Name)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s of %s: %s", tt.told, tt.kind, got)
		}
	}
}
