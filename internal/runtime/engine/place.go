package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// The least and the greatest priority.
const (
	minPriority = 0
	maxPriority = 9
)

// checkPlace checks what decides when a run begins.
func checkPlace(r Request) error {
	if p := optional.Value(r.Priority); p < minPriority || p > maxPriority {
		return BadInput("priority", fmt.Sprintf("must be from %d to %d", minPriority, maxPriority))
	}
	return nil
}

func priorityOf(r Request) int {
	if r.Priority == nil {
		return runstore.DefaultPriority
	}
	return *r.Priority
}

// mostOf returns how many root runs go on at once, by their places.
func mostOf(c define.Concurrency) runstore.Most {
	m := runstore.Most{Places: map[string]int{}, PerOwner: c.PerOwner, PerKey: cmp.Or(c.PerKey, 1)}
	add := func(kind string, names map[string]int) {
		for name, most := range names {
			if most > 0 {
				m.Places[kind+":"+name] = most
			}
		}
	}

	add("agent", c.Agents)
	add("project", c.Projects)
	return m
}

// placesSeen is with what a worker last looked at all that waits for places, and when.
type placesSeen struct {
	most     runstore.Most
	provides []string
	at       time.Time
}

// placesEvery is how often each worker looks, also if nothing has changed for it: another one may have been lost.
const placesEvery = time.Minute

// look looks at all that waits for places, if the worker may see more of them than before, or can take more.
func (p *placesSeen) look(ctx context.Context, s *runstore.Store, provides []string, most runstore.Most) error {
	same := maps.Equal(most.Places, p.most.Places) && most.PerOwner == p.most.PerOwner && most.PerKey == p.most.PerKey &&
		slices.Equal(provides, p.provides)
	if same && time.Since(p.at) < placesEvery {
		return nil
	}

	err := s.LookAtPlaces(ctx)
	if err == nil {
		*p = placesSeen{most: most, provides: provides, at: time.Now()}
	}
	return err
}
