package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Canonical returns the arguments of a call in the one form in which they are recorded, shown to whoever
// approves the call, and sent to the tool: a compact JSON object with its keys in their order, its numbers
// digit for digit, and as few escapes as possible. Empty arguments are {}.
//
// Arguments that two readers could take for different things are an error, which is written for the model:
// a key that is there twice, at any depth and however it is escaped, text after the object, invalid UTF-8,
// half a surrogate pair.
func Canonical(arguments json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(arguments)) == 0 {
		return json.RawMessage("{}"), nil
	}

	text := jsontext.Value(bytes.Clone(arguments))
	if err := text.Format(); err != nil {
		return nil, readableSyntax(err)
	}
	if text.Kind() != '{' {
		return nil, errors.New("the arguments are not a JSON object")
	}

	return json.RawMessage(text), nil
}

// readableSyntax turns an error of the JSON library into one for a model.
func readableSyntax(err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok:
		return fmt.Errorf("the arguments are not a JSON object: %w", err)
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("the key %s is there twice", quotedPath(syntax.JSONPointer))
	}
	return fmt.Errorf("the arguments are not a JSON object: %w, at byte %d", syntax.Err, syntax.ByteOffset)
}

const (
	maxShownNumber = 80
	maxShownPath   = 300
)

// quotedPath returns the keys that lead to a value, quoted because a model wrote them: "files.0.path".
func quotedPath(at jsontext.Pointer) string {
	var keys []string
	for key := range at.Tokens() {
		keys = append(keys, key)
	}
	return strconv.Quote(Cut(strings.Join(keys, "."), maxShownPath))
}

// Decode reads the arguments of a call into a Go value. Unlike [json.Unmarshal], it takes a key only as it is
// spelled, and refuses keys that the value does not have: what one reader of the arguments sees under a key,
// every reader sees. Its errors are written for the model.
func Decode(arguments json.RawMessage, into any) error {
	err := jsonv2.Unmarshal(arguments, into, jsonv1.DefaultOptionsV1(),
		jsonv2.MatchCaseInsensitiveNames(false), jsonv2.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(false),
		jsontext.AllowInvalidUTF8(false), jsonv1.ReportErrorsWithLegacySemantics(false))

	wrong, ok := errors.AsType[*jsonv2.SemanticError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return readableSyntax(err)
	case errors.Is(err, jsonv2.ErrUnknownName):
		return fmt.Errorf("%s: there is no such key", quotedPath(wrong.JSONPointer))

	case wrong.JSONPointer == "":
		return errors.New("the arguments are not a JSON object")
	case wrong.JSONKind != 0 && wrong.GoType != nil:
		return fmt.Errorf("%s: want %s, not %s", fieldPath(wrong.JSONPointer), wrong.GoType, shownValue(wrong))
	}
	return fmt.Errorf("%s: %w", fieldPath(wrong.JSONPointer), wrong.Err)
}

// fieldPath returns the path of a field that the Go type has, so that nothing of it needs quotes.
func fieldPath(at jsontext.Pointer) string {
	return strings.Trim(quotedPath(at), `"`)
}

// shownValue returns what a model wrote in place of what was wanted.
func shownValue(wrong *jsonv2.SemanticError) string {
	if len(wrong.JSONValue) > 0 {
		return Cut(string(wrong.JSONValue), maxShownNumber)
	}
	return wrong.JSONKind.String()
}
