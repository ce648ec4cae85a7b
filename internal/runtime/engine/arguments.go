package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

// canonical returns the arguments of a call as they are recorded, shown and sent: in the form of [tool.Canonical], and
// such that the record keeps them as they are. A record has no NUL, so there is none in what is sent, either. Bad
// arguments stay as they are, for the record alone.
func canonical(arguments string) (string, error) {
	text, err := tool.Canonical(json.RawMessage(arguments))
	if err == nil && bytes.Contains(text, []byte(escapedNUL)) {
		text, err = tool.Canonical(withoutNUL(text))
	}
	if err == nil {
		err = recordable(text)
	}
	if err != nil {
		return arguments, err
	}
	return string(text), nil
}

// recorded returns the arguments of a call as they may be on record. Those of a model are redacted before anything is
// called; the code of a workflow may call a tool with something that only the tool is to see.
func (r *Run) recorded(arguments string) string {
	text, _ := canonical(arguments) // bad ones are on record as they are
	text, _ = canonical(r.redact(text))
	return text
}

// escapedNUL is how canonical JSON writes the character NUL.
const escapedNUL = `\u0000`

// withoutNUL returns canonical JSON with the replacement character in place of each NUL, as records have it.
func withoutNUL(text json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	for len(text) > 0 {
		switch {
		case bytes.HasPrefix(text, []byte(escapedNUL)):
			out.WriteRune(unicode.ReplacementChar)
			text = text[len(escapedNUL):]
		case text[0] == '\\':
			out.Write(text[:2])
			text = text[2:]
		default:
			out.WriteByte(text[0])
			text = text[1:]
		}
	}
	return out.Bytes()
}

// maxArgumentsDepth leaves a level for what is around the arguments in the subject of a wait.
const maxArgumentsDepth = record.MaxJSONDepth - 1

// recordable returns an error if the record would cut, refuse or change arguments.
func recordable(arguments json.RawMessage) error {
	if len(arguments) > record.MaxTextBytes {
		return fmt.Errorf("they have %d bytes, more than %d", len(arguments), record.MaxTextBytes)
	}

	for d := jsontext.NewDecoder(bytes.NewReader(arguments)); ; {
		token, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case d.StackDepth() > maxArgumentsDepth:
			return fmt.Errorf("they nest deeper than %d levels", maxArgumentsDepth)
		case token.Kind() == '"' && strings.ContainsRune(token.String(), 0): // in a subject that no tool gets
			return fmt.Errorf("a text at %q has the character NUL", shortPath(d))
		case token.Kind() == '0' && outOfRange(token.String()):
			return fmt.Errorf("the number at %q is out of range", shortPath(d))
		}
	}
}

// maxShownPath bounds what an error says of where in the arguments something is, in bytes.
const maxShownPath = 300

func shortPath(d *jsontext.Decoder) string { return tool.Cut(string(d.StackPointer()), maxShownPath) }

func outOfRange(number string) bool {
	f, err := strconv.ParseFloat(number, 64)
	return err != nil || math.IsInf(f, 0)
}

// Comparable returns arguments in a form that is the same for the same values: neither the order of their keys matters,
// nor how a number is written. What is no JSON stays as it is.
func Comparable(arguments string) string {
	ordered := jsontext.Value(arguments)
	if ordered.Format(jsontext.ReorderRawObjects(true)) != nil {
		return arguments
	}

	var same bytes.Buffer
	d, e := jsontext.NewDecoder(bytes.NewReader(ordered)), jsontext.NewEncoder(&same)
	for {
		token, err := d.ReadToken()
		if err != nil { // the end: it was valid before
			return same.String()
		}
		if token.Kind() == '0' {
			err = e.WriteValue(jsontext.Value(decimal(token.String())))
		} else {
			err = e.WriteToken(token)
		}
		if err != nil {
			return arguments
		}
	}
}

// decimal returns a number of JSON in the one form that equal numbers share: 15e-1 for 1.5 and 1.50.
func decimal(number string) string {
	mantissa, power, _ := strings.Cut(strings.ToLower(number), "e")
	exponent, err := strconv.Atoi(cmp.Or(power, "0"))
	if err != nil { // larger than any
		return number
	}

	sign := mantissa[:len(mantissa)-len(strings.TrimPrefix(mantissa, "-"))]
	whole, fraction, _ := strings.Cut(mantissa[len(sign):], ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(digits, "0")
	if short == "" {
		return "0"
	}
	return fmt.Sprintf("%s%se%d", sign, short, exponent-len(fraction)+len(digits)-len(short))
}
