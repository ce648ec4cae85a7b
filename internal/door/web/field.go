package web

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/runtime/decision"
)

type fieldView struct {
	id       string // also the name of its value in what is sent
	label    string
	kind     string // text, number, email, password, textarea, select, radio, checkbox; flag is a checkbox without options
	hint     string
	required bool
	options  []string
	given    []string // as it was typed or chosen
	wrong    string
	first    bool // of those that are wrong
}

func fieldOf(i int, field map[string]string) fieldView {
	f := fieldView{
		id: "value-" + strconv.Itoa(i), label: field["label"], kind: strings.ToLower(field["type"]),
		hint:     field["placeholder"],
		required: strings.EqualFold(field["required"], "true"), options: decision.Options(field),
	}
	if value := field["value"]; value != "" {
		f.given = []string{value}
	}

	switch {
	case f.kind == "checkbox" && f.options == nil:
		f.kind = "flag"
	case slices.Contains([]string{"select", "radio", "checkbox"}, f.kind) && f.options != nil:
	case slices.Contains([]string{"number", "email", "password", "textarea"}, f.kind):
	default:
		f.kind = "text"
	}
	return f
}

func (f *fieldView) has(option string) bool { return slices.Contains(f.given, option) }

// value is what was typed.
func (f *fieldView) value() string {
	if f.kind == "password" {
		return "" // it stands in no page
	}
	return strings.Join(f.given, ",")
}

func (f *fieldView) placeholder() string {
	if f.kind == "password" && len(f.given) > 0 {
		return "Type it again: passwords are not kept."
	}
	return f.hint
}

// read reads what was given for a field, and returns it as one text.
func (f *fieldView) read(sent url.Values) string {
	f.given = sent[f.id]
	if f.kind == "flag" && len(f.given) == 0 && !f.required {
		return "false"
	}
	return strings.Join(f.given, ",")
}

// firstWrong marks the first field of those that are wrong, and says how many there are.
func firstWrong(fields []fieldView) (n int64) {
	for i := range fields {
		if fields[i].wrong != "" {
			n++
			fields[i].first = n == 1
		}
	}
	return n
}

// wrongAttributes are those of what is wrong, so that it is heard, too. The first one has the focus.
func wrongAttributes(id, wrong string, first bool) templ.Attributes {
	if wrong == "" {
		return nil
	}
	return templ.Attributes{"aria-invalid": "true", "aria-describedby": id + "-wrong", "autofocus": first}
}

func inputType(kind string) string {
	if kind == "number" {
		return "text" // a browser keeps nothing of what is no number
	}
	return kind
}

func inputMode(kind string) string {
	switch kind {
	case "number":
		return "decimal"
	case "email":
		return "email"
	}
	return "text"
}

const maxForm = 4 << 20

// form reads the form that a page sent. Who sends one is answered with pages, and so needs to be one who may read.
func (s *Server) form(c echo.Context) (url.Values, error) {
	if !httpd.May(c, httpd.ScopeRead) {
		return nil, httpd.Refused(http.StatusForbidden,
			"this API key is not for the web page: its scopes lack "+string(httpd.ScopeRead))
	}

	r := c.Request()
	if kind, _, err := mime.ParseMediaType(r.Header.Get(echo.HeaderContentType)); err != nil ||
		kind != echo.MIMEApplicationForm {
		return nil, httpd.Refused(http.StatusUnsupportedMediaType, "this takes forms of the web page only")
	}

	body, err := s.door.Body(c)
	defer body.Return()
	if err != nil {
		return nil, err
	}

	size := int64(0)
	raw, err := wire.ReadBody(body, r.ContentLength, "", func(n int64) error {
		if size += n; size > maxForm {
			return fmt.Errorf("%w: the form is over %d bytes", wire.ErrTooLarge, maxForm)
		}
		return body.Take(n)
	})
	if err != nil {
		return nil, httpd.Unreadable(err)
	}

	sent, err := url.ParseQuery(string(raw))
	for _, values := range sent {
		for i, value := range values {
			if !httpd.Storable(value) {
				err = errors.New("not to be stored")
			}
			values[i] = strings.ReplaceAll(value, "\r\n", "\n") // as it was typed
		}
	}
	if err != nil {
		return nil, httpd.Refused(http.StatusBadRequest, "the form cannot be read: its texts must be UTF-8 without NUL")
	}
	return sent, nil
}
