package httpd

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/internal/record/recent"
)

// Logins keeps the sessions of people who are logged in to the web page. A session has a secret that only its browser
// has, and the API key with which it was begun, known by the beginning of its hash.
type Logins interface {
	AddLogin(ctx context.Context, secret string, key []byte, lasts time.Duration) error
	// LoginKey wraps [record.ErrNotFound] if there is no such session, or none any more.
	LoginKey(ctx context.Context, secret string) (key []byte, err error)
	EndLogin(ctx context.Context, secret string) error
	// EndLogins ends the sessions of keys that are gone, and of keys that are not listed unless they last longer than
	// rest.
	EndLogins(ctx context.Context, gone, listed [][]byte, rest time.Duration) error
}

const (
	// loginLasts is how long a session lasts.
	loginLasts = 12 * time.Hour
	// maxSecret bounds what may be sent as a key.
	maxSecret = 256
	// loginFailures is how many keys that are none an address may try in a minute.
	loginFailures = 5
	// loginAddresses is of how many addresses they are counted at least.
	loginAddresses = 10_000
	// fileTimes is how exactly file systems say when a file was changed.
	fileTimes = 100 * time.Millisecond
)

// cookieName is the name of the cookie with the secret of a session. Behind TLS no other host can set one of that name.
func cookieName(r *http.Request) string {
	if overTLS(r) {
		return "__Host-actlog"
	}
	return "actlog"
}

// overTLS reports whether the browser sent a request over TLS, as a proxy says that ends it.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// Origin returns the address of the server as the sender of a request knows it.
func Origin(r *http.Request) string {
	if overTLS(r) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

func cookie(r *http.Request, secret string, lasts time.Duration) *http.Cookie {
	age := int(lasts.Seconds())
	if secret == "" {
		age = -1
	}

	return &http.Cookie{
		Name: cookieName(r), Value: secret, Path: "/", MaxAge: age, HttpOnly: true, Secure: overTLS(r),
		SameSite: http.SameSiteLaxMode,
	}
}

// session returns the secret of the session of a request; empty: it has none.
func session(r *http.Request) string {
	c, err := r.Cookie(cookieName(r))
	if err != nil || len(c.Value) > maxSecret {
		return ""
	}
	return c.Value
}

// failures counts how often somebody of an address failed to log in. A good key is let in whatever others of its
// address do, so they lock nobody out. Nor is it for the sake of the keys, which nobody guesses: it tells programs that
// try to stop.
type failures struct {
	mu    sync.Mutex
	since time.Time
	of    recent.Map[string, int]
}

// add counts a failure. It reports whether there were too many in this minute.
func (f *failures) add(address string, now time.Time) (tooMany bool) {
	f.mu.Lock()
	defer f.mu.Unlock()

	if now.Sub(f.since) > time.Minute {
		f.since, f.of = now, recent.Map[string, int]{Half: loginAddresses}
	}
	n, _ := f.of.Get(address)
	f.of.Set(address, n+1)
	return n >= loginFailures
}

// removedKeys are the keys that were removed from the file, and whose sessions have to end for good.
type removedKeys struct {
	due  atomic.Bool
	turn chan struct{} // holds a token while one writes

	mu      sync.Mutex // not held over a write
	gone    map[[keyHashBytes]byte]bool
	version int
}

// endingsWithin bounds how long their write may take, with the wait for another one.
const endingsWithin = 5 * time.Second

// keysChanged adds the keys of old that current does not have. Their sessions must be ended for good.
func (e *removedKeys) keysChanged(old, current *Keys) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.version++
	if old != nil {
		for i := range old.keys {
			if k := &old.keys[i]; !current.has(k) {
				if e.gone == nil {
					e.gone = map[[keyHashBytes]byte]bool{}
				}
				e.gone[[keyHashBytes]byte(k.hash[:])] = true
			}
		}
	}
	// also with no removed key: sessions of unlisted keys may have to end
	e.due.Store(current != nil || len(e.gone) > 0)
}

// pending returns the hashes of the removed keys, and of which version of the keys they are.
func (e *removedKeys) pending() (gone [][]byte, version int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for hash := range e.gone {
		gone = append(gone, hash[:])
	}
	return gone, e.version
}

// done forgets the removed keys, unless the keys have changed since pending returned version.
func (e *removedKeys) done(version int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.version == version {
		e.gone = nil
		e.due.Store(false)
	}
}

// fromBrowser reports whether a browser may have sent a request. Those that are too old to say so are known by their
// name.
func fromBrowser(r *http.Request) bool {
	for name := range r.Header {
		if strings.HasPrefix(name, "Sec-Fetch-") {
			return true
		}
	}
	return r.Header.Get("Cookie") != "" || strings.HasPrefix(r.UserAgent(), "Mozilla/")
}

// fromForeignSite reports whether a browser says that a page of another origin made it send a request.
func fromForeignSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

// namesForeignPage reports whether a request names the page that it is from, and that is of another host.
func namesForeignPage(r *http.Request) bool {
	for _, name := range []string{"Origin", "Referer"} {
		page, err := url.Parse(r.Header.Get(name))
		if r.Header.Get(name) != "" && (err != nil || page.Host != r.Host) {
			return true
		}
	}
	return false
}

// fromOwnScript reports whether a script in a page of this server sent a request: no link, no form and no image of the
// page, whose address may come from what agents wrote.
func fromOwnScript(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return r.Header.Get("Sec-Fetch-Site") == "same-origin" && (mode == "" || mode == "cors" || mode == "same-origin") &&
		r.Header.Get("Cookie") == ""
}

// fromOwnPage reports whether a page of this server sent a request.
func fromOwnPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host != "" && origin.Host == r.Host
}
