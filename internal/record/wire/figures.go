package wire

import (
	"math"

	"github.com/actlog/actlog/internal/record/tree"
)

// Figures is sums over model and tool calls.
type Figures struct {
	ModelCalls               int64    `json:"modelCalls"`
	ToolCalls                int64    `json:"toolCalls"`
	Failures                 int64    `json:"failures"`
	InputTokens              int64    `json:"inputTokens"`
	OutputTokens             int64    `json:"outputTokens"`
	CacheReadInputTokens     int64    `json:"cacheReadInputTokens"`
	CacheCreationInputTokens int64    `json:"cacheCreationInputTokens"`
	ReasoningTokens          int64    `json:"reasoningTokens"`
	CostUSD                  *float64 `json:"costUsd"`
	ThinkMs                  int64    `json:"thinkMs"`
	ToolMs                   int64    `json:"toolMs"`
	DurationMs               *int64   `json:"durationMs"`
}

// FiguresOf returns figures as answers show them.
func FiguresOf(f *tree.Figures) Figures {
	out := Figures{
		ModelCalls: f.ModelCalls, ToolCalls: f.ToolCalls, Failures: f.Failures, InputTokens: f.InputTokens,
		OutputTokens: f.OutputTokens, CacheReadInputTokens: f.CacheReadInputTokens,
		CacheCreationInputTokens: f.CacheCreationInputTokens,
		ReasoningTokens:          f.ReasoningTokens, ThinkMs: f.ThinkMs, ToolMs: f.ToolMs, DurationMs: f.DurationMs,
	}
	if f.CostUSD != nil { // sums of doubles: show dollars, not rounding
		if cost := math.Round(*f.CostUSD*1e12) / 1e12; !math.IsNaN(cost) && !math.IsInf(cost, 0) {
			out.CostUSD = &cost
		}
	}
	return out
}
