package httpd

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// MarkHeader is in the answer to a request that may have written: a mark of the record as it is then. A read that has it sees all that.
const MarkHeader = "Actlog-Mark"

const (
	// markCookie keeps the last mark for pages in a browser, for markLasts seconds.
	markCookie = "actlog-mark"
	markLasts  = 60
	// markKey is where a request has a mark that it was given here.
	markKey = "mark"
)

// giveMark puts a mark into an answer, and into a browser.
func giveMark(c echo.Context, mark string) {
	r := c.Request()
	c.Response().Header().Set(MarkHeader, mark)
	if r.Header.Get("Sec-Fetch-Site") != "" { // a browser
		c.SetCookie(&http.Cookie{Name: markCookie, Value: mark, Path: "/", MaxAge: markLasts, HttpOnly: true, Secure: overTLS(r), SameSite: http.SameSiteLaxMode})
	}
}

// MarkOf returns the mark that a read has to see; empty: any.
func MarkOf(c echo.Context) string {
	if mark, ok := c.Get(markKey).(string); ok {
		return mark
	}
	if mark := c.Request().Header.Get(MarkHeader); mark != "" {
		return mark
	}
	if cookie, err := c.Cookie(markCookie); err == nil {
		return cookie.Value
	}
	return ""
}

// SetMark makes a read see a mark.
func SetMark(c echo.Context, mark string) { c.Set(markKey, mark) }
