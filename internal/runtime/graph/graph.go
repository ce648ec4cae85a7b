// Package graph has graphs of tasks that depend on each other, as a model plans them: their checks, and which tasks
// are ready. Pure functions.
package graph

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

const (
	// Artifact is the name of the artifact that has the graph of a run.
	Artifact = "graph"
	// Draft is the name of the runs that plan a graph and no more. Those that carry out a stored graph have the id
	// of its plan as their name, all others have none.
	Draft = "draft"
)

// What bounds a graph, in bytes but for its nodes. Longer names and texts are cut.
const (
	maxNodes = 200
	maxID    = 100
	maxName  = 300
	maxText  = 20_000
)

// Node is one task of a graph.
type Node struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	Provider     string   `json:"provider"`
	Model        string   `json:"model"`
	Agent        string   `json:"agent,omitempty"` // that carries the node out; empty: one answer of the model does
	Input        string   `json:"input_description"`
	Output       string   `json:"output_description"`
	Dependencies []string `json:"dependencies"`
}

// UnmarshalJSON reads a node. An agent may also be called agentName.
func (n *Node) UnmarshalJSON(text []byte) error {
	type plain Node
	in := struct {
		*plain
		AgentName string `json:"agentName"`
	}{plain: (*plain)(n)}
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	n.Agent = cmp.Or(n.Agent, in.AgentName)
	return nil
}

// Edge says that a node needs the result of another one.
type Edge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Graph is a plan of tasks. Its edges say the same as the dependencies.
type Graph struct {
	Prompt string `json:"user_prompt"` // the task that was planned
	Title  string `json:"title"`
	Nodes  []Node `json:"nodes"`
	Edges  []Edge `json:"edges"`

	at    map[string]int // the nodes by their ids
	order []int          // the nodes, each behind those that it needs
}

// Read reads a graph, and checks its ids and that it has no cycle. The error names what is at fault.
func Read(text []byte) (*Graph, error) {
	g := &Graph{at: map[string]int{}}
	if err := json.Unmarshal(text, g); err != nil {
		return nil, err
	}
	if len(g.Nodes) == 0 || len(g.Nodes) > maxNodes {
		return nil, fmt.Errorf("nodes: there are %d, and must be 1 to %d", len(g.Nodes), maxNodes)
	}

	cut := map[*string]int{&g.Title: maxName}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if _, double := g.at[n.ID]; double || n.ID == "" || len(n.ID) > maxID ||
			strings.ContainsFunc(n.ID, func(r rune) bool {
				return r < ' '
			}) {
			return nil, fmt.Errorf("nodes[%d].id: %.*q must be of no other node, and 1 to %d bytes without control characters",
				i, maxID, n.ID, maxID)
		}

		g.at[n.ID] = i
		if n.Name == "" {
			n.Name = n.ID
		}

		for _, name := range []*string{&n.Name, &n.Provider, &n.Model, &n.Agent} {
			cut[name] = maxName
		}
		for _, text := range []*string{&n.Description, &n.Input, &n.Output} {
			cut[text] = maxText
		}
	}

	for text, most := range cut {
		*text = tool.Cut(strings.ReplaceAll(*text, "\x00", ""), most)
	}
	return g, g.link()
}

// link makes each edge a dependency of the node that it leads to, and each dependency an edge. The error says
// that one is of no node, or that there is a cycle.
func (g *Graph) link() error {
	for i, e := range g.Edges {
		to, ok := g.at[e.To]
		if !ok {
			return fmt.Errorf("edges[%d].to: no node has the id %.*q", i, maxID, e.To)
		}
		g.Nodes[to].Dependencies = append(g.Nodes[to].Dependencies, e.From)
	}

	g.Edges = []Edge{}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		given := n.Dependencies
		n.Dependencies = []string{}

		for _, id := range given {
			if _, ok := g.at[id]; !ok {
				return fmt.Errorf("nodes[%d].dependencies: no node has the id %.*q", i, maxID, id)
			}
			if !slices.Contains(n.Dependencies, id) {
				n.Dependencies, g.Edges = append(n.Dependencies, id), append(g.Edges, Edge{id, n.ID})
			}
		}
	}

	done := map[string]bool{}
	for len(done) < len(g.Nodes) {
		wave := g.Ready(done, done)
		if len(wave) == 0 {
			return errors.New("nodes: the dependencies have a cycle")
		}
		for _, i := range wave {
			done[g.Nodes[i].ID] = true
		}
		g.order = append(g.order, wave...)
	}
	return nil
}

// Find returns the node of an id, which is one of the graph.
func (g *Graph) Find(id string) *Node { return &g.Nodes[g.at[id]] }

// Ready returns the nodes that have not begun and whose dependencies are all completed, in order.
func (g *Graph) Ready(begun, completed map[string]bool) (wave []int) {
	for i, n := range g.Nodes {
		waits := slices.ContainsFunc(n.Dependencies, func(id string) bool { return !completed[id] })
		if !begun[n.ID] && !waits {
			wave = append(wave, i)
		}
	}
	return wave
}

// Below returns how many nodes need the result of a node, directly or through others.
func (g *Graph) Below(id string) int {
	reached := map[string]bool{id: true}
	for _, at := range g.order {
		n := g.Nodes[at]
		if slices.ContainsFunc(n.Dependencies, func(id string) bool { return reached[id] }) {
			reached[n.ID] = true
		}
	}
	return len(reached) - 1
}
