package http

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Options are what the tools may do.
type Options struct {
	// Hosts are those that requests may go to: a name (api.example.com), or *. and a name for all below it, with a port
	// other than 80 and 443 if there is one (api.example.com:8443). With http:// or https:// in front, nothing else is
	// used.
	Hosts []string
	// Methods are those that a request may have. Empty: GET and HEAD.
	Methods []string
	// Headers are sent to a host, besides those of the model, by its name. They may hold secrets: they go to that host
	// alone, over TLS unless its entry in Hosts begins with http://, and are shown to nobody.
	Headers map[string]map[string]string
	// AllowPrivate lets hosts have addresses of private networks and of this machine. Those that are link-local, as
	// clouds have for the credentials of their machines, stay refused.
	AllowPrivate bool
	// MaxBytes bounds the body of an answer that a model reads. 0: DefaultMaxBytes; at most MaxBytes.
	MaxBytes int
	// Timeout bounds a request with its redirects. 0: DefaultTimeout.
	Timeout time.Duration
}

// Bounds of answers, and of the time that they may take.
const (
	DefaultMaxBytes = 32 << 10
	MaxBytes        = 60 << 10
	DefaultTimeout  = 30 * time.Second
)

var (
	reading = []string{http.MethodGet, http.MethodHead, http.MethodOptions}
	writing = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
)

// Methods are all methods that Options can have.
func Methods() []string { return slices.Concat(reading, writing) }

// OptionError says which field of Options is wrong.
type OptionError struct {
	Field   string // as in the configuration: hosts, methods, headers, ...
	Message string
}

func (e *OptionError) Error() string { return e.Field + ": " + e.Message }

// Check returns an *OptionError if something is wrong.
func (o Options) Check() error {
	_, err := o.rules()
	return err
}

// rules returns what a client goes by.
func (o Options) rules() (*rules, error) {
	r := &rules{methods: o.Methods}
	if len(r.methods) == 0 {
		r.methods = []string{http.MethodGet, http.MethodHead}
	}
	for _, m := range r.methods {
		if !slices.Contains(Methods(), m) {
			return nil, &OptionError{"methods", fmt.Sprintf("there is no %q; there are: %s", m, strings.Join(Methods(), ", "))}
		}
	}
	if o.MaxBytes < 0 || o.MaxBytes > MaxBytes {
		return nil, &OptionError{"maxBytes", fmt.Sprintf("want 1 to %d", MaxBytes)}
	}

	if len(o.Hosts) == 0 {
		return nil, &OptionError{"hosts", "name the hosts that requests may go to"}
	}
	for _, entry := range o.Hosts {
		h, err := readHost(entry)
		if err != nil {
			return nil, &OptionError{"hosts", err.Error()}
		}
		r.hosts = append(r.hosts, h)
	}
	return r, r.addHeaders(o.Headers)
}

// addHeaders adds what is sent to hosts besides what a model says.
func (r *rules) addHeaders(headers map[string]map[string]string) error {
	for name, values := range headers {
		known := slices.ContainsFunc(r.hosts, func(h host) bool { return h.covers(name) })
		at, err := readHost(name)
		if err != nil || !known || at.below || at.scheme != "" {
			return &OptionError{"headers", fmt.Sprintf("%q is none of the hosts", name)}
		}

		for header, value := range values {
			err := checkHeader(header, value)
			if err == nil && slices.Contains(ownHeaders, http.CanonicalHeaderKey(header)) {
				err = errors.New("the tool itself sets it")
			}
			if err != nil {
				return &OptionError{"headers", fmt.Sprintf("%s: %s: %v", name, header, err)}
			}
		}
		r.headers = append(r.headers, hostHeaders{at, values})
	}
	return nil
}

// ownHeaders are headers that neither a model nor a configuration sets: they decide where a request goes, where it
// ends, or that it is made once.
var ownHeaders = []string{
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Expect",
	"Proxy-Authorization", "Proxy-Connection", "Accept-Encoding", "Idempotency-Key", "Http2-Settings",
}

const maxHeaderValue = 8 << 10

// checkHeader returns an error if a header could end where it should not. It does not have the value.
func checkHeader(name, value string) error {
	token := func(r rune) bool {
		return r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	}

	switch {
	case name == "" || len(name) > 100 || strings.ContainsFunc(name, func(r rune) bool { return !token(r) }):
		return errors.New("a header cannot have this name")
	case len(value) > maxHeaderValue:
		return fmt.Errorf("its value has more than %d bytes", maxHeaderValue)
	case strings.ContainsFunc(value, func(r rune) bool { return r < 0x20 && r != '\t' || r > 0x7e }):
		return errors.New("its value may only have printable ASCII characters, and no line breaks")
	}
	return nil
}
