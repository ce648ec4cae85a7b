package config

// Runs bounds all runs.
type Runs struct {
	// MaxTakeovers is how many workers in a row a run may lose, killed or cut off, without a result put on record in
	// between. Then it is FAILED. 0: the default, 5.
	MaxTakeovers int `json:"maxTakeovers,omitempty"`
	// MaxPerOwner is how many root runs of one owner go on at once. 0 means no limit.
	MaxPerOwner int `json:"maxPerOwner,omitempty"`
	// MaxPerKey is how many root runs of a project with the same concurrency key go on at once. 0: the default, 1.
	MaxPerKey int `json:"maxPerKey,omitempty"`
}

const (
	maxTakeovers = 1000
	maxRuns      = 1_000_000
)

func readRuns(n node) (r Runs) {
	n.object(fields{
		"maxTakeovers": func(n node) { r.MaxTakeovers = int(n.positive(maxTakeovers)) },
		"maxPerOwner":  func(n node) { r.MaxPerOwner = int(n.positive(maxRuns)) },
		"maxPerKey":    func(n node) { r.MaxPerKey = int(n.positive(maxRuns)) },
	})
	return r
}

// Project is what holds for the runs of a project.
type Project struct {
	// MaxRuns is how many root runs go on at once. 0 means no limit.
	MaxRuns int `json:"maxRuns,omitempty"`
	// BudgetUSDPerDay is how many US dollars they may cost on a day of UTC before new ones wait. 0 means no limit.
	BudgetUSDPerDay float64 `json:"budgetUsdPerDay,omitempty"`
}

func readProject(n node) (p Project) {
	n.object(fields{
		"maxRuns":         func(n node) { p.MaxRuns = int(n.positive(maxRuns)) },
		"budgetUsdPerDay": func(n node) { p.BudgetUSDPerDay = n.amount() },
	})
	return p
}
