package recorder

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/record"
)

// Defaults of [HTTPOptions].
const (
	HTTPRetryForDefault = 15 * time.Second
	HTTPTimeoutDefault  = 30 * time.Second
)

const (
	// requestBytes is what a request is filled to before compression. One record may be larger.
	requestBytes = 8 << 20
	// gzipBytes is the size from which on a body is compressed.
	gzipBytes = 1 << 10
	// answerBytes bounds what is read of an answer.
	answerBytes = 8 << 20
)

// HTTPOptions are the options of an [HTTPSink]. The zero value is ready to use.
type HTTPOptions struct {
	// APIKey is sent as a bearer token. Default: none is sent.
	APIKey string

	// Client sends the requests; its Timeout bounds each attempt. Give it longer than 15 seconds: a
	// server that cannot write takes that long to say so. Redirects are never followed, whatever
	// the Client says, so that neither the key nor the record goes to another server. Default: one
	// with a Timeout of [HTTPTimeoutDefault].
	Client *http.Client

	// RetryFor bounds the time in which a request is sent again if the server is away or asks to
	// wait. No attempt begins after it, and the last one has the Client's whole Timeout. Negative:
	// one attempt only. Default [HTTPRetryForDefault].
	RetryFor time.Duration

	// NoCompression sends bodies as they are. Otherwise those of more than 1 KiB are compressed
	// with gzip.
	NoCompression bool

	// Logger receives a line for each failed attempt that is made again. Default: nothing is
	// logged.
	Logger *slog.Logger
}

// HTTPSink is the [Sink] that writes to a server. Make one with [NewHTTP]. It is safe for
// concurrent use and needs no closing. Each Write is at least one request, so an agent that must
// not wait for the network puts a [Buffer] in front of it.
type HTTPSink struct {
	url     string // of the records
	shown   string // the server, without credentials
	options HTTPOptions
	client  *http.Client

	maxRecord int // bytes of its line, which must fit a request
}

var _ Sink = (*HTTPSink)(nil)

// NewHTTP makes a Sink that writes to the server at an address such as http://127.0.0.1:8420. It
// does not connect yet. The error says what is wrong with the address or the key.
func NewHTTP(serverURL string, options HTTPOptions) (*HTTPSink, error) {
	u, err := url.Parse(serverURL)
	shown := "server URL"
	if !strings.Contains(serverURL, "@") { // before which there may be a password
		shown = fmt.Sprintf("server URL %.200q", serverURL)
	}

	scheme, _, found := strings.Cut(strings.ToLower(serverURL), "://")
	switch {
	case !found || scheme != "http" && scheme != "https":
		return nil, fmt.Errorf("%s: must begin with http:// or https://, such as http://127.0.0.1:8420", shown)
	case err != nil: // it would show the address
		return nil, fmt.Errorf("%s: is not valid; it must look like http://127.0.0.1:8420", shown)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%s: must name a host, such as http://127.0.0.1:8420", shown)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("server URL: %s must have neither query nor fragment", u.Host)
	case strings.ContainsFunc(options.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("API key: must be printable ASCII without spaces")
	}

	options.RetryFor = cmp.Or(options.RetryFor, HTTPRetryForDefault)
	options.Logger = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	client := &http.Client{Timeout: HTTPTimeoutDefault}
	if options.Client != nil {
		*client = *options.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &HTTPSink{
		url: u.JoinPath("api/v1/records").String(), shown: u.Redacted(), options: options, client: client,
		maxRecord: wire.MaxBodyBytes,
	}, nil
}

// Write implements [Sink]: it returns when the server has committed the changes. Many changes are
// split into several requests. While the server is away, busy or broken (no connection, 408, 429,
// 5xx) a request is sent again for [HTTPOptions.RetryFor], with growing, jittered delays, and no
// sooner than its Retry-After says. Then the error wraps [record.ErrUnavailable]. Any other error
// says what the server refused to do, such as to accept the key; another try only helps after
// somebody has fixed that. Errors show no credentials.
//
// A record whose JSON is over 64 MiB has its texts cut as the server would. If that is not enough,
// or if the server refuses a single record as too large, the record is rejected.
func (s *HTTPSink) Write(ctx context.Context, changes []record.Change) (record.Result, error) {
	var result record.Result
	var next request
	flush := func() error {
		err := s.send(ctx, next, &result)
		next = request{}
		return err
	}

	for i, c := range changes {
		line, invalid := s.encode(c)
		if invalid != nil {
			result.Rejected = append(result.Rejected, record.Rejection{Index: i, Err: invalid})
			continue
		}

		if len(next.lines) == wire.MaxRecords || next.size+len(line) > requestBytes && next.size > 0 {
			if err := flush(); err != nil {
				return record.Result{}, s.failed(len(changes), err)
			}
		}
		next.lines, next.places = append(next.lines, line), append(next.places, i)
		next.size += len(line)
	}

	if err := flush(); err != nil {
		return record.Result{}, s.failed(len(changes), err)
	}
	slices.SortFunc(result.Rejected, func(a, b record.Rejection) int { return cmp.Compare(a.Index, b.Index) })
	return result, nil
}

func (s *HTTPSink) failed(n int, err error) error {
	return fmt.Errorf("send %d records to %s: %w", n, s.shown, err)
}

// encode returns the line of a change, or why it has none.
func (s *HTTPSink) encode(c record.Change) ([]byte, *record.InvalidError) {
	line, err := wire.Encode(c)
	if err == nil && len(line) >= s.maxRecord {
		line, err = wire.Encode(cutTexts(c))
	}

	if err != nil {
		// A change without JSON is not valid either, and Clean knows which field it is.
		_, _, cause := field.Clean(c)
		if invalid, ok := errors.AsType[*record.InvalidError](cause); ok {
			return nil, invalid
		}
		return nil, &record.InvalidError{Code: record.CodeMalformed, Reason: err.Error()}
	}

	if len(line) >= s.maxRecord {
		return nil, &record.InvalidError{
			Code:   record.CodeInvalidValue,
			Reason: fmt.Sprintf("takes %d bytes as JSON, which is over the limit of %d", len(line), s.maxRecord),
		}
	}
	return append(line, '\n'), nil
}

// cutTexts returns a copy of a change whose long texts are a little over the limit at which the
// server cuts, so that the server still notices and reports that. The copy carries the character
// counts of the whole texts, which the server can no longer count.
func cutTexts(c record.Change) record.Change {
	const limit = record.MaxTextBytes + utf8.UTFMax
	whole := reflect.ValueOf(c).Elem()
	cut := reflect.New(whole.Type())
	cut.Elem().Set(whole)
	for i := range whole.NumField() {
		if text, ok := reflect.TypeAssert[*string](whole.Field(i)); ok && text != nil && len(*text) > limit {
			cut.Elem().Field(i).Set(reflect.ValueOf(new(field.ShortenText(*text, limit))))
		}
	}

	out := cut.Interface().(record.Change)
	if cycle, ok := out.(*record.ThinkAct); ok {
		given := c.(*record.ThinkAct)
		cycle.InputCharCount = charCount(given.InputCharCount, given.ThinkInput, cycle.ThinkInput)
		cycle.OutputCharCount = charCount(given.OutputCharCount, given.ThinkOutput, cycle.ThinkOutput)
	}
	return out
}

// charCount returns the count to send with a text: the given one or, if the text was cut, that of
// the whole.
func charCount(given *int64, whole, sent *string) *int64 {
	if given != nil || whole == sent {
		return given
	}
	return new(int64(utf8.RuneCountInString(*whole)))
}

// request is what goes to the server at once.
type request struct {
	lines  [][]byte
	places []int // of the lines among the changes
	size   int   // of the lines, in bytes
}

// errRefusedSize says that a request is larger than the server accepts.
var errRefusedSize = errors.New("the server refuses the request as too large (413)")

// send sends a request, and adds the answer to the result.
func (s *HTTPSink) send(ctx context.Context, r request, result *record.Result) error {
	if len(r.lines) == 0 {
		return nil
	}

	answer, err := s.post(ctx, r.lines)
	switch {
	case errors.Is(err, errRefusedSize) && len(r.lines) > 1:
		// Something in between, such as a proxy, accepts less than the server.
		half := len(r.lines) / 2
		if err := s.send(ctx, request{lines: r.lines[:half], places: r.places[:half]}, result); err != nil {
			return err
		}
		return s.send(ctx, request{lines: r.lines[half:], places: r.places[half:]}, result)
	case errors.Is(err, errRefusedSize):
		result.Rejected = append(result.Rejected, record.Rejection{Index: r.places[0], Err: &record.InvalidError{
			Code:   record.CodeInvalidValue,
			Reason: fmt.Sprintf("takes %d bytes as JSON, which the server refuses as too large (413)", len(r.lines[0])),
		}})
		return nil
	case err != nil:
		return err
	}

	result.Accepted += answer.Accepted
	for _, rejected := range answer.Rejected {
		// The message on the wire begins with the field.
		reason := strings.TrimPrefix(rejected.Message, rejected.Field+" ")
		result.Rejected = append(result.Rejected, record.Rejection{
			Index: r.places[rejected.Index], Err: &record.InvalidError{
				Code: rejected.Code, Field: rejected.Field, Reason: reason,
			},
		})
	}
	return nil
}

// unavailableError means that a later attempt may succeed.
type unavailableError struct {
	cause      string
	retryAfter time.Duration // the least delay that the server asked for
}

func (e *unavailableError) Error() string {
	return fmt.Sprintf("%s: %s", record.ErrUnavailable, e.cause)
}
func (e *unavailableError) Unwrap() error { return record.ErrUnavailable }

// post sends lines until the server has answered, for at most RetryFor.
func (s *HTTPSink) post(ctx context.Context, lines [][]byte) (*wire.Answer, error) {
	body, encoding, err := s.body(lines)
	if err != nil {
		return nil, err
	}

	started := time.Now()
	for attempts := 1; ; attempts++ {
		answer, err := s.attempt(ctx, body, encoding, len(lines))
		away, ok := errors.AsType[*unavailableError](err)
		if !ok {
			return answer, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}

		delay := max(backoff(attempts), away.retryAfter)
		if time.Since(started)+delay > s.options.RetryFor {
			return nil, err
		}
		s.options.Logger.WarnContext(ctx, "recorder: the server does not take records, trying again",
			"server", s.shown, "in", delay, "error", away.cause)
		if err := pause(ctx, delay, nil); err != nil {
			return nil, err
		}
	}
}

var gzips = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is a valid one
	return w
}}

func (s *HTTPSink) body(lines [][]byte) (body []byte, encoding string, err error) {
	size := 0
	for _, line := range lines {
		size += len(line)
	}

	var b bytes.Buffer
	if s.options.NoCompression || size <= gzipBytes {
		b.Grow(size)
		for _, line := range lines {
			b.Write(line)
		}
		return b.Bytes(), "", nil
	}

	w := gzips.Get().(*gzip.Writer)
	defer gzips.Put(w)
	w.Reset(&b)
	for _, line := range lines {
		_, _ = w.Write(line) // Close returns the error, too
	}
	if err := w.Close(); err != nil {
		return nil, "", fmt.Errorf("compress: %w", err)
	}
	return b.Bytes(), "gzip", nil
}

// attempt sends a body of n records once. The error is an [*unavailableError] if another attempt
// may succeed.
func (s *HTTPSink) attempt(ctx context.Context, body []byte, encoding string, n int) (*wire.Answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}

	r.Header.Set("Content-Type", wire.TypeNDJSON)
	if encoding != "" {
		r.Header.Set("Content-Encoding", encoding)
	}
	if s.options.APIKey != "" {
		r.Header.Set("Authorization", "Bearer "+s.options.APIKey)
	}

	resp, err := s.client.Do(r)
	if err != nil {
		if sent, ok := errors.AsType[*url.Error](err); ok { // it repeats the address
			err = sent.Err
		}
		return nil, &unavailableError{cause: s.redact(err.Error())}
	}
	defer resp.Body.Close()

	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes))
	if err != nil {
		return nil, &unavailableError{cause: s.redact("read answer: " + err.Error())}
	}

	switch status := resp.StatusCode; {
	case status == http.StatusOK, status == http.StatusMultiStatus, status == http.StatusUnprocessableEntity:
		return s.parse(answer, n)
	case status == http.StatusRequestEntityTooLarge:
		return nil, errRefusedSize
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= 500:
		return nil, &unavailableError{cause: s.refusal(status, answer), retryAfter: retryAfter(resp.Header)}
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return nil, fmt.Errorf("the server denies access: %s", s.refusal(status, answer))
	case 300 <= status && status < 400:
		where := "elsewhere"
		if location, err := resp.Location(); err == nil {
			location.RawQuery = ""
			where = "to " + s.redact(location.Redacted())
		}
		return nil, fmt.Errorf("the server redirects %s (%d), which is not followed: name the right server", where, status)
	default:
		return nil, fmt.Errorf("the server refuses the request: %s", s.refusal(status, answer))
	}
}

// parse reads the answer to n records. It must account for each of them.
func (s *HTTPSink) parse(body []byte, n int) (*wire.Answer, error) {
	answer := new(wire.Answer)
	if err := json.Unmarshal(body, answer); err != nil {
		return nil, fmt.Errorf("the answer is not that of an Actlog server: %w", err)
	}

	seen := map[int]bool{}
	for _, rejected := range answer.Rejected {
		if rejected.Index < 0 || rejected.Index >= n || seen[rejected.Index] {
			return nil, fmt.Errorf("the answer is not that of an Actlog server: it rejects record %d of %d", rejected.Index, n)
		}
		seen[rejected.Index] = true
	}

	if answer.Accepted+len(answer.Rejected) != n {
		return nil, fmt.Errorf("the answer is not that of an Actlog server: it accepts %d and rejects %d of %d records",
			answer.Accepted, len(answer.Rejected), n)
	}
	return answer, nil
}

// refusal returns what the server answered, briefly.
func (s *HTTPSink) refusal(status int, body []byte) string {
	text := strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
	var problem struct{ Detail string }
	if err := json.Unmarshal(body, &problem); err != nil || problem.Detail == "" {
		return text
	}
	return s.redact(fmt.Sprintf("%s: %s", text, field.Shorten(problem.Detail, 500)))
}

// redact removes the key from a text that came from elsewhere.
func (s *HTTPSink) redact(text string) string {
	if s.options.APIKey == "" {
		return text
	}
	return strings.ReplaceAll(text, s.options.APIKey, "[API key]")
}

// retryAfter reads the header, in seconds or as a date. It is 0 if there is none.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
