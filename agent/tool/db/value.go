package db

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"
)

// Bounds of what a model sends, so that whoever approves a statement sees all of it.
const (
	maxSQL        = 32 << 10
	maxParameters = 100
	maxParameter  = 16 << 10 // bytes of all
)

// parameters returns the values of $1, $2, ... in the text format of Postgres.
func parameters(values []any) ([][]byte, error) {
	if len(values) > maxParameters {
		return nil, fmt.Errorf("parameters: there are more than %d", maxParameters)
	}

	total := 0
	texts := make([][]byte, len(values))
	for i, v := range values {
		text, err := parameter(v)
		if err != nil {
			return nil, fmt.Errorf("parameters[%d]: %w", i, err)
		}
		if total += len(text); total > maxParameter {
			return nil, fmt.Errorf("parameters: they have more than %d bytes", maxParameter)
		}
		texts[i] = text
	}
	return texts, nil
}

// parameter returns a value as text; nil is NULL. Lists and objects are JSON.
func parameter(v any) ([]byte, error) {
	const exact = 1 << 53
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		if strings.ContainsRune(v, 0) {
			return nil, errors.New("Postgres has no texts with the character 0")
		}
		return []byte(v), nil

	case bool:
		return strconv.AppendBool(nil, v), nil
	case float64:
		if v >= exact || v <= -exact {
			return nil, errors.New("a number of this size is not exact; write it in quotes")
		}
		return strconv.AppendFloat(nil, v, 'f', -1, 64), nil
	}
	return json.Marshal(v)
}

const maxCell = 2 << 10 // bytes of a value that a model reads

// cutCell returns a value of Postgres as valid UTF-8 of at most maxCell bytes.
func cutCell(text string) string {
	if len(text) > maxCell {
		end := maxCell
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = fmt.Sprintf("%s... (cut: %d bytes)", text[:end], len(text))
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// cellText returns a value for the table that a model reads: one line, and what would end a cell escaped.
func cellText(value []byte) string {
	if value == nil {
		return "NULL"
	}
	return cells.Replace(cutCell(string(value)))
}

var cells = strings.NewReplacer("\\", `\\`, "\r", `\r`, "\n", `\n`, "\t", `\t`, "|", `\|`)

// cellJSON returns a value as JSON. Numbers that programs would round, and what JSON does not have, are texts.
func cellJSON(oid uint32, value []byte) json.RawMessage {
	if value == nil {
		return json.RawMessage("null")
	}

	switch oid {
	case pgtype.BoolOID:
		return json.RawMessage(strconv.FormatBool(string(value) == "t"))
	case pgtype.Int2OID, pgtype.Int4OID:
		return bytes.Clone(value)

	case pgtype.Float4OID, pgtype.Float8OID:
		if json.Valid(value) { // NaN and Infinity are not
			return bytes.Clone(value)
		}
	case pgtype.JSONOID, pgtype.JSONBOID:
		if len(value) <= maxCell && json.Valid(value) {
			return bytes.Clone(value)
		}
	}

	text, err := json.Marshal(cutCell(string(value)))
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}
