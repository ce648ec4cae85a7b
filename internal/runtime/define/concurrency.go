package define

// Concurrency bounds how many root runs go on at once. What it does not name is not bounded.
type Concurrency struct {
	Agents, Projects map[string]int // by name
	PerOwner         int            // for each owner; 0: no bound
	PerKey           int            // for each concurrency key of a project; 0: the default, 1
	// Budgets are what projects may spend on a day of UTC, in US dollars, before no other run of them begins.
	Budgets map[string]float64
}
