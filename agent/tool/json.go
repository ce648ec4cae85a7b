package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// fieldError returns the error of a decoder as one that names the field, if the decoder knows it.
func fieldError(err error, of string) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fmt.Errorf("%s: want %s, not %s", wrong.Field, wrong.Type, wrong.Value)
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("%s: no such field of %s", strings.Trim(field, `"`), of)
	}
	return err
}

func readDuration(field string, text *string) (*time.Duration, error) {
	if text == nil {
		return nil, nil //nolint:nilnil // a field that is not there
	}
	d, err := time.ParseDuration(*text)
	if err != nil || d < 0 {
		return nil, fmt.Errorf("%s: %q is not a time such as 30s or 2m", field, *text)
	}
	return &d, nil
}
