package redact

import (
	"context"
	"fmt"
	"log/slog"
)

// Handler returns a handler of log records that passes their texts through redact: messages, and the
// attributes that are texts, errors or others that are not numbers, booleans or times.
func Handler(h slog.Handler, redact func(string) string) slog.Handler {
	return handler{h, redact}
}

type handler struct {
	slog.Handler
	redact func(string) string
}

// Handle implements [slog.Handler].
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, h.redact(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

// WithAttrs implements [slog.Handler].
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return handler{h.Handler.WithAttrs(clean), h.redact}
}

// WithGroup implements [slog.Handler].
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.redact}
}

func (h handler) attr(a slog.Attr) slog.Attr {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.redact(v.String()))

	case slog.KindGroup:
		var clean []any
		for _, of := range v.Group() {
			clean = append(clean, h.attr(of))
		}
		return slog.Group(a.Key, clean...)

	case slog.KindAny:
		return slog.String(a.Key, h.redact(fmt.Sprint(v.Any())))
	}
	return a
}
