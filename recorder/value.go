package recorder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// optional returns nil for a zero value: what a caller leaves out is not reported.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return new(v) // &v would allocate for zero values, too
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t)
}

// copied protects a change, which may wait in a [Buffer], from what the caller does later to its
// own value.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// textOf returns a string as it is, nil for nil, and any other value as compact JSON.
func textOf(field string, v any) (*string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return &v, nil
	case []byte:
		return new(string(v)), nil
	case json.RawMessage:
		return new(string(v)), nil
	case error:
		return new(errorText(v)), nil
	}

	raw, err := jsonOf(field, v)
	if err != nil {
		return nil, err
	}
	return new(string(raw)), nil
}

func jsonOf(field string, v any) (raw json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil { // a method of v, see errorText
			raw, err = nil, fmt.Errorf("encode %s: panic: %v", field, p)
		}
	}()

	switch v := v.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		return bytes.Clone(v), nil
	}

	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %s: %w", field, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func metadataOf(m map[string]any) (json.RawMessage, error) {
	if m == nil {
		return nil, nil
	}
	return jsonOf("metadata", m)
}

// withEncodeError joins the error of a value that has no JSON to the error of reporting the rest.
func withEncodeError(what action, encodeErr, err error) error {
	if encodeErr == nil {
		return err
	}
	return errors.Join(fmt.Errorf("%s: %w", what, encodeErr), err)
}

// notBefore keeps an end from preceding its start if the clock was set back.
func notBefore(t, start time.Time) time.Time {
	if t.Before(start) {
		return start
	}
	return t
}
