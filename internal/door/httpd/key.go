package httpd

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// Scope is what a key may be used for.
type Scope string

// The scopes. None implies another.
const (
	ScopeWrite  Scope = "write"  // records
	ScopeRead   Scope = "read"   // everything on record, and the metrics
	ScopeRun    Scope = "run"    // to start runs, to stop them, to pause them and to let them go on
	ScopeDecide Scope = "decide" // to answer what runs wait for
	ScopeAdmin  Scope = "admin"  // to delete for good
)

var scopes = []Scope{ScopeWrite, ScopeRead, ScopeRun, ScopeDecide, ScopeAdmin}

const scopeNames = "write, read, run, decide, admin"

// What a route may need instead of a scope.
const (
	ScopeAny  Scope = "any"  // any key
	ScopeNone Scope = "none" // no key
)

// keyPrefix shows people, and programs that look for leaked secrets, what a key is.
const keyPrefix = "actlog_"

// keyHashBytes is how much of the hash of a key stands for it.
const keyHashBytes = 16

const maxNameBytes = 64

// Keys are the API keys that a server accepts. It knows only their hashes: 32 random bytes
// need no salt and no slow hash.
type Keys struct {
	// Changed is when their file was last changed. Zero: not known.
	Changed time.Time

	keys []key
}

type key struct {
	name   string
	hash   [sha256.Size]byte
	scopes []Scope
}

// NewKey returns a new key, and the line for a file of keys that accepts it.
func NewKey(name string, scopes []Scope) (secret, line string, err error) {
	if err := checkName(name); err != nil {
		return "", "", err
	}
	if err := checkScopes(scopes); err != nil {
		return "", "", err
	}

	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	secret = keyPrefix + base64.RawURLEncoding.EncodeToString(random)

	texts := make([]string, len(scopes))
	for i, s := range scopes {
		texts[i] = string(s)
	}
	hash := sha256.Sum256([]byte(secret))
	return secret, name + ":" + hex.EncodeToString(hash[:]) + ":" + strings.Join(texts, ","), nil
}

// ReadKeys reads a file of keys: one key per line, name:sha256-hex:scopes. Blank lines and
// those that begin with # are skipped. Errors name the line and do not quote it.
func ReadKeys(r io.Reader) (*Keys, error) {
	var all Keys
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}

		k, err := parseKey(line)
		if err == nil && slices.ContainsFunc(all.keys, func(other key) bool { return other.hash == k.hash }) {
			err = errors.New("the same key is in an earlier line")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all.keys = append(all.keys, k)
	}

	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if len(all.keys) == 0 {
		return nil, errors.New("there is no key in it: nobody could use the server")
	}
	return &all, nil
}

// Len is the number of keys.
func (k *Keys) Len() int { return len(k.keys) }

func parseKey(line string) (k key, err error) {
	parts := strings.Split(line, ":")
	if len(parts) != 3 {
		return key{}, errors.New("must be name:sha256-hex:scopes")
	}

	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	k.name = parts[0]
	if err := checkName(k.name); err != nil {
		return key{}, err
	}

	hash, err := hex.DecodeString(parts[1])
	if err != nil || len(hash) != sha256.Size {
		return key{}, fmt.Errorf("the SHA-256 of key %s must be 64 hex digits", k.name)
	}
	k.hash = [sha256.Size]byte(hash)

	for s := range strings.SplitSeq(parts[2], ",") {
		k.scopes = append(k.scopes, Scope(strings.TrimSpace(s)))
	}
	if err := checkScopes(k.scopes); err != nil {
		return key{}, fmt.Errorf("key %s: %w", k.name, err)
	}
	return k, nil
}

func checkName(name string) error {
	strange := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.@", r)
	}
	if name == "" || len(name) > maxNameBytes || strings.ContainsFunc(name, strange) {
		return fmt.Errorf("the name of a key must be 1 to %d letters, digits, or one of - _ . @", maxNameBytes)
	}
	return nil
}

func checkScopes(of []Scope) error {
	if len(of) == 0 {
		return errors.New("scopes are missing: " + scopeNames)
	}

	for _, s := range of {
		if !slices.Contains(scopes, s) {
			return fmt.Errorf("%.20q is no scope: %s", string(s), scopeNames)
		}
	}
	return nil
}

// find returns the key of a secret, or nil. It takes the same time for every secret.
func (k *Keys) find(secret string) (found *key) {
	hash := sha256.Sum256([]byte(secret))
	for i := range k.keys {
		if subtle.ConstantTimeCompare(k.keys[i].hash[:], hash[:]) == 1 {
			found = &k.keys[i]
		}
	}
	return found
}

// stillAllow reports whether a key that was found earlier, maybe among other keys, is good for something. Where no keys
// are set, anybody is.
func (k *Keys) stillAllow(earlier *key, need Scope) bool {
	if k == nil {
		return true
	}
	i := k.index(earlier)
	return i >= 0 && k.keys[i].allows(need)
}

// has reports whether a key is one of these, which may be nil.
func (k *Keys) has(one *key) bool { return k != nil && k.index(one) >= 0 }

func (k *Keys) index(of *key) int {
	return slices.IndexFunc(k.keys, func(one key) bool { return of != nil && one.hash == of.hash })
}

func (k *key) allows(need Scope) bool { return need == ScopeAny || slices.Contains(k.scopes, need) }

// keyHeader brings a key if a proxy uses Authorization for itself.
const keyHeader = "X-Api-Key"

// bearer returns the secret that a request brings in one of two headers.
func bearer(h http.Header) string {
	secret := h.Get(keyHeader)
	if scheme, token, _ := strings.Cut(h.Get(echo.HeaderAuthorization), " "); strings.EqualFold(scheme, "Bearer") {
		secret = token
	}
	return strings.TrimSpace(secret)
}

// begins returns the key whose hash begins so, or nil.
func (k *Keys) begins(hash []byte) (found *key) {
	for i := range k.keys {
		if len(hash) == keyHashBytes && subtle.ConstantTimeCompare(k.keys[i].hash[:keyHashBytes], hash) == 1 {
			found = &k.keys[i]
		}
	}
	return found
}

// admit returns the problem if a key does not allow what a request needs. The key is nil if the request has none.
func (k *key) admit(need Scope) *Problem {
	if k == nil {
		return Refused(http.StatusUnauthorized, "an API key is needed: send it as Authorization: Bearer KEY; the owner "+
			"of this server makes one with actlog key")
	}

	if !k.allows(need) {
		return Refused(http.StatusForbidden, "this API key is not for that: its scopes lack "+string(need))
	}
	return nil
}
