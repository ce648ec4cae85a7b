package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/labstack/echo/v4"
	"github.com/segmentio/encoding/json"

	"github.com/actlog/actlog/record"
)

// encode makes the whole body before anything is sent, so that a failure can still
// be answered.
func encode(v any) ([]byte, error) {
	size := 4 << 10
	if p, ok := v.(*planJSON); ok {
		size = p.size()
	}
	body, err := appendJSON(make([]byte, 0, size), v)
	if err != nil {
		return nil, err
	}
	return append(body, '\n'), nil
}

// appendJSON appends v to b as encoding/json has it, HTML not escaped, in half the
// time. Raw JSON it takes as it is: see [compacted].
func appendJSON(b []byte, v any) ([]byte, error) {
	b, err := json.Append(b, v, json.SortMapKeys)
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	return b, nil
}

// pathID gives an id of the path as the client meant it. The router leaves the
// escapes in where the path holds one that it could not do without, such as %2F.
// What no id can hold is not on record.
func pathID(c echo.Context, name string) (string, error) {
	id := c.Param(name)
	if c.Request().URL.RawPath != "" {
		plain, err := url.PathUnescape(id)
		if err != nil {
			return "", record.ErrNotFound
		}
		id = plain
	}
	if !storable(id) {
		return "", record.ErrNotFound
	}
	return id, nil
}

// nativeID is pathID for the native API, where a blank id is a mistake.
func nativeID(c echo.Context, name string) (string, error) {
	id, err := pathID(c, name)
	if err == nil && strings.TrimSpace(id) == "" {
		return "", badField(name, "must not be blank")
	}
	return id, err
}

// storable tells whether Postgres takes a text: it holds neither NUL nor invalid
// UTF-8.
func storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

func sendJSON(c echo.Context, status int, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	return c.Blob(status, echo.MIMEApplicationJSON, body)
}

// sendTagged sends v with an ETag, or 304 where the client has it already. The tag
// is a weak one: it is the same however the answer is compressed.
func sendTagged(c echo.Context, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	tag := fmt.Sprintf(`"%x-%016x"`, len(body), xxhash.Sum64(body))
	header := c.Response().Header()
	header.Set("ETag", "W/"+tag)
	header.Set("Cache-Control", "no-cache")
	for match := range strings.SplitSeq(c.Request().Header.Get("If-None-Match"), ",") {
		if match = strings.TrimPrefix(strings.TrimSpace(match), "W/"); match == tag || match == "*" {
			return c.NoContent(http.StatusNotModified)
		}
	}
	header.Set(echo.HeaderContentLength, strconv.Itoa(len(body))) // saves chunks; gone again where it is compressed
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, body)
}
