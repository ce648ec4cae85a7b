package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/graph"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

// The sizes of a drawing, in pixels.
const (
	nodeWidth  = 176
	nodeHeight = 44
	layerGap   = 44
	rowGap     = 14
	nodeChars  = 22 // of a name
)

// dagView is a graph of tasks as it is drawn: from left to right, each node behind those that it needs.
type dagView struct {
	width, height int
	title         string
	nodes         []nodeView
	edges         []string // as paths of SVG
}

type nodeView struct {
	x, y  int
	name  string
	state record.State
	took  string
	href  string // of its row; empty: it has not begun
	says  string // all of it, for those who do not see the drawing
}

// graph reads the graph that a run carries out, and draws it.
func (v *runView) graph(ctx context.Context, reader *store.Reader) error {
	p := &v.Plan.Record
	if optional.Value(p.Executor) != tree.GraphExecutor {
		return nil
	}

	row, err := reader.Row(ctx, record.Key{
		Kind: record.KindArtifact, Root: p.RootPlanID, Parent: p.CurrentPlanID, ID: graph.Artifact,
	})
	if errors.Is(err, record.ErrNotFound) {
		return nil // it is being planned, or somebody else's
	}
	if err != nil {
		return err
	}

	if g, err := graph.Read(row.(*record.Artifact).Value); err == nil { // else it is none
		v.dag = v.draw(g)
	}
	return nil
}

func (v *runView) draw(g *graph.Graph) *dagView {
	rows := make([]*outline.Row, len(g.Nodes))
	for _, s := range v.Plan.Steps {
		if at := optional.Value(s.Record.StepIndex); at > 0 && at <= int64(len(rows)) { // 0 is the planner
			if row, ok := v.Find(outline.At("step", s.Record.StepID)); ok {
				rows[at-1] = &v.Rows[row]
			}
		}
	}

	d, count := &dagView{nodes: make([]nodeView, len(g.Nodes))}, map[record.State]int{}
	for i, n := range g.Nodes {
		node := nodeView{name: words.Shorten(n.Name, nodeChars), state: record.Pending}
		if r := rows[i]; r != nil {
			node.state, node.took = r.Shown(), v.lasted(r)
			node.href = v.path(r)
		}

		var needs []string
		for _, id := range n.Dependencies {
			needs = append(needs, words.Shorten(g.Find(id).Name, 60))
		}
		node.says = words.Shorten(n.Name, 60) + ": " + strings.TrimSpace(stateWord(node.state)+" "+node.took) + ", needs " +
			cmp.Or(strings.Join(needs, ", "), "nothing")
		d.nodes[i] = node
		count[node.state]++
	}

	d.title = words.Plural(int64(len(d.nodes)), "node")
	for _, s := range record.States(record.KindAgentExecution) {
		if count[s] > 0 {
			d.title += fmt.Sprintf(", %d %s", count[s], stateWord(s))
		}
	}
	d.place(layersOf(g))
	return d
}

// spot is a place in a layer: a node, or where an edge passes.
type spot struct {
	node   int // -1: an edge passes
	behind []*spot
	y      float64 // the middle of the layer is 0
}

// layersOf puts each node of a graph behind those that it needs, and orders each layer by what it is behind. An edge
// that others imply has no place.
func layersOf(g *graph.Graph) (layers [][]*spot) {
	at := map[string]int{}
	for i := range g.Nodes {
		at[g.Nodes[i].ID] = i
	}

	depth, below := make([]int, len(g.Nodes)), make([]map[int]bool, len(g.Nodes)) // below is all that a node needs
	var visit func(i int)
	visit = func(i int) {
		if below[i] != nil {
			return
		}

		below[i] = map[int]bool{}
		for _, id := range g.Nodes[i].Dependencies {
			d := at[id]
			visit(d)
			depth[i] = max(depth[i], depth[d]+1)
			below[i][d] = true
			for each := range below[d] {
				below[i][each] = true
			}
		}
	}

	spots := make([]*spot, len(g.Nodes))
	for i := range g.Nodes {
		visit(i)
		spots[i] = &spot{node: i}
	}

	layers = make([][]*spot, slices.Max(depth)+1)
	passing := map[[2]int]*spot{} // the edges of a node through a layer are one
	for i, n := range g.Nodes {
		for _, id := range n.Dependencies {
			d := at[id]
			if slices.ContainsFunc(n.Dependencies, func(other string) bool { return below[at[other]][d] }) {
				continue
			}

			last := spots[d]
			for layer := depth[d] + 1; layer < depth[i]; layer++ {
				next := passing[[2]int{d, layer}]
				if next == nil {
					next = &spot{node: -1, behind: []*spot{last}}
					passing[[2]int{d, layer}] = next
					layers[layer] = append(layers[layer], next)
				}
				last = next
			}

			spots[i].behind = append(spots[i].behind, last)
		}

		layers[depth[i]] = append(layers[depth[i]], spots[i])
	}

	for _, layer := range layers {
		slices.SortStableFunc(layer, func(a, b *spot) int { return cmp.Compare(a.mean(), b.mean()) })
		for i, s := range layer {
			s.y = float64(i) - float64(len(layer)-1)/2
		}
	}
	return layers
}

// mean is the middle of what a spot is behind.
func (s *spot) mean() (y float64) {
	for _, b := range s.behind {
		y += b.y / float64(len(s.behind))
	}
	return y
}

func (d *dagView) place(layers [][]*spot) {
	most := 0
	for _, layer := range layers {
		most = max(most, len(layer))
	}

	d.width, d.height = len(layers)*(nodeWidth+layerGap)-layerGap+2, most*(nodeHeight+rowGap)-rowGap+2
	for i, layer := range layers {
		x := i*(nodeWidth+layerGap) + 1
		for _, s := range layer {
			middle := d.middle(s)
			if s.node < 0 {
				d.edges = append(d.edges, fmt.Sprintf("M%d %dh%d", x, middle, nodeWidth))
			} else {
				d.nodes[s.node].x, d.nodes[s.node].y = x, middle-nodeHeight/2
			}
			for _, b := range s.behind {
				from := d.middle(b)
				d.edges = append(d.edges, fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x-layerGap, from, x-layerGap/2, from,
					x-layerGap/2, middle, x, middle))
			}
		}
	}
}

func (d *dagView) middle(s *spot) int { return d.height/2 + int(s.y*(nodeHeight+rowGap)) }
