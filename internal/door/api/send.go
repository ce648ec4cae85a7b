package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/labstack/echo/v4"
)

func sendJSON(c echo.Context, status int, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	return c.Blob(status, echo.MIMEApplicationJSON, append(body, '\n'))
}

// sendTagged sends JSON with an ETag, or 304 if the client has it already. A large answer is
// encoded part by part, so that its JSON is never held as a whole; the tag is set behind it,
// before anything is sent.
func sendTagged(c echo.Context, encode func(*object)) error {
	known := c.Request().Header.Get("If-None-Match")
	t := tagger{hash: xxhash.New()}
	if known == "" {
		t.to = c.Response()
	}

	o := newObject(t.write)
	defer o.free()
	encode(o)
	if t.size == 0 {
		return sendWhole(c, o)
	}

	o.b = append(o.b, '\n')
	header := c.Response().Header()
	header.Set("Cache-Control", "no-cache")
	if t.to == nil { // nothing is sent yet
		tag := t.tag(o.b)
		header.Set("ETag", "W/"+tag)
		if has(known, tag) {
			return c.NoContent(http.StatusNotModified)
		}
		t = tagger{hash: xxhash.New(), to: c.Response()}
		o.reset()
		encode(o)
		o.b = append(o.b, '\n')
	}

	o.flush()
	header.Set("ETag", "W/"+t.tag(nil))
	return o.err
}

// sendWhole is sendTagged for JSON that is encoded. The tag is a weak one: it is the same however
// the answer is compressed.
func sendWhole(c echo.Context, o *object) error {
	o.b = append(o.b, '\n')
	t := tagger{hash: xxhash.New()}
	tag, header := t.tag(o.b), c.Response().Header()
	header.Set("ETag", "W/"+tag)
	header.Set("Cache-Control", "no-cache")

	if has(c.Request().Header.Get("If-None-Match"), tag) {
		return c.NoContent(http.StatusNotModified)
	}

	header.Set(echo.HeaderContentLength, strconv.Itoa(len(o.b))) // says whether to compress
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, o.b)
}

// has reports whether the tags that a client knows have one.
func has(known, tag string) bool {
	for match := range strings.SplitSeq(known, ",") {
		if match = strings.TrimPrefix(strings.TrimSpace(match), "W/"); match == tag || match == "*" {
			return true
		}
	}
	return false
}

// tagger makes the tag of JSON that is sent in parts.
type tagger struct {
	hash *xxhash.Digest
	size int
	to   *echo.Response // nil: nothing is sent
}

func (t *tagger) write(part []byte) error {
	t.size += len(part)
	_, _ = t.hash.Write(part) // never fails
	if t.to == nil {
		return nil
	}
	t.to.Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	_, err := t.to.Write(part)
	return err
}

// tag returns the tag of all parts and a last one.
func (t *tagger) tag(last []byte) string {
	_, _ = t.hash.Write(last)
	return fmt.Sprintf(`"%x-%016x"`, t.size+len(last), t.hash.Sum64())
}
