package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// metrics counts what an engine does. Labels hold the names of executors, models and tools, which the
// program, its configuration and its MCP servers choose; none holds what a model or a client makes up.
// docs/operations.md explains each.
type metrics struct {
	all []prometheus.Collector

	claims, ended, parked  *prometheus.CounterVec
	takeovers, leasesLost  prometheus.Counter
	writes, grantRounds    prometheus.Counter
	carried                prometheus.Gauge
	budgetUsed             *prometheus.GaugeVec
	modelTime, toolTime    *prometheus.HistogramVec
	modelErrors, toolFails *prometheus.CounterVec
	fallbacks              *prometheus.CounterVec
}

// callSeconds are the bounds of how long models and tools take.
var callSeconds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120}

func newMetrics() *metrics {
	m := &metrics{}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "actlog_" + name + "_total", Help: help}, labels)
		m.all = append(m.all, c)
		return c
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "actlog_" + name + "_duration_seconds", Help: help, Buckets: callSeconds,
		}, labels)
		m.all = append(m.all, h)
		return h
	}

	m.claims = counter("run_claims", "Runs that workers of this process claimed.", "executor")
	m.takeovers = counter("run_takeovers",
		"Runs that workers of this process took over because their workers were dead.").WithLabelValues()
	m.parked = counter("run_parked", "Times that a run was let go of until something happens.", "executor", "state")
	m.ended = counter("run_ended", "Runs that ended.", "executor", "state")
	m.writes = counter("run_writes", "Transactions in which runs were put on record.").WithLabelValues()

	m.grantRounds = counter("limit_rounds",
		"Times that a worker asked for its parts of the limits of models and tools.").WithLabelValues()
	m.leasesLost = counter("worker_leases_lost",
		"Times that a worker lost its lease and dropped its runs.").WithLabelValues()

	m.modelTime = histogram("model_call", "How long calls of models took, failed ones too.", "model")
	m.modelErrors = counter("model_errors", "Calls of models that failed.", "model", "kind")
	m.fallbacks = counter("model_fallbacks", "Answers of models in place of others.", "model", "by")
	m.toolTime = histogram("tool_call", "How long calls of tools took, failed ones too.", "tool")
	m.toolFails = counter("tool_errors", "Calls of tools that failed.", "tool")

	m.carried = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "actlog_runs_carried", Help: "Runs that workers of this process hold.",
	})
	m.budgetUsed = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "actlog_budget_used_ratio",
		Help: "What the runs of a project spent today, divided by its budget; 1 and more: its next runs wait.",
	}, []string{"project"})
	m.all = append(m.all, m.carried, m.budgetUsed)
	return m
}

// asked counts a call of a model. An error that is none of the model is not counted.
func (m *metrics) asked(name string, took time.Duration, err error) {
	m.modelTime.WithLabelValues(name).Observe(took.Seconds())
	if known := new(model.Error); errors.As(err, &known) {
		m.modelErrors.WithLabelValues(name, string(known.Kind)).Inc()
	}
}

func (m *metrics) called(name string, took time.Duration, failed bool) {
	m.toolTime.WithLabelValues(name).Observe(took.Seconds())
	if failed {
		m.toolFails.WithLabelValues(name).Inc()
	}
}

// openRuns counts the open runs of the database when it is asked.
type openRuns struct {
	store *runstore.Store
	log   *slog.Logger
}

var openRunsDesc = prometheus.NewDesc("actlog_runs_open",
	"Runs in the database that have not ended; the same in all processes; none while Postgres does not answer.",
	[]string{"executor", "state"}, nil)

// metricPatience is how long a look at the database may take.
const metricPatience = 2 * time.Second

// Describe implements [prometheus.Collector].
func (openRuns) Describe(ch chan<- *prometheus.Desc) { ch <- openRunsDesc }

// Collect implements [prometheus.Collector].
func (o openRuns) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), metricPatience)
	defer cancel()
	open, err := o.store.OpenRuns(ctx)
	if err != nil {
		o.log.Debug("the open runs could not be counted", "error", err)
		return
	}

	for _, r := range open {
		ch <- prometheus.MustNewConstMetric(openRunsDesc, prometheus.GaugeValue, float64(r.Runs), r.Executor, string(r.State))
	}
}

// awayModels are the models that are away, as the database has it when it is asked.
type awayModels struct {
	store *runstore.Store
	log   *slog.Logger
}

var awayModelsDesc = prometheus.NewDesc("actlog_model_away",
	"1 for each model that does not answer, so that runs wait for it; the same in all processes.", []string{"model"}, nil)

// Describe implements [prometheus.Collector].
func (awayModels) Describe(ch chan<- *prometheus.Desc) { ch <- awayModelsDesc }

// Collect implements [prometheus.Collector].
func (a awayModels) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), metricPatience)
	defer cancel()
	away, err := a.store.AwayModels(ctx)
	if err != nil {
		a.log.Debug("the models that are away could not be read", "error", err)
		return
	}

	for _, m := range away {
		ch <- prometheus.MustNewConstMetric(awayModelsDesc, prometheus.GaugeValue, 1, m.Model)
	}
}
