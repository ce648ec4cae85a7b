package httpd

import (
	"context"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// sharesOfStreams is which part of all streams one client may have: a quarter.
const sharesOfStreams = 4

// The answers to a request for a stream that cannot begin.
var (
	// ErrNoStream: all clients together have as many as there may be.
	ErrNoStream = &Problem{Status: http.StatusServiceUnavailable, Detail: "the server has as many streams as it may; try again soon, or another server", RetryAfter: 5}
	// ErrClientStreams: the client has its share.
	ErrClientStreams = &Problem{Status: http.StatusTooManyRequests, Detail: "this API key, or without keys this address, has as many streams as one client may; end one of them, or try again later", RetryAfter: 5}
)

// errKeyGone is the cause that ends a stream whose key is gone, and the answer if nothing of it was sent.
var errKeyGone = &Problem{Status: http.StatusUnauthorized, Detail: "the API key of this request was removed, or lost a scope, while it waited; runs that it began go on"}

// streams are the answers that are open for as long as their clients like, whatever they send, or wait for the end of a run: a number of
// them at most, of which one client has a share.
type streams struct {
	most, share int

	mu      sync.Mutex
	open    map[*stream]bool
	of      map[string]int // by client
	refused map[*Problem]int64
}

// stream is one of them.
type stream struct {
	client string
	key    *key
	need   Scope
	end    context.CancelCauseFunc
}

func newStreams(most int) *streams {
	return &streams{
		most: most, share: max(1, most/sharesOfStreams),
		open: map[*stream]bool{}, of: map[string]int{}, refused: map[*Problem]int64{},
	}
}

// begin counts a stream. The error is [ErrNoStream] or [ErrClientStreams].
func (s *streams) begin(one *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var refused *Problem
	switch {
	case s.of[one.client] >= s.share:
		refused = ErrClientStreams
	case len(s.open) >= s.most:
		refused = ErrNoStream
	default:
		s.open[one] = true
		s.of[one.client]++
		return nil
	}
	s.refused[refused]++
	return refused
}

func (s *streams) ended(one *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, one)
	if s.of[one.client]--; s.of[one.client] == 0 {
		delete(s.of, one.client)
	}
}

// endWithout ends the streams whose keys are gone, or no longer good for them.
func (s *streams) endWithout(keys *Keys) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	count := func(of func() float64) func() float64 {
		return func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return of()
		}
	}
	all := []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "actlog_http_streams", Help: "Streams of events, WebSockets, and others that are open as long as their clients like or until a run ends.",
		}, count(func() float64 { return float64(len(s.open)) })),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "actlog_http_streams_max", Help: "How many streams may be open.",
		}, func() float64 { return float64(s.most) }),
	}
	for limit, problem := range map[string]*Problem{"server": ErrNoStream, "client": ErrClientStreams} {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "actlog_http_streams_refused_total", Help: "Streams that were refused because there were as many as there may be, or as their client may have.",
			ConstLabels: prometheus.Labels{"limit": limit},
		}, count(func() float64 { return float64(s.refused[problem]) })))
	}
	return all
}
