package api

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/actlog/actlog/internal/otlp"
	"github.com/actlog/actlog/internal/store"
)

// metrics counts what is served. No label holds an id, a name or anything else
// that clients make up: their number is bounded. docs/operations.md explains each.
type metrics struct {
	handler   http.Handler
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	received  *prometheus.CounterVec
	inFlight  prometheus.Gauge
	exports   *prometheus.CounterVec
	told      *prometheus.CounterVec
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "actlog_http_requests_total", Help: "Requests that were answered.",
		}, []string{"route", "method", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "actlog_http_request_duration_seconds", Help: "How long requests took, from their head to the end of the answer.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}, []string{"route", "method"}),
		received: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "actlog_http_request_bytes_total", Help: "Bytes of request bodies that were read, as they were sent.",
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "actlog_http_requests_in_flight", Help: "Requests that are being served.",
		}),
		exports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "actlog_otlp_requests_total", Help: "Exports over OTLP that were answered; those by gRPC with the status that HTTP would have.",
		}, []string{"door", "signal", "status"}),
		told: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "actlog_otlp_items_total", Help: "Spans and log records of exports that were answered 200: accepted are on record, ignored are log records of no span.",
		}, []string{"signal", "result"}),
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		m.requests, m.durations, m.received, m.inFlight, m.exports, m.told,
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "actlog_otlp_traces_without_agent_total", Help: "Times that the spans of a trace, all that came so far, told nothing of an agent.",
		}, func() float64 { return float64(s.store.Stats().TracesWithoutRows) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "actlog_http_body_bytes", Help: "Bytes of request bodies, decompressed, that are held in memory.",
		}, func() float64 { return float64(s.bodies.used.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "actlog_http_body_bytes_max", Help: "How many may be held; beyond it, writes are answered 503.",
		}, func() float64 { return float64(s.bodies.size) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "actlog_build_info", Help: "Always 1; its labels say what runs.",
			ConstLabels: prometheus.Labels{"version": s.config.Version, "go": runtime.Version()},
		}, func() float64 { return 1 }),
		liveGauge("streams", "Streams of events that are open.", func() float64 { return float64(s.live.Stats().Streams) }),
		liveCounter("events_total", "Events that were given to clients.", func() float64 { return float64(s.live.Stats().Events) }),
		liveCounter("cut_total", "Streams that were cut because their clients read too slowly.", func() float64 { return float64(s.live.Stats().Cut) }),
		liveGauge("feed_lag_seconds", "How old the oldest change was that the last look at the feed found, or since when there was none; 0 without streams.",
			func() float64 { return s.live.Stats().Lag.Seconds() }),
		liveGauge("feed_gaps", "Changes that are waited for because their transactions may not have committed; 0 without streams.",
			func() float64 { return float64(s.live.Stats().Gaps) }),
		storeCollector{s.store},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	// Answers are compressed with all others.
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true})
	return m
}

func (m *metrics) served(method, route string, status int, took time.Duration, received int64, stream bool) {
	m.requests.WithLabelValues(route, method, strconv.Itoa(status/100)+"xx").Inc()
	if !stream {
		m.durations.WithLabelValues(route, method).Observe(took.Seconds())
	}
	m.received.WithLabelValues(route).Add(float64(received))
}

// answered counts an export.
func (m *metrics) answered(by door, signal otlp.Signal, status int) {
	m.exports.WithLabelValues(string(by), string(signal), strconv.Itoa(status)).Inc()
}

// exported counts what an export told.
func (m *metrics) exported(signal otlp.Signal, accepted, rejected, ignored int) {
	m.told.WithLabelValues(string(signal), "accepted").Add(float64(accepted))
	m.told.WithLabelValues(string(signal), "rejected").Add(float64(rejected))
	m.told.WithLabelValues(string(signal), "ignored").Add(float64(ignored))
}

// storeCollector shows what the store tells of itself.
type storeCollector struct{ store *store.Store }

// storeMetric is one of its figures.
type storeMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*store.Stats) float64
}

func liveGauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "actlog_live_" + name, Help: help}, value)
}

func liveCounter(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "actlog_live_" + name, Help: help}, value)
}

func gauge(name, help string, value func(*store.Stats) float64) storeMetric {
	return storeMetric{prometheus.NewDesc("actlog_store_"+name, help, nil, nil), prometheus.GaugeValue, value}
}

func counter(name, help string, value func(*store.Stats) float64) storeMetric {
	return storeMetric{prometheus.NewDesc("actlog_store_"+name+"_total", help, nil, nil), prometheus.CounterValue, value}
}

// timestamp gives seconds since 1970, and 0 for never.
func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

var storeMetrics = []storeMetric{
	gauge("queue_rows", "Rows that wait to be written, or are being written.", func(s *store.Stats) float64 { return float64(s.QueueRows) }),
	gauge("queue_bytes", "Their bytes, as estimated.", func(s *store.Stats) float64 { return float64(s.QueueBytes) }),
	gauge("queue_waiting", "Writes that wait for room in the queue.", func(s *store.Stats) float64 { return float64(s.QueueWaiting) }),
	counter("batches", "Transactions that were committed.", func(s *store.Stats) float64 { return float64(s.Batches) }),
	counter("rows", "Rows in them, changed or not.", func(s *store.Stats) float64 { return float64(s.Rows) }),
	counter("folded", "Changes that met another one to the same row in their transaction.", func(s *store.Stats) float64 { return float64(s.Folded) }),
	counter("retries", "Transactions that were tried again.", func(s *store.Stats) float64 { return float64(s.Retries) }),
	counter("refused", "Records that were answered with a rejection.", func(s *store.Stats) float64 { return float64(s.Refused) }),
	counter("given_up", "Records that were answered with an error, because Postgres was away for too long.", func(s *store.Stats) float64 { return float64(s.GivenUp) }),
	gauge("last_error_timestamp_seconds", "When a transaction last failed; 0: never.", func(s *store.Stats) float64 { return timestamp(s.LastErrorAt) }),
	gauge("connections_acquired", "Connections to Postgres in use.", func(s *store.Stats) float64 { return float64(s.Pool.Acquired) }),
	gauge("connections_idle", "Connections to Postgres not in use.", func(s *store.Stats) float64 { return float64(s.Pool.Idle) }),
	gauge("connections_max", "Connections to Postgres that there may be.", func(s *store.Stats) float64 { return float64(s.Pool.Max) }),
	counter("connection_waits", "Times that a connection had to be waited for.", func(s *store.Stats) float64 { return float64(s.Pool.Waits) }),
	counter("connection_wait_seconds", "Time spent acquiring connections.", func(s *store.Stats) float64 { return s.Pool.WaitDuration.Seconds() }),
	counter("partitions_added", "Partitions that this server added.", func(s *store.Stats) float64 { return float64(s.PartitionsAdded) }),
	gauge("partitions_until_timestamp_seconds", "The day from which on only the default partitions catch detail; 0: there are no others.", func(s *store.Stats) float64 { return timestamp(s.PartitionsUntil) }),
	counter("partitions_dropped", "Partitions of detail that this server dropped, by retention.", func(s *store.Stats) float64 { return float64(s.PartitionsDropped) }),
	counter("trees_deleted", "Trees that this server deleted, by retention or on request.", func(s *store.Stats) float64 { return float64(s.TreesDeleted) }),
	counter("runs_interrupted", "Silent runs that this server marked INTERRUPTED.", func(s *store.Stats) float64 { return float64(s.RunsInterrupted) }),
	counter("upkeep_failures", "Rounds of upkeep that failed.", func(s *store.Stats) float64 { return float64(s.UpkeepFailures) }),
}

var batchSeconds = prometheus.NewDesc("actlog_store_batch_duration_seconds", "How long committed transactions took.", nil, nil)

// Describe implements [prometheus.Collector].
func (storeCollector) Describe(ch chan<- *prometheus.Desc) {
	for i := range storeMetrics {
		ch <- storeMetrics[i].desc
	}
	ch <- batchSeconds
}

// Collect implements [prometheus.Collector].
func (c storeCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.store.Stats()
	for i := range storeMetrics {
		m := &storeMetrics[i]
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&st))
	}
	h := &st.BatchSeconds
	buckets := make(map[float64]uint64, len(h.Bounds))
	var upTo uint64
	for i, bound := range h.Bounds {
		upTo += h.Counts[i]
		buckets[bound] = upTo
	}
	ch <- prometheus.MustNewConstHistogram(batchSeconds, h.Count, h.Sum, buckets)
}
