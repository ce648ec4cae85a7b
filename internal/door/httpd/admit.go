package httpd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/record"
)

// admit returns the key that a request brings, and the problem if it does not allow what is needed. A request may also
// have the cookie of a session. That opens what a key opens, but writes only if a page of this server sent them:
// browsers add cookies by themselves.
func (s *Server) admit(r *http.Request, need Scope) (found *key, byCookie bool, refused *Problem, err error) {
	keys := s.keys.Load()
	if keys == nil {
		return anybody, false, nil, nil
	}

	secret := bearer(r.Header)
	found = keys.find(secret)
	if byCookie = secret == ""; byCookie {
		if found, err = s.loggedIn(r.Context(), r, keys); err != nil {
			return nil, true, nil, err
		}
		if safe := r.Method == http.MethodGet || r.Method == http.MethodHead; found != nil && !safe && !fromOwnPage(r) {
			return found, true,
				Refused(http.StatusForbidden, "a session writes only from the web page; programs send an API key"), nil
		}
	}

	return found, byCookie, found.admit(need), nil
}

// anybody is the key of everybody where no keys are set.
var anybody = &key{scopes: scopes}

// MayAct reports whether the sender of a GET means what it does: it brought a key in a header, which no link and no
// page of another site can. Where no keys are needed, no browser sent it, but for a script of a page of this server.
func MayAct(c echo.Context) bool {
	r, noted := c.Request(), requestOf(c)
	switch {
	case noted.key == nil || noted.byCookie || fromForeignSite(r):
		return false
	case noted.key != anybody:
		return true
	}
	return !namesForeignPage(r) && !fromBrowser(r) || fromOwnScript(r)
}

// Login begins a session for a key that may read, and gives its cookie to the browser.
func (s *Server) Login(c echo.Context, secret string) error {
	keys := s.keys.Load()
	if keys == nil {
		return nil // nobody needs a key
	}
	if err := s.EndSessions(c.Request().Context()); err != nil {
		return err
	}

	var found *key
	if secret = strings.TrimSpace(secret); len(secret) <= maxSecret {
		found = keys.find(secret)
	}

	switch {
	case found == nil && s.failures.add(ClientOf(c).Name, time.Now()):
		return &Problem{
			Status: http.StatusTooManyRequests,
			Detail: "this is no API key of this server, and too many others of this address were none either; try again in " +
				"a minute", Field: "key", RetryAfter: 60,
		}
	case found == nil:
		return errNoKey
	case !found.allows(ScopeRead):
		return &Problem{
			Status: http.StatusForbidden, Detail: "this API key is not for reading: its scopes lack " + string(ScopeRead),
			Field: "key",
		}
	}

	id := rand.Text() + rand.Text()
	if err := s.config.Logins.AddLogin(c.Request().Context(), id, found.hash[:keyHashBytes], loginLasts); err != nil {
		return err
	}

	// meanwhile it went, maybe after the sessions of keys that are gone were ended
	if !s.keys.Load().stillAllow(found, ScopeRead) {
		if err := s.config.Logins.EndLogin(c.Request().Context(), id); err != nil {
			return err
		}
		return errNoKey
	}

	c.SetCookie(cookie(c.Request(), id, loginLasts))
	return nil
}

var errNoKey = &Problem{Status: http.StatusUnauthorized, Detail: "this is no API key of this server", Field: "key"}

// EndSessions ends the sessions of keys that are gone, for good and on all servers: a key that comes back finds none.
// Those are the keys that this server had, and those that it has never had, if the session is older than the file of
// keys. A younger session was begun on a server that has a newer file. It does nothing if that was done since the keys
// have changed, and waits at most a few seconds for the database.
func (s *Server) EndSessions(ctx context.Context) error {
	e := &s.endings
	if s.config.Logins == nil || !e.due.Load() {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, endingsWithin)
	defer cancel()
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return fmt.Errorf("wait until sessions of keys that are gone have ended: %w", ctx.Err())
	}
	if !e.due.Load() {
		return nil
	}

	gone, changes := e.pending()
	var listed [][]byte
	rest := time.Duration(0)
	if keys := s.keys.Load(); keys != nil {
		for i := range keys.keys {
			listed = append(listed, keys.keys[i].hash[:keyHashBytes])
		}
		if !keys.Changed.IsZero() {
			rest = time.Until(keys.Changed.Add(loginLasts + fileTimes))
		}
	}

	if err := s.config.Logins.EndLogins(ctx, gone, listed, rest); err != nil {
		return err
	}
	e.done(changes)
	return nil
}

// Logout ends the session of a request.
func (s *Server) Logout(c echo.Context) error {
	if id := session(c.Request()); id != "" && s.config.Logins != nil {
		if err := s.config.Logins.EndLogin(c.Request().Context(), id); err != nil {
			return err
		}
	}
	c.SetCookie(cookie(c.Request(), "", 0))
	return nil
}

// NeedsKey reports whether clients need a key.
func (s *Server) NeedsKey() bool { return s.keys.Load() != nil }

// loggedIn returns the key with which the session of a request was begun; nil: it has no session, or its key is gone.
func (s *Server) loggedIn(ctx context.Context, r *http.Request, keys *Keys) (*key, error) {
	id := session(r)
	if id == "" || s.config.Logins == nil {
		return nil, nil //nolint:nilnil // nobody is logged in, and that is no error
	}

	if err := s.EndSessions(ctx); err != nil {
		return nil, err
	}

	hash, err := s.config.Logins.LoginKey(ctx, id)
	if errors.Is(err, record.ErrNotFound) {
		return nil, nil //nolint:nilnil // as above
	}
	if err != nil {
		return nil, err
	}
	return keys.begins(hash), nil
}
