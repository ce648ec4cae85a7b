package recorder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// What a caller leaves at its zero value is not told.

func said[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return new(v) // &v would make a copy of each v, also of those that are not told
}

// copied keeps what the caller does to its own value later from what is told,
// which may wait in a [Buffer].
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

func saidTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t)
}

// textOf gives the text of a value: a string as it is, anything else as compact
// JSON. nil is not told.
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
			raw, err = nil, fmt.Errorf("encoding %s: panic: %v", field, p)
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
		return nil, fmt.Errorf("encoding %s: %w", field, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// withUnencoded adds that some value could not be told to what came of telling
// the rest.
func withUnencoded(what doing, unencoded, err error) error {
	if unencoded == nil {
		return err
	}
	return errors.Join(fmt.Errorf("%s: %w", what, unencoded), err)
}

func metadataOf(m map[string]any) (json.RawMessage, error) {
	if m == nil {
		return nil, nil
	}
	return jsonOf("metadata", m)
}

// notBefore keeps an end from preceding its start where the clock was set back.
func notBefore(t, start time.Time) time.Time {
	if t.Before(start) {
		return start
	}
	return t
}
