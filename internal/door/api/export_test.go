package api

import (
	"reflect"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/record/wire"
)

// MaxLong is how many exports and large steps one client may read at once.
const MaxLong = maxLong / 2

// Long returns how many are read at once.
func Long(s *Server) int { return s.long.Taken() }

// Structs are the answers that are encoded from structs, by the names of their schemas.
var Structs = map[string]reflect.Type{
	"Figures":   reflect.TypeFor[wire.Figures](),
	"EventPlan": reflect.TypeFor[planEventJSON](),
	"Limits":    reflect.TypeFor[limitsJSON](),
	"TextHit":   reflect.TypeFor[textHitJSON](), "TextHitList": reflect.TypeFor[textHitList](),
}

// EncodeStruct encodes an answer that is a struct.
func EncodeStruct(v any) ([]byte, error) { return encode(v) }

// The answers that are encoded from the table of fields.

// EncodePlan encodes a plan as the hierarchy shows it.
func EncodePlan(p *tree.Plan) []byte {
	o := new(object)
	addPlan(o, p)
	return o.b
}

// EncodeStep encodes a step as its detail shows it.
func EncodeStep(st *tree.Step) []byte {
	o := new(object)
	addStep(o, st)
	return o.b
}

// EncodeStepOnce encodes it with contents once.
func EncodeStepOnce(st *tree.Step, contents []content.Content) []byte {
	o := new(object)
	addStepOnce(o, st, contents)
	return o.b
}

// EncodeStepRows encodes it row by row, with contents once if there are any.
func EncodeStepRows(st *tree.Step, contents []content.Content) (b []byte) {
	w := newStepWriter(contents != nil, func(part []byte) error {
		b = append(b, part...)
		return nil
	})
	for _, c := range contents {
		_ = w.TakeContent(c)
	}

	_ = w.TakeStep(st) // a slice takes everything
	for _, c := range st.Cycles {
		_ = w.TakeCycle(c)
		for _, call := range c.ToolCalls {
			_ = w.TakeToolCall(call)
		}
	}
	_ = w.finish()
	return b
}

// EncodePage encodes a page of a list beside a plan.
func EncodePage(list string, rows []store.Row, next *store.Position) []byte {
	o := new(object)
	addPage(o, list, rows, next, addAttached)
	return o.b
}

// EncodePlans encodes a page of the list of plans.
func EncodePlans(plans []store.PlanSummary) []byte {
	o := new(object)
	addPlans(o, plans, nil, false)
	return o.b
}

// EncodeRows encodes the rows of an event.
func EncodeRows(rootPlanID string, rows []store.Row) ([]byte, error) {
	return encoder{}.Rows(rootPlanID, rows)
}

// FiguresOf returns the figures as answers show them.
func FiguresOf(f *tree.Figures) any { return wire.FiguresOf(f) }
