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

// metric is one figure.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*stats) float64
}

func gauge(name, help string, value func(*stats) float64) metric {
	return metric{prometheus.NewDesc("actlog_"+name, help, nil, nil), prometheus.GaugeValue, value}
}

func counter(name, help string, value func(*stats) float64) metric {
	return metric{prometheus.NewDesc("actlog_"+name+"_total", help, nil, nil), prometheus.CounterValue, value}
}

// timestamp returns seconds since 1970, and 0 for never.
func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

var figures = []metric{
	gauge("store_queue_rows", "Rows that wait to be written, or are being written.", func(s *stats) float64 {
		return float64(s.QueueRows)
	}),
	gauge("store_queue_bytes", "Their bytes, as estimated.", func(s *stats) float64 { return float64(s.QueueBytes) }),
	gauge("store_queue_waiting", "Writes that wait for room in the queue.", func(s *stats) float64 {
		return float64(s.QueueWaiting)
	}),
	counter("store_batches", "Transactions that were committed.", func(s *stats) float64 { return float64(s.Batches) }),
	counter("store_rows", "Rows in them, changed or not.", func(s *stats) float64 { return float64(s.Rows) }),
	counter("store_folded", "Changes that met another one to the same row in their transaction.", func(s *stats) float64 {
		return float64(s.Folded)
	}),
	counter("store_retries", "Transactions that were tried again.", func(s *stats) float64 { return float64(s.Retries) }),
	counter("store_refused", "Records that were answered with a rejection.", func(s *stats) float64 {
		return float64(s.Refused)
	}),
	counter("store_given_up", "Records that were answered with an error, because Postgres was away for too long.",
		func(s *stats) float64 {
			return float64(s.GivenUp)
		}),
	gauge("store_last_error_timestamp_seconds", "When a transaction last failed; 0: never.", func(s *stats) float64 {
		return timestamp(s.LastErrorAt)
	}),
	gauge("store_connections_acquired", "Connections to Postgres in use.", func(s *stats) float64 {
		return float64(s.Pool.Acquired)
	}),
	gauge("store_connections_idle", "Connections to Postgres not in use.", func(s *stats) float64 {
		return float64(s.Pool.Idle)
	}),
	gauge("store_connections_max", "Connections to Postgres that there may be.", func(s *stats) float64 {
		return float64(s.Pool.Max)
	}),
	counter("store_connection_waits", "Times that a connection had to be waited for.", func(s *stats) float64 {
		return float64(s.Pool.Waits)
	}),
	counter("store_connection_wait_seconds", "Time spent acquiring connections.", func(s *stats) float64 {
		return s.Pool.WaitDuration.Seconds()
	}),
	gauge("store_replica_used", "1 if reads are made at the replica.", func(s *stats) float64 {
		if s.Replica.Used {
			return 1
		}
		return 0
	}),
	gauge("store_replica_lag_seconds", "How far the replica was behind at most, at the last look.",
		func(s *stats) float64 {
			return s.Replica.Lag.Seconds()
		}),
	counter("store_replica_reads", "Reads that were made at the replica.", func(s *stats) float64 {
		return float64(s.Replica.Reads)
	}),
	counter("store_replica_passed", "Reads that were made at the primary instead.", func(s *stats) float64 {
		return float64(s.Replica.Passed)
	}),
	counter("store_partitions_added", "Partitions that this server added.", func(s *stats) float64 {
		return float64(s.upkeep.PartitionsAdded)
	}),
	gauge("store_partitions_until_timestamp_seconds",
		"The day from which on only the default partitions catch detail; 0: there are no others.", func(s *stats) float64 {
			return timestamp(s.upkeep.PartitionsUntil)
		}),
	counter("store_partitions_dropped", "Partitions of detail that this server dropped, by retention.",
		func(s *stats) float64 {
			return float64(s.upkeep.PartitionsDropped)
		}),
	counter("store_trees_deleted", "Trees that this server deleted, by retention or on request.", func(s *stats) float64 {
		return float64(s.TreesDeleted)
	}),
	counter("store_runs_interrupted", "Silent runs that this server marked INTERRUPTED.", func(s *stats) float64 {
		return float64(s.upkeep.RunsInterrupted)
	}),
	counter("otlp_traces_without_agent",
		"Times that the spans of a trace, all that came so far, said nothing of an agent.", func(s *stats) float64 {
			return float64(s.TracesWithoutRows)
		}),
	gauge("live_streams", "Streams of events that are open.", func(s *stats) float64 { return float64(s.live.Streams) }),
	counter("live_events", "Events that were given to clients.", func(s *stats) float64 { return float64(s.live.Events) }),
	counter("live_cut", "Streams that were cut because their clients read too slowly.", func(s *stats) float64 {
		return float64(s.live.Cut)
	}),
	gauge("live_feed_lag_seconds",
		"How old the oldest change was that the last read of the feed found, or since when there was no read; 0 without "+
			"streams.", func(s *stats) float64 {
			return s.live.Lag.Seconds()
		}),
	gauge("live_feed_gaps", "Changes that are waited for because their transactions may not have committed; 0 without "+
		"streams.", func(s *stats) float64 {
		return float64(s.live.Gaps)
	}),
	counter("store_upkeep_failures", "Rounds of upkeep that failed.", func(s *stats) float64 {
		return float64(s.upkeep.Failures + s.TraceFailures)
	}),
}

var batchSeconds = prometheus.NewDesc("actlog_store_batch_duration_seconds", "How long committed transactions took.",
	nil, nil)

// Describe implements [prometheus.Collector].
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for i := range figures {
		ch <- figures[i].desc
	}
	ch <- batchSeconds
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(ch chan<- prometheus.Metric) {
	st := c.stats()
	for i := range figures {
		m := &figures[i]
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(st))
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
