package httpd

import (
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics counts what is served. No label holds an id, a name or anything else that clients
// make up, so their number is bounded. docs/operations.md explains each.
type metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	received  *prometheus.CounterVec
	inFlight  prometheus.Gauge
	cut       prometheus.Counter
	slow      prometheus.Counter
}

func newMetrics(version string, bodies, answers *Budget) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "actlog_http_requests_total", Help: "Requests that were answered.",
		}, []string{"route", "method", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "actlog_http_request_duration_seconds",
			Help: "How long requests took, from their head until the answer was made; how long clients read is in it for " +
				"streamed answers only.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}, []string{"route", "method"}),
		received: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "actlog_http_request_bytes_total", Help: "Bytes of request bodies that were read, as they were sent.",
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "actlog_http_requests_in_flight", Help: "Requests that are being served.",
		}),
		cut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "actlog_http_answers_cut_total", Help: "Answers that were broken off because their clients read too slowly.",
		}),
		slow: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "actlog_http_body_slow_total", Help: "Requests that were cut off because their body came too slowly.",
		}),
	}

	m.registry.MustRegister(
		m.requests, m.durations, m.received, m.inFlight, m.cut, m.slow,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "actlog_build_info", Help: "Always 1; its labels say what runs.",
			ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()},
		}, func() float64 { return 1 }),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)

	m.registry.MustRegister(bodies.metrics("actlog_http_body",
		"for request bodies, decompressed, and for the spans decoded from them")...)
	m.registry.MustRegister(answers.metrics("actlog_http_answer",
		"for answers, from the first row until clients have read them")...)
	return m
}

func (m *metrics) served(method, route string, status int, took time.Duration, received int64, stream bool) {
	m.requests.WithLabelValues(route, method, strconv.Itoa(status/100)+"xx").Inc()
	if !stream {
		m.durations.WithLabelValues(route, method).Observe(took.Seconds())
	}
	m.received.WithLabelValues(route).Add(float64(received))
}
