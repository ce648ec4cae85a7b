package http

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

type answer struct {
	status int
	header http.Header
	body   []byte
	more   bool  // the body is longer
	broken error // the body ended early
}

// lostError says that a request was sent, at least in part, and that there was no answer.
type lostError struct{ cause error }

func (e *lostError) Error() string {
	return "the request was sent, and the connection broke before the answer"
}

func (e *lostError) Unwrap() error { return e.cause }

// shownHeaders are those of an answer that say something to a model. Cookies are none.
var shownHeaders = []string{
	"Allow", "Content-Length", "Content-Range", "Content-Type", "Etag", "Last-Modified", "Link", "Location", "Retry-After",
	"Www-Authenticate", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Request-Id",
}

const maxShown = 1 << 10 // bytes of a header

type answerData struct {
	URL       string            `json:"url"`
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers"`
	Body      string            `json:"body"`
	Truncated bool              `json:"truncated,omitempty"`
}

func (a *answer) result(p *prepared, hide *strings.Replacer) tool.Result {
	data := answerData{
		URL: p.url.String(), Status: a.status, Headers: map[string]string{}, Truncated: a.more || a.broken != nil,
	}
	var text strings.Builder
	status := strings.TrimSpace(fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)))
	fmt.Fprintf(&text, "%s\n", status)
	for _, name := range shownHeaders {
		if values := a.header.Values(name); len(values) > 0 {
			data.Headers[name] = hide.Replace(plain(tool.Cut(strings.Join(values, ", "), maxShown)))
			fmt.Fprintf(&text, "%s: %s\n", name, data.Headers[name])
		}
	}

	body, note := a.text()
	data.Body = hide.Replace(body)
	text.WriteString("\n" + data.Body)
	if note != "" {
		text.WriteString("\n(" + note + ")")
	}

	encoded, err := json.Marshal(data)
	if err != nil {
		encoded = nil // the text says the same
	}
	return tool.Result{
		Text: text.String(), Failed: a.failed(p), Summary: fmt.Sprintf("%s %s: %s", p.method, p.url, status), Data: encoded,
		Sources: []tool.Source{{URI: p.url.String(), Type: record.SourceURL, Description: status}},
	}
}

// failed reports whether the server did not do what was asked. A request that writes is not redirected.
func (a *answer) failed(p *prepared) bool {
	moved := []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect}
	return a.status >= 400 || p.id != "" && slices.Contains(moved, a.status)
}

// text returns the body, if it is a text, and a notice about it.
func (a *answer) text() (body, note string) {
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	text := a.body
	if a.more || a.broken != nil { // a character may be cut
		for i := 0; i < utf8.UTFMax && len(text) > 0 && !utf8.Valid(text); i++ {
			text = text[:len(text)-1]
		}
	}

	encoded := a.header.Get("Content-Encoding")
	switch {
	case encoded != "" && encoded != "identity":
		return "", "the body is not shown: it is compressed, which was not asked for: " + plain(tool.Cut(encoded, 50))
	case strings.ContainsRune(string(text), 0) || !utf8.Valid(text) && !strings.HasPrefix(media, "text/"):
		return "", fmt.Sprintf("the body is not shown: it is binary (%s)", plain(tool.Cut(media, 100)))

	case a.more:
		note = fmt.Sprintf("the body is cut after %d bytes", len(a.body))
	case a.broken != nil:
		note = "the connection broke before the end of the body"
	}
	return strings.ToValidUTF8(string(text), "\uFFFD"), note
}

// plain returns a line without control characters.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
