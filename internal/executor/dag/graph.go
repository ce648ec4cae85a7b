package dag

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxNodes bounds a graph.
const maxNodes = 200

// node is one task of a graph.
type node struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	Provider     string   `json:"provider"`
	Model        string   `json:"model"`
	Input        string   `json:"input_description"`
	Output       string   `json:"output_description"`
	Dependencies []string `json:"dependencies"`
}

type edge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// graph is a plan as its planner wrote it.
type graph struct {
	Title string `json:"title"`
	Nodes []node `json:"nodes"`
	Edges []edge `json:"edges"`
}

// parse reads a graph from the answer of a planner, which may stand in a fence. An edge is a dependency of
// the node that it leads to.
func parse(answer string) (g graph, err error) {
	text := strings.TrimSpace(answer)
	if inner, ok := strings.CutPrefix(text, "```"); ok {
		_, inner, _ = strings.Cut(inner, "\n")
		text = strings.TrimSuffix(strings.TrimSpace(inner), "```")
	}
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		return g, fmt.Errorf("Failed to parse planner response as JSON: %w", err) //nolint:staticcheck // the source's words
	}
	if err := g.check(); err != nil {
		return g, fmt.Errorf("Planning failed: %w", err) //nolint:staticcheck // the source's words
	}
	return g, nil
}

// check checks the ids of a graph and that it has no cycle, and adds its edges to the dependencies.
func (g *graph) check() error {
	if len(g.Nodes) == 0 || len(g.Nodes) > maxNodes {
		return fmt.Errorf("nodes: has %d, and must have 1 to %d", len(g.Nodes), maxNodes)
	}
	at := map[string]int{}
	for i, n := range g.Nodes {
		if _, double := at[n.ID]; double || n.ID == "" {
			return fmt.Errorf("nodes[%d].id: %q is empty or used twice", i, n.ID)
		}
		at[n.ID] = i
	}
	for i, e := range g.Edges {
		to, ok := at[e.To]
		if !ok {
			return fmt.Errorf("edges[%d].to: no node has the id %q", i, e.To)
		}
		if !slices.Contains(g.Nodes[to].Dependencies, e.From) {
			g.Nodes[to].Dependencies = append(g.Nodes[to].Dependencies, e.From)
		}
	}
	for i, n := range g.Nodes {
		for _, id := range n.Dependencies {
			if _, ok := at[id]; !ok {
				return fmt.Errorf("nodes[%d].dependencies: no node has the id %q", i, id)
			}
		}
	}
	done := map[string]bool{}
	for len(done) < len(g.Nodes) {
		wave := g.ready(done, done)
		if len(wave) == 0 {
			return errors.New("nodes: the dependencies have a cycle")
		}
		for _, i := range wave {
			done[g.Nodes[i].ID] = true
		}
	}
	return nil
}

// ready returns the nodes that have not been tried and whose dependencies are all completed, in order.
func (g *graph) ready(tried, completed map[string]bool) (wave []int) {
	for i, n := range g.Nodes {
		waits := slices.ContainsFunc(n.Dependencies, func(id string) bool { return !completed[id] })
		if !tried[n.ID] && !waits {
			wave = append(wave, i)
		}
	}
	return wave
}
