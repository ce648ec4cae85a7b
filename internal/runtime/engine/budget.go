package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// budgets is what a worker knows of what projects spent today.
type budgets struct {
	log     *slog.Logger
	used    *prometheus.GaugeVec // by project
	counted time.Time            // when the worker last counted

	mu     sync.Mutex
	spent  map[string]float64 // by project, in US dollars; none of those that it has not asked for yet
	closed map[string]bool    // whether that was as much as the budget
}

// Each worker counts what was spent about once each budgetEvery, or spentEvery if no project has a budget.
const (
	budgetEvery = time.Second
	spentEvery  = time.Minute
)

// within returns how many root runs go on at once. Of a project that has spent its budget no other run begins. Nor does
// one before it is known what the project has spent.
func (b *budgets) within(c define.Concurrency) runstore.Most {
	m := mostOf(c)
	b.mu.Lock()
	defer b.mu.Unlock()
	for project, budget := range c.Budgets {
		if spent, known := b.spent[project]; !known || spent >= budget {
			m.Places[runstore.BudgetPlace(project)] = 0
		}
	}
	return m
}

// count counts what was spent, if it is time for that. It reports whether other runs may begin than before.
func (b *budgets) count(ctx context.Context, s *runstore.Store, amounts map[string]float64) (changed bool, err error) {
	if len(amounts) == 0 && time.Since(b.counted) < spentEvery {
		return false, nil
	}
	spent, err := s.Spent(ctx, amounts)
	if err != nil {
		return false, err
	}

	b.counted = time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for project := range b.spent {
		if _, kept := amounts[project]; !kept {
			b.used.DeleteLabelValues(project)
		}
	}

	closed := map[string]bool{}
	for project, budget := range amounts {
		b.used.WithLabelValues(project).Set(spent[project] / budget)
		closed[project] = spent[project] >= budget
		if was, known := b.closed[project]; known && was == closed[project] {
			continue
		}

		if changed = true; closed[project] {
			b.log.Warn("a project has spent its budget of today; its next runs wait until tomorrow, or until it is raised",
				"project", project, "spent", spent[project], "budget", budget)
		}
	}
	b.spent, b.closed = spent, closed
	return changed, nil
}
