package httpd

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// sharesOfStreams is which part of all streams one client may have: a quarter.
const sharesOfStreams = 4

// The answers to a request for a stream that cannot begin.
var (
	// ErrNoStream: all clients together have as many as there may be.
	ErrNoStream = Later(5, "the server has as many streams as it may; try again soon, or another server")
	// ErrClientStreams: the client has its share.
	ErrClientStreams = &Problem{
		Status: http.StatusTooManyRequests,
		Detail: "this API key, or without keys this address, has as many streams as one client may; end one of them, or " +
			"try again later", RetryAfter: 5,
	}
)

// errKeyGone is the cause that ends a stream whose key is gone, and the answer if nothing of it was sent.
var errKeyGone = Refused(http.StatusUnauthorized,
	"the API key of this request was removed, or lost a scope, while it waited; runs that it began go on")

// streams are the answers that are open for as long as their clients like, whatever they send, or wait for the end of a
// run: a number of them at most, of which one client has a share.
type streams struct {
	count *quota // its lock guards those that are open, too
	open  map[*stream]bool
}

type stream struct {
	client Client
	key    *key
	need   Scope
	end    context.CancelCauseFunc
}

func newStreams(most int) *streams {
	return &streams{
		count: newQuota(int64(most), int64(max(1, most/sharesOfStreams)), ErrNoStream, ErrClientStreams),
		open:  map[*stream]bool{},
	}
}

// begin counts a stream. The problem is [ErrNoStream] or [ErrClientStreams]; nil: it has begun.
func (s *streams) begin(one *stream) *Problem {
	s.count.Lock()
	defer s.count.Unlock()

	refused := s.count.take(one.client, 1)
	if refused == nil {
		s.open[one] = true
	}
	return refused
}

func (s *streams) ended(one *stream) {
	s.count.Lock()
	defer s.count.Unlock()
	delete(s.open, one)
	s.count.add(one.client, -1)
}

// endWithout ends the streams whose keys are gone, or no longer good for them.
func (s *streams) endWithout(keys *Keys) {
	s.count.Lock()
	defer s.count.Unlock()
	for one := range s.open {
		one.endWithout(keys)
	}
}

func (one *stream) endWithout(keys *Keys) {
	if !keys.stillAllow(one.key, one.need) {
		one.end(errKeyGone)
	}
}

func (s *streams) metrics() []prometheus.Collector {
	return s.count.metrics(
		prometheus.Opts{
			Name: "actlog_http_streams", Help: "Streams of events, WebSockets, and others that are open as long as their " +
				"clients like or until a run ends.",
		},
		prometheus.Opts{Name: "actlog_http_streams_max", Help: "How many streams may be open."},
		prometheus.Opts{
			Name: "actlog_http_streams_refused_total",
			Help: "Streams that were refused because there were as many as there may be, or as their client may have.",
		},
	)
}
