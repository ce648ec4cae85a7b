package engine

import (
	"context"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// watchModels looks which models are away, and lets runs ask whether they are back, until ctx ends.
func (e *Engine) watchModels(ctx context.Context) {
	for {
		if pg.Pause(ctx, modelScans*e.config.Scan) != nil {
			return
		}
		e.lookAtModels(ctx)
	}
}

// modelScans is how many times a worker looks for runs before it looks at its models again.
const modelScans = 4

// lookAtModels is one look.
func (e *Engine) lookAtModels(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, e.config.Lease)
	defer cancel()
	away, err := e.store.AwayModels(limited)
	if err == nil {
		e.models.set(away)
		err = e.store.Probe(limited, e.provides(), e.probes())
	}
	if err != nil && ctx.Err() == nil { // it looks again
		e.config.Logger.Debug("it is not known which models are away", "error", err)
	}
}

// probes returns how often the models of the worker are asked while they are away.
func (e *Engine) probes() (all []runstore.Probe) {
	parts, release := e.config.Parts()
	defer release()
	for _, name := range Provided(parts, "model") {
		if m, ok := parts.Model(name); ok {
			all = append(all, probeOf(name, m))
		}
	}
	return all
}

// probeOf returns how often a model is asked while it is away.
func probeOf(name string, m model.Model) runstore.Probe {
	b := model.PatienceWith(m).Probe
	return runstore.Probe{Model: name, From: b.From, Most: b.Most, Factor: b.Factor}
}
