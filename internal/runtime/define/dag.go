package define

// Dag says what runs of graphs may use.
type Dag struct {
	// Agents are those that may carry out nodes. A planner chooses among them.
	Agents []string `json:"agents,omitempty"`
}

// DagDefinition is what a run of a graph pins when it starts, beside its models. It has no secrets.
type DagDefinition struct {
	Agents []Definition `json:"agents,omitempty"`
}

// Definition returns what a run pins. agent returns the definition of an agent.
func (d Dag) Definition(agent func(name string, change func(*Agent)) (Definition, bool)) (pinned DagDefinition) {
	for _, name := range d.Agents {
		if a, ok := agent(name, func(*Agent) {}); ok {
			pinned.Agents = append(pinned.Agents, a)
		}
	}
	return pinned
}
