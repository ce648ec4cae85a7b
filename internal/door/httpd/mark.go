package httpd

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/record"
)

// MarkHeader is in the answer to a request that may have written: a mark of the record as it is then. A read that has
// it sees all that.
const MarkHeader = "Actlog-Mark"

const (
	// markCookie keeps the last mark for pages in a browser, for markLasts seconds.
	markCookie = "actlog-mark"
	markLasts  = 60
	// markKey is where a request has the mark that it has to see.
	markKey = "mark"
)

// Marks says what reads have to see.
type Marks interface {
	// MarkText returns a mark of what is on record; empty: reads see everything anyway.
	MarkText(ctx context.Context) string
	// Await waits until reads see what is before a mark. The error is a [*record.InvalidError] if it is none.
	Await(ctx context.Context, mark string) error
}

// heedMark makes a request see the mark that came with it. Others may have put a cookie into a browser, so one that
// does not do is ignored.
func heedMark(c echo.Context, marks Marks) error {
	ctx := c.Request().Context()
	if mark := c.Request().Header.Get(MarkHeader); mark != "" {
		SetMark(c, mark)
		err := marks.Await(ctx, mark)
		if invalid := (*record.InvalidError)(nil); errors.As(err, &invalid) {
			return BadField(MarkHeader, "must be a mark from an answer of this server, as it was given")
		}
		return err
	}

	if cookie, err := c.Cookie(markCookie); err == nil && marks.Await(ctx, cookie.Value) == nil {
		SetMark(c, cookie.Value)
	}
	return ctx.Err()
}

// giveMark puts a mark into an answer, and into a browser: a client that sends cookies, or says which page its request
// is from.
func giveMark(c echo.Context, mark string) {
	r := c.Request()
	c.Response().Header().Set(MarkHeader, mark)
	if r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != "" || r.Header.Get("Cookie") != "" {
		c.SetCookie(&http.Cookie{
			Name: markCookie, Value: mark, Path: "/", MaxAge: markLasts, HttpOnly: true, Secure: overTLS(r),
			SameSite: http.SameSiteLaxMode,
		})
	}
}

// MarkOf returns the mark that a read has to see; empty: any.
func MarkOf(c echo.Context) string {
	mark, _ := c.Get(markKey).(string)
	return mark
}

// SetMark makes a read see a mark.
func SetMark(c echo.Context, mark string) { c.Set(markKey, mark) }
