package define

import (
	"errors"
	"time"
)

// Duration is a time such as "30s" or "2m".
type Duration time.Duration

// String returns the time as the configuration has it.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText returns the String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a time that is positive.
func (d *Duration) UnmarshalText(text []byte) error {
	read, err := time.ParseDuration(string(text))
	if err != nil || read <= 0 {
		return errors.New("want a time such as 30s or 2m") // without the text, which may be a secret
	}
	*d = Duration(read)
	return nil
}
