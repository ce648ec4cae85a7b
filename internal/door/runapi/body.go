package runapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/record"
)

// maxBodyBytes bounds a body after decompression.
const maxBodyBytes = record.MaxTextBytes

// members are those of a JSON object, by name.
type members map[string]json.RawMessage

// readBody reads the body of a request: a JSON object. Without a body, raw is empty and there are no
// members. The error is a [*httpd.Problem].
func (s *Server) readBody(c echo.Context) (raw []byte, m members, err error) {
	body, err := s.server.Body(c)
	defer body.Return()
	if err != nil {
		return nil, nil, err
	}

	r, size := c.Request(), int64(0)
	raw, err = wire.ReadBody(body, r.ContentLength, r.Header.Get(echo.HeaderContentEncoding), func(n int64) error {
		if size += n; size > maxBodyBytes {
			return fmt.Errorf("%w: the body is over %d bytes", wire.ErrTooLarge, maxBodyBytes)
		}
		return body.Take(n)
	})
	if err != nil {
		return nil, nil, httpd.Unreadable(err)
	}

	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return nil, members{}, nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get(echo.HeaderContentType)); err != nil || kind != wire.TypeJSON {
		return nil, nil, httpd.Unreadable(fmt.Errorf("%w content type: send %s", wire.ErrUnsupported, wire.TypeJSON))
	}
	m, err = membersOf(raw)
	return raw, m, err
}

// membersOf reads a JSON object. The error is a [*httpd.Problem].
func membersOf(raw []byte) (m members, err error) {
	malformed := func(detail string) error {
		return httpd.Refused(http.StatusBadRequest, "the body "+detail)
	}

	if err := field.CheckDepth(raw); err != nil {
		return nil, malformed(err.Error())
	}
	if !utf8.Valid(raw) {
		return nil, malformed("must be UTF-8")
	}
	if raw[0] != '{' || json.Unmarshal(raw, &m) != nil { // its errors may quote a value
		return nil, malformed("must be a JSON object")
	}
	return m, nil
}

// missing is the error of a member that is required.
func missing(name string) error {
	return &record.InvalidError{Code: record.CodeMissingField, Field: name, Reason: "is required"}
}

func invalid(name, reason string) error {
	return &record.InvalidError{Code: record.CodeInvalidValue, Field: name, Reason: reason}
}

// refused turns an error about a member of a body into a problem: it could be read, and cannot be done.
func refused(err error) error {
	if bad := new(record.InvalidError); errors.As(err, &bad) {
		return &httpd.Problem{
			Status: http.StatusUnprocessableEntity, Detail: strings.TrimSpace(bad.Field + " " + bad.Reason), Field: bad.Field,
		}
	}
	return err
}

// object reads the members of an object, which are known by name. It keeps its first mistake in err.
type object struct {
	members members
	prefix  string // of names in errors
	err     error
}

// objectOf returns members, of which only those that are named may be there.
func objectOf(m members, prefix string, known ...string) *object {
	o := &object{members: m, prefix: prefix}
	var unknown []string
	for name := range m {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}

	if len(unknown) > 0 {
		o.err = &record.InvalidError{
			Code: record.CodeUnknownField, Field: prefix + shown(slices.Min(unknown)),
			Reason: "is not known here; there may be " + strings.Join(known, ", "),
		}
	}
	return o
}

// shown returns the beginning of a name, for a message.
func shown(name string) string {
	const most = 80
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "..."
	}
	return name
}

// value decodes a member, unless it is not there or null.
func (o *object) value(name string, to any, must string) (there bool) {
	raw := o.members[name]
	if o.err != nil || len(raw) == 0 || string(raw) == "null" {
		return false
	}
	if json.Unmarshal(raw, to) != nil {
		o.fail(name, "must be "+must)
	}
	return o.err == nil
}

func (o *object) fail(name, reason string) {
	if o.err == nil {
		o.err = invalid(o.prefix+name, reason)
	}
}

// text reads a text of at most so many bytes.
func (o *object) text(name string, most int) string {
	var s string
	if !o.value(name, &s, "a text") {
		return ""
	}

	switch {
	case len(s) > most:
		o.fail(name, fmt.Sprintf("must not be longer than %d bytes", most))
	case !httpd.Storable(s):
		o.fail(name, "must be without NUL")
	}
	return s
}

func (o *object) id(name string) string { return o.text(name, record.MaxIDBytes) }

func (o *object) texts(name string) []string {
	var list []string
	if !o.value(name, &list, "a list of texts") {
		return nil
	}

	if len(list) > record.MaxListItems {
		o.fail(name, fmt.Sprintf("must not have over %d items", record.MaxListItems))
	}
	for _, s := range list {
		if len(s) > record.MaxIDBytes || !httpd.Storable(s) {
			o.fail(name, fmt.Sprintf("must be texts without NUL of at most %d bytes", record.MaxIDBytes))
		}
	}
	return list
}

// given reports whether a member is there.
func (o *object) given(name string) bool {
	return len(o.members[name]) > 0 && string(o.members[name]) != "null"
}

func (o *object) span(name string) define.Span {
	const must = "a time such as 30s or 2m"
	var text string
	if !o.value(name, &text, must) {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		o.fail(name, "must be "+must)
	}
	return define.Span(d)
}

func (o *object) time(name string) (t time.Time) {
	const must = "a time such as 2026-11-20T13:53:00Z (RFC 3339)"
	if o.value(name, &t, must) && t.IsZero() { // that means none
		o.fail(name, "must be "+must)
	}
	return t
}

func (o *object) count(name string) (n int64) {
	if o.value(name, &n, "a whole number") && n < 0 {
		o.fail(name, "must not be negative")
	}
	return n
}

func (o *object) number(name string) (x float64) {
	if o.value(name, &x, "a number") && (x < 0 || math.IsInf(x, 0)) {
		o.fail(name, "must not be negative")
	}
	return x
}

// object reads a member that is an object.
func (o *object) object(name string) members {
	var m members
	o.value(name, &m, "an object")
	return m
}
