package web

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
)

const maxLogin = 8 << 10

// login shows the form for a key. Where no keys are set, there is nothing to log in to.
func (s *Server) login(c echo.Context) error {
	next := ownPath(c.QueryParam("next"))
	if !s.door.NeedsKey() {
		return c.Redirect(http.StatusSeeOther, next)
	}
	return send(c, http.StatusOK, loginPage(next, nil))
}

func (s *Server) logIn(c echo.Context) error {
	r := c.Request()
	r.Body = http.MaxBytesReader(c.Response(), r.Body, maxLogin)
	if err := r.ParseForm(); err != nil {
		return httpd.Refused(http.StatusBadRequest, "the form cannot be read")
	}

	next := ownPath(r.PostFormValue("next"))
	err := s.door.Login(c, r.PostFormValue("key"))
	if p := new(httpd.Problem); errors.As(err, &p) {
		if p.RetryAfter > 0 {
			c.Response().Header().Set(echo.HeaderRetryAfter, strconv.Itoa(p.RetryAfter))
		}
		return send(c, p.Status, loginPage(next, p))
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, next)
}

func (s *Server) logOut(c echo.Context) error {
	if err := s.door.Logout(c); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/login")
}

// ownPath returns a path of this server, and "/" for anything else: nobody is sent elsewhere after the login.
func ownPath(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(path, "/") ||
		strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\t\r\n") {
		return "/"
	}
	return path
}
