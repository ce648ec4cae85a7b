package agent

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/record"
)

func checkTexts(most int, texts map[string]string) error {
	for field, text := range texts {
		if len(text) > most || !storable(text) {
			return invalid(field, fmt.Sprintf("must be UTF-8 without NUL of at most %d bytes", most))
		}
	}
	return nil
}

// storable reports whether Postgres can keep a text.
func storable(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

func invalid(field, reason string) error {
	return &record.InvalidError{Code: record.CodeInvalidValue, Field: field, Reason: reason}
}
