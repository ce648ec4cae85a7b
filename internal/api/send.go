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

	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/record"
)

// pathID returns an id of the path as the client meant it. The router does not unescape a path
// with an escape that it needs, such as %2F. An id that Postgres cannot store is not on record.
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
		return "", httpd.BadField(name, "must not be blank")
	}
	return id, err
}

// storable reports whether Postgres accepts a text: without NUL, and valid UTF-8.
func storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

func sendJSON(c echo.Context, status int, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	return c.Blob(status, echo.MIMEApplicationJSON, append(body, '\n'))
}

// sendTagged sends JSON with an ETag, or 304 if the client has it already. The tag is a weak
// one: it is the same however the answer is compressed. The whole body is made before
// anything is sent, so that a failure can still be answered.
func sendTagged(c echo.Context, body []byte) error {
	body = append(body, '\n')
	tag := fmt.Sprintf(`"%x-%016x"`, len(body), xxhash.Sum64(body))
	header := c.Response().Header()
	header.Set("ETag", "W/"+tag)
	header.Set("Cache-Control", "no-cache")
	for match := range strings.SplitSeq(c.Request().Header.Get("If-None-Match"), ",") {
		if match = strings.TrimPrefix(strings.TrimSpace(match), "W/"); match == tag || match == "*" {
			return c.NoContent(http.StatusNotModified)
		}
	}
	header.Set(echo.HeaderContentLength, strconv.Itoa(len(body))) // saves chunks; removed if it is compressed
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, body)
}
