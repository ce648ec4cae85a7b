package wire

import (
	"math"

	"github.com/actlog/actlog/internal/record/tree"
)

// Figures is sums over model and tool calls.
type Figures = tree.Figures

// FiguresOf returns figures as answers show them.
func FiguresOf(f *tree.Figures) Figures {
	out := *f
	out.CostUSD = nil
	if f.CostUSD != nil { // sums of doubles: show dollars, not rounding
		if cost := math.Round(*f.CostUSD*1e12) / 1e12; !math.IsNaN(cost) && !math.IsInf(cost, 0) {
			out.CostUSD = &cost
		}
	}
	return out
}
