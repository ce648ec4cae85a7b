package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Option of a function tool.
type Option func(*options)

type options struct {
	policy  Policy
	touches any // func(context.Context, In) ([]string, error)
	preview any // func(context.Context, Call, In) (Preview, error)
	verify  any // func(context.Context, Call, In) (Result, bool, error)
}

func optionsOf(with []Option) (o options) {
	for _, set := range with {
		set(&o)
	}
	return o
}

// WithPolicy sets the policy of a function tool.
func WithPolicy(p Policy) Option { return func(o *options) { o.policy = p } }

// WithTouches makes the tool a [Toucher]: the function says what a call would change.
func WithTouches[In any](touches func(context.Context, In) ([]string, error)) Option {
	return func(o *options) { o.touches = touches }
}

// WithPreview gives a function tool previews, see [Previewer]: the function says exactly what a call would do. The
// function of the tool itself compares that with what was approved, by [Call.CheckApproved].
func WithPreview[In any](preview func(context.Context, Call, In) (Preview, error)) Option {
	return func(o *options) { o.preview = preview }
}

// WithVerify lets a function tool say what became of a call, see [Verifier]: the function says whether a call took
// effect.
func WithVerify[In any](verify func(context.Context, Call, In) (Result, bool, error)) Option {
	return func(o *options) { o.verify = verify }
}

// Func returns a tool that calls a Go function. The schema follows from the type In, a struct: its
// json tags give names, fields without omitempty or omitzero are required, and the tag
// `jsonschema:"..."` describes a field. Arguments are checked before the call; bad ones are a failed
// result that names the field.
//
// A string is the text of the result as it is, a [Result] is the result, and any other Out is its
// JSON. An error is a failed result with its text, unless the context has ended or the error wraps
// [ErrUnknown].
//
// Func panics if the types have no schema.
func Func[In, Out any](name, description string, fn func(context.Context, In) (Out, error), with ...Option) Tool {
	return CallFunc(name, description, func(ctx context.Context, _ Call, in In) (Out, error) {
		return fn(ctx, in)
	}, with...)
}

// CallFunc is Func for a function that needs the call itself: its id as an idempotency key, or a human
// to ask.
func CallFunc[In, Out any](
	name, description string, fn func(context.Context, Call, In) (Out, error), with ...Option,
) Tool {
	o := optionsOf(with)
	s, err := schemaFor(reflect.TypeFor[In]())
	if err != nil {
		panic(fmt.Sprintf("tool %s: %v", name, err))
	}

	f := function[In, Out]{
		spec: Spec{Name: name, Description: description, Schema: s.text, Policy: o.policy}, schema: s, fn: fn,
		preview: optional[func(context.Context, Call, In) (Preview, error)](name, "WithPreview", o.preview),
		verify:  optional[func(context.Context, Call, In) (Result, bool, error)](name, "WithVerify", o.verify),
	}
	touches := optional[func(context.Context, In) ([]string, error)](name, "WithTouches", o.touches)
	if touches == nil {
		return f
	}
	return touching[In, Out]{f, touches}
}

// optional returns the function of an option, which must be for the arguments of the tool; nil: there is none.
func optional[Fn any](name, option string, fn any) (none Fn) {
	if fn == nil {
		return none
	}
	typed, ok := fn.(Fn)
	if !ok {
		panic(fmt.Sprintf("tool %s: %s is for other arguments: %T", name, option, fn))
	}
	return typed
}

type function[In, Out any] struct {
	spec    Spec
	schema  *schema
	fn      func(context.Context, Call, In) (Out, error)
	preview func(context.Context, Call, In) (Preview, error)      // nil: it has none
	verify  func(context.Context, Call, In) (Result, bool, error) // nil: it cannot tell
}

func (f function[In, Out]) Spec() Spec { return f.spec }

func (f function[In, Out]) Call(ctx context.Context, call Call) (Result, error) {
	in, err := f.in(call)
	if err != nil {
		return BadArguments(err), nil
	}
	out, err := f.fn(ctx, call, in)
	if err != nil {
		return failed(ctx, err)
	}

	switch out := any(out).(type) {
	case Result:
		return out, nil
	case string:
		return Result{Text: out}, nil
	}

	data, err := json.Marshal(out)
	if err != nil {
		return Result{}, fmt.Errorf("tool %s: result: %w", f.spec.Name, err)
	}
	return Result{Text: string(data), Data: data}, nil
}

func (f function[In, Out]) in(call Call) (in In, err error) {
	arguments, err := Canonical(call.Arguments)
	if err != nil {
		return in, err
	}
	return f.decode(arguments)
}

// decode returns arguments in the form of [Canonical] as the function takes them.
func (f function[In, Out]) decode(arguments json.RawMessage) (in In, err error) {
	if err := f.schema.check(arguments); err != nil {
		return in, err
	}
	return in, Decode(arguments, &in)
}

// CheckArguments implements [ArgumentChecker].
func (f function[In, Out]) CheckArguments(arguments json.RawMessage) error {
	_, err := f.decode(arguments)
	return err
}

// Preview implements [Previewer].
func (f function[In, Out]) Preview(ctx context.Context, call Call) (Preview, error) {
	if f.preview == nil {
		return Preview{}, errors.ErrUnsupported
	}
	in, err := f.in(call)
	if err != nil {
		return Preview{}, err
	}
	return f.preview(ctx, call, in)
}

// Verify implements [Verifier].
func (f function[In, Out]) Verify(ctx context.Context, call Call) (Result, bool, error) {
	if f.verify == nil {
		return Result{}, false, nil
	}
	in, err := f.in(call)
	if err != nil {
		return Result{}, false, err
	}
	return f.verify(ctx, call, in)
}

// touching is a function tool with WithTouches.
type touching[In, Out any] struct {
	function[In, Out]
	touches func(context.Context, In) ([]string, error)
}

func (f touching[In, Out]) Touches(ctx context.Context, call Call) ([]string, error) {
	in, err := f.in(call)
	if err != nil {
		return nil, err
	}
	return f.touches(ctx, in)
}

// SchemaFunc returns a tool whose arguments fit a JSON Schema of type object, which need not follow from
// a Go type. Arguments are checked as those of [Func]. The error says what is wrong with the schema.
func SchemaFunc(
	name, description string, schema json.RawMessage, fn func(context.Context, Call) (Result, error), with ...Option,
) (Tool, error) {
	s, err := readSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("tool %s: schema: %w", name, err)
	}
	spec := Spec{Name: name, Description: description, Schema: schema, Policy: optionsOf(with).policy}
	return schemaTool{spec: spec, schema: s, fn: fn}, nil
}

type schemaTool struct {
	spec   Spec
	schema *schema
	fn     func(context.Context, Call) (Result, error)
}

func (t schemaTool) Spec() Spec { return t.spec }

// CheckArguments implements [ArgumentChecker].
func (t schemaTool) CheckArguments(arguments json.RawMessage) error { return t.schema.check(arguments) }

func (t schemaTool) Call(ctx context.Context, call Call) (Result, error) {
	arguments, err := Canonical(call.Arguments)
	if err == nil {
		err = t.schema.check(arguments)
	}
	if err != nil {
		return BadArguments(err), nil
	}

	call.Arguments = arguments
	result, err := t.fn(ctx, call)
	if err != nil {
		return failed(ctx, err)
	}
	return result, nil
}
