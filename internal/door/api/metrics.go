package api

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/actlog/actlog/internal/door/live"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
)

// stats is what the metrics show of the record.
type stats struct {
	store.Stats
	upkeep upkeep.Stats
	live   live.Stats
}

// Metrics collects what the store, its upkeep and the streams report of themselves.
// docs/operations.md explains each metric.
func Metrics(
	s interface{ Stats() store.Stats }, u interface{ Stats() upkeep.Stats }, h interface{ Stats() live.Stats },
) prometheus.Collector {
	return collector{func() *stats { return &stats{s.Stats(), u.Stats(), h.Stats()} }}
}

type collector struct{ stats func() *stats }

func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	collectWrites(ch, s)
	collectConnections(ch, s)
	collectUpkeep(ch, s)
	collectStreams(ch, s)
}

// figure is what a metric may show.
type figure interface {
	~int | ~int64 | ~uint64 | ~float64
}

func gauge[F figure](ch chan<- prometheus.Metric, name, help string, value F) {
	desc := prometheus.NewDesc("actlog_"+name, help, nil, nil)
	ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value))
}

func counter[F figure](ch chan<- prometheus.Metric, name, help string, value F) {
	desc := prometheus.NewDesc("actlog_"+name+"_total", help, nil, nil)
	ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value))
}

// timestamp returns seconds since 1970, and 0 for never.
func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func collectWrites(ch chan<- prometheus.Metric, s *stats) {
	gauge(ch, "store_queue_rows", "Rows that wait to be written, or are being written.", s.QueueRows)
	gauge(ch, "store_queue_bytes", "Their bytes, as estimated.", s.QueueBytes)
	gauge(ch, "store_queue_waiting", "Writes that wait for room in the queue.", s.QueueWaiting)
	counter(ch, "store_batches", "Transactions that were committed.", s.Batches)
	counter(ch, "store_rows", "Rows in them, changed or not.", s.Rows)
	counter(ch, "store_folded", "Changes that met another one to the same row in their transaction.", s.Folded)
	counter(ch, "store_retries", "Transactions that were tried again.", s.Retries)
	counter(ch, "store_refused", "Records that were answered with a rejection.", s.Refused)

	counter(ch, "store_given_up",
		"Records that were answered with an error, because Postgres was away for too long.", s.GivenUp)
	gauge(ch, "store_last_error_timestamp_seconds", "When a transaction last failed; 0: never.", timestamp(s.LastErrorAt))

	h := &s.BatchSeconds
	buckets := make(map[float64]uint64, len(h.Bounds))
	var upTo uint64
	for i, bound := range h.Bounds {
		upTo += h.Counts[i]
		buckets[bound] = upTo
	}
	desc := prometheus.NewDesc("actlog_store_batch_duration_seconds", "How long committed transactions took.", nil, nil)
	ch <- prometheus.MustNewConstHistogram(desc, h.Count, h.Sum, buckets)
}

func collectConnections(ch chan<- prometheus.Metric, s *stats) {
	used := 0
	if s.Replica.Used {
		used = 1
	}

	gauge(ch, "store_connections_acquired", "Connections to Postgres in use.", s.Pool.Acquired)
	gauge(ch, "store_connections_idle", "Connections to Postgres not in use.", s.Pool.Idle)
	gauge(ch, "store_connections_max", "Connections to Postgres that there may be.", s.Pool.Max)
	counter(ch, "store_connection_waits", "Times that a connection had to be waited for.", s.Pool.Waits)
	counter(ch, "store_connection_wait_seconds", "Time spent acquiring connections.", s.Pool.WaitDuration.Seconds())
	gauge(ch, "store_replica_used", "1 if reads are made at the replica.", used)
	gauge(ch, "store_replica_lag_seconds",
		"How far the replica was behind at most, at the last look.", s.Replica.Lag.Seconds())

	counter(ch, "store_replica_reads", "Reads that were made at the replica.", s.Replica.Reads)
	counter(ch, "store_replica_passed", "Reads that were made at the primary instead.", s.Replica.Passed)
}

func collectUpkeep(ch chan<- prometheus.Metric, s *stats) {
	counter(ch, "store_partitions_added", "Partitions that this server added.", s.upkeep.PartitionsAdded)
	gauge(ch, "store_partitions_until_timestamp_seconds",
		"The day from which on only the default partitions catch detail; 0: there are no "+
			"others.", timestamp(s.upkeep.PartitionsUntil))
	counter(ch, "store_partitions_dropped",
		"Partitions of detail that this server dropped, by retention.", s.upkeep.PartitionsDropped)
	counter(ch, "store_trees_deleted", "Trees that this server deleted, by retention or on request.", s.TreesDeleted)
	counter(ch, "store_runs_interrupted", "Silent runs that this server marked INTERRUPTED.", s.upkeep.RunsInterrupted)

	counter(ch, "otlp_traces_without_agent",
		"Times that the spans of a trace, all that came so far, said nothing of an agent.", s.TracesWithoutRows)
	counter(ch, "store_upkeep_failures", "Rounds of upkeep that failed.", s.upkeep.Failures+s.TraceFailures)
}

func collectStreams(ch chan<- prometheus.Metric, s *stats) {
	gauge(ch, "live_streams", "Streams of events that are open.", s.live.Streams)
	counter(ch, "live_events", "Events that were given to clients.", s.live.Events)
	counter(ch, "live_cut", "Streams that were cut because their clients read too slowly.", s.live.Cut)
	gauge(ch, "live_feed_lag_seconds",
		"How old the oldest change was that the last read of the feed found, or since when there was no "+
			"read; 0 without streams.", s.live.Lag.Seconds())
	gauge(ch, "live_feed_gaps",
		"Changes that are waited for because their transactions may not have committed; 0 without streams.", s.live.Gaps)
}
