package receive

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/recent"
	"github.com/actlog/actlog/internal/trace/otlp"
)

// The reasons that are not those of a span or a log record.
const (
	metricsDropped otlp.Reason = "metrics"
	noPlan         otlp.Reason = "no_plan"
)

// reasons explains why something makes no row, most urgent first.
var reasons = []struct {
	reason otlp.Reason
	says   string
}{
	{
		otlp.NotUnderstood, "Spans that look like an agent's, but follow no convention that is known here. They are " +
			"kept, and what they did is not shown.",
	},
	{
		otlp.Rejected, "Spans that cannot be kept: without a trace id or a span id, or of a trace that the database refuses.",
	},
	{
		noPlan, "How often spans arrived for a trace in which there was no agent, model call or tool call so far. Such a " +
			"trace has no plan.",
	},
	{otlp.NoSpan, "Log records that name no trace and span, so they belong to no run. They are dropped."},
	{metricsDropped, "Exports of metrics. They are dropped."},
	{
		otlp.NoRow, "Spans that are understood, and have no row of their own: they group others, name the plan, or are " +
			"retrievals, embeddings and the like.",
	},
	{otlp.Unrelated, "Spans of HTTP requests, databases and the like. They only connect the spans above and below them."},
}

const (
	// maxRowless bounds the kinds that are remembered, and half of it those that are forgotten at
	// once.
	maxRowless = 512
	// maxWarned bounds the lines in the log: a client can make up kinds.
	maxWarned = 100
)

// rowless counts what came in and made no row, since the server started.
type rowless struct {
	log   *slog.Logger
	since time.Time
	total *prometheus.CounterVec

	mu     sync.Mutex
	kinds  recent.Map[otlp.Rowless, *kindSeen]
	added  int // kinds, those that were forgotten and came again twice
	warned int
}

type kindSeen struct {
	otlp.Example
	last time.Time
}

func newRowless(log *slog.Logger) *rowless {
	r := &rowless{
		log: log, since: time.Now(),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "actlog_otlp_without_row_total",
			Help: "Spans, log records that name no span, and exports of metrics that made no row of their own, by reason.",
		}, []string{"reason"}),
	}

	r.kinds.Half = maxRowless / 2
	for _, why := range reasons {
		if why.reason != noPlan { // the store counts those
			r.total.WithLabelValues(string(why.reason))
		}
	}
	return r
}

// add counts what an export had. It logs each kind of spans that look like an agent's once.
func (r *rowless) add(t otlp.Tally) {
	if len(t) == 0 {
		return
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	for kind, e := range t {
		r.total.WithLabelValues(string(kind.Reason)).Add(float64(e.Count))
		seen, ok := r.kinds.Get(kind)
		if !ok {
			seen = &kindSeen{Example: otlp.Example{Attributes: e.Attributes}}
			r.kinds.Set(kind, seen)
			r.added++
			if kind.Reason == otlp.NotUnderstood && r.warned < maxWarned {
				r.warned++
				r.log.Warn("spans that look like an agent's are not understood", "scope", kind.Scope, "kind", kind.Kind, "list",
					otlp.RowlessPath)
			}
		}

		seen.Count, seen.last = seen.Count+e.Count, time.Now()
	}
}

// count counts what is not told apart any further.
func (r *rowless) count(reason otlp.Reason, n int) {
	r.add(otlp.Tally{{Reason: reason}: &otlp.Example{Count: n}})
}

// Unknown is the answer that lists what was sent over OTLP and is not shown.
type Unknown struct {
	Since     time.Time     `json:"since"`
	Forgotten int           `json:"forgotten"`
	Items     []UnknownItem `json:"items"`
}

// UnknownItem is a kind of spans, of log records, or what else is not shown.
type UnknownItem struct {
	Reason        otlp.Reason `json:"reason"`
	Explanation   string      `json:"explanation"`
	Count         int         `json:"count"`
	Scope         *string     `json:"scope"`
	KindAttribute *string     `json:"kindAttribute"`
	Kind          *string     `json:"kind"`
	Attributes    []string    `json:"attributes"`
	LastSeen      *time.Time  `json:"lastSeen"`
}

// list returns what is known, the most urgent reasons first, of each the most frequent kind first.
func (r *rowless) list(withoutPlan int) Unknown {
	r.mu.Lock()
	defer r.mu.Unlock()

	all := r.kinds.All()
	u := Unknown{Since: r.since.UTC(), Forgotten: r.added - len(all), Items: []UnknownItem{}}
	for _, why := range reasons {
		if why.reason == noPlan && withoutPlan > 0 {
			u.Items = append(u.Items, UnknownItem{
				Reason: noPlan, Explanation: why.says, Count: withoutPlan, Attributes: []string{},
			})
		}

		kinds := slices.DeleteFunc(slices.Collect(maps.Keys(all)), func(k otlp.Rowless) bool {
			return k.Reason != why.reason
		})
		slices.SortFunc(kinds, func(a, b otlp.Rowless) int {
			return cmp.Or(cmp.Compare(all[b].Count, all[a].Count), strings.Compare(a.Scope, b.Scope),
				strings.Compare(a.Attribute, b.Attribute), strings.Compare(a.Kind, b.Kind))
		})

		for _, k := range kinds {
			seen := all[k]
			u.Items = append(u.Items, UnknownItem{
				Reason: k.Reason, Explanation: why.says, Count: seen.Count,
				Scope: optional.Pointer(k.Scope), KindAttribute: optional.Pointer(k.Attribute), Kind: optional.Pointer(k.Kind),
				Attributes: append([]string{}, seen.Attributes...), LastSeen: new(seen.last.UTC()),
			})
		}
	}
	return u
}
