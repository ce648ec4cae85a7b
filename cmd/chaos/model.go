//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// modelCallsAtOnce is the limit of the model, over all workers. With fewer, runs of a killed worker would have to wait
// for their turn, and not go on in time.
const modelCallsAtOnce = 8

// An outage of the model is as long as it takes until its runs let go of it, or shorter.
const (
	modelAwayMin = time.Second
	modelAwayMax = 6 * time.Second
)

// patience is how long runs wait for the model: within an outage, they use up their tries and park.
var patience = object{
	"retry": object{"tries": 3, "from": "300ms", "most": "1s"}, "probe": object{"from": "500ms", "most": "2s"},
}

// modelGate is before the scripted model. It notes the calls, and refuses all of them during an outage.
type modelGate struct {
	mu      sync.Mutex
	backAt  time.Time // after the last outage
	refused int
	calls   []modelCall
}

// modelCall is a call that was answered, until the first byte of its answer: when its end is noted here, the worker may
// have made another one. Of a call that a worker broke off nobody knows when that was, so it is none.
type modelCall struct {
	worker          string // with the word Bearer
	began, answered time.Time
}

func (c modelCall) String() string {
	return fmt.Sprintf("%s %s+%s", strings.TrimPrefix(c.worker, "Bearer "), c.began.Format("15:04:05.000"),
		c.answered.Sub(c.began).Round(time.Millisecond))
}

// workerVariable is the environment variable by which the configuration names the worker to the model, as its API key.
const workerVariable = "ACTLOG_CHAOS_WORKER"

func (g *modelGate) around(script http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		if g.isAway() {
			g.refuse(w)
			return
		}

		answer := sync.OnceFunc(func() {
			if r.Context().Err() == nil {
				g.note(modelCall{r.Header.Get("Authorization"), began, time.Now()})
			}
		})
		script.ServeHTTP(answering{w, answer}, r)
	})
}

// answering is a response whose first byte is noted.
type answering struct {
	http.ResponseWriter
	begins func()
}

func (a answering) Write(b []byte) (int, error) {
	a.begins()
	return a.ResponseWriter.Write(b)
}

func (a answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (g *modelGate) refuse(w http.ResponseWriter) {
	g.mu.Lock()
	g.refused++
	g.mu.Unlock()
	http.Error(w, `{"error": {"message": "The model is away."}}`, http.StatusServiceUnavailable)
}

func (g *modelGate) note(c modelCall) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, c)
}

// most returns the calls that there were at the same time, at most.
func (g *modelGate) most() (most []modelCall) {
	var open []modelCall
	for _, next := range slices.SortedFunc(slices.Values(g.calls), func(a, b modelCall) int {
		return a.began.Compare(b.began)
	}) {
		open = slices.DeleteFunc(open, func(c modelCall) bool { return !c.answered.After(next.began) })
		if open = append(open, next); len(open) > len(most) {
			most = slices.Clone(open)
		}
	}
	return most
}

func (g *modelGate) takeAway(length time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.backAt = time.Now().Add(length)
}

func (g *modelGate) isAway() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Before(g.backAt)
}

// modelAway takes the model away. Other faults come meanwhile.
func (h *house) modelAway(context.Context) (string, error) {
	length := h.server.between(modelAwayMin, modelAwayMax)
	h.gate.takeAway(length)
	return fmt.Sprintf("the model is away for %.1fs", length.Seconds()), nil
}

// checkModel checks that the limit of the model was kept.
func (h *house) checkModel(context.Context) ([][2]any, error) {
	g := h.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	most := g.most()
	if len(most) > modelCallsAtOnce {
		h.violated("the model had %d calls at once, and its limit is %d: %v", len(most), modelCallsAtOnce, most)
	}
	return [][2]any{
		{"model outages", fmt.Sprintf("%d, %d calls refused", h.faults["model"], g.refused)},
		{"most model calls", fmt.Sprintf("%d of %d at once", len(most), modelCallsAtOnce)},
	}, nil
}
