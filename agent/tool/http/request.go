package http

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

type requestArguments struct {
	Method  string            `json:"method,omitempty" jsonschema:"GET by default"`
	URL     string            `json:"url" jsonschema:"with https:// or http://"`
	Headers map[string]string `json:"headers,omitempty" jsonschema:"more headers, such as Accept"`
}

type arguments struct {
	Method  string            `json:"method" jsonschema:"such as POST"`
	URL     string            `json:"url" jsonschema:"with https:// or http://"`
	Headers map[string]string `json:"headers,omitempty" jsonschema:"more headers, such as Content-Type"`
	Body    string            `json:"body,omitempty" jsonschema:"sent as it is; for JSON, set Content-Type"`
}

// Bounds of what a model sends.
const (
	maxBody      = 48 << 10 // bytes, so that whoever approves a request sees all of it
	maxHeaders   = 30
	maxRedirects = 5
)

type prepared struct {
	method  string
	url     *url.URL
	headers map[string]string // of the model, by their canonical names
	secret  map[string]string // of the host
	id      string            // of the call; empty: the request only reads
	body    string
}

// prepare checks what a model wants to send. methods are those of the tool.
func (r *rules) prepare(in arguments, methods []string, id string) (*prepared, error) {
	p := &prepared{method: strings.ToUpper(in.Method), body: in.Body, id: id, headers: map[string]string{}}
	if p.method == "" {
		p.method = http.MethodGet
	}
	if !slices.Contains(r.methods, p.method) {
		allowed := strings.Join(r.methods, ", ")
		return nil, fmt.Errorf("method: %s is not allowed; allowed are: %s", quoted(in.Method), allowed)
	}
	if !slices.Contains(methods, p.method) {
		other := "http.send"
		if slices.Contains(reading, p.method) {
			other = "http.request"
		}
		return nil, fmt.Errorf("method: %s is one of the tool %s", p.method, other)
	}

	var err error
	if p.url, err = parse(in.URL); err != nil {
		return nil, err
	}
	if p.secret, err = r.allow(p.url); err != nil {
		return nil, err
	}
	if err := p.addHeaders(in.Headers); err != nil {
		return nil, err
	}

	if len(p.body) > maxBody {
		return nil, fmt.Errorf("body: it has more than %d bytes", maxBody)
	}
	return p, nil
}

func (p *prepared) addHeaders(headers map[string]string) error {
	if len(headers) > maxHeaders {
		return fmt.Errorf("headers: there are more than %d", maxHeaders)
	}
	for name, value := range headers {
		if err := checkHeader(name, value); err != nil {
			return fmt.Errorf("headers: %s: %w", quoted(name), err)
		}

		key := http.CanonicalHeaderKey(name)
		_, twice := p.headers[key]
		switch {
		case twice:
			return fmt.Errorf("headers: %s is there twice", key)
		case p.configured(key):
			return fmt.Errorf("headers: %s is set by the program for this host; leave it out", key)
		case slices.Contains(ownHeaders, key):
			return fmt.Errorf("headers: %s cannot be set; leave it out", key)
		}
		p.headers[key] = value
	}
	return nil
}

// configured reports whether the program has a header for the host.
func (p *prepared) configured(key string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(p.secret)),
		func(own string) bool { return http.CanonicalHeaderKey(own) == key })
}

// String shows the request as it is sent, without the values of secrets.
func (p *prepared) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s\n", p.method, p.url)
	for _, name := range slices.Sorted(maps.Keys(p.headers)) {
		fmt.Fprintf(&text, "%s: %s\n", name, p.headers[name])
	}
	for _, name := range slices.Sorted(maps.Keys(p.secret)) {
		fmt.Fprintf(&text, "%s: [secret]\n", http.CanonicalHeaderKey(name))
	}

	if p.id != "" {
		fmt.Fprintf(&text, "Idempotency-Key: %s\n", p.id)
	}
	if p.body != "" {
		text.WriteString("\n" + p.body)
	}
	return text.String()
}

func (p *prepared) set(h http.Header) {
	h.Set("User-Agent", "actlog")
	for name, value := range p.headers {
		h.Set(name, value)
	}
	for name, value := range p.secret {
		h.Set(name, value)
	}
	if p.id != "" {
		h.Set("Idempotency-Key", p.id)
	}
}

// quoted returns a short text of a model for a message.
func quoted(text string) string {
	const most = 60
	return fmt.Sprintf("%q", text[:min(len(text), most)])
}
