package search

import (
	"context"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

// Age lets the vectors in memory be as old as they can become there.
func (v *Vectors) Age() {
	for _, each := range v.kept {
		each.since = each.since.Add(-maxAge)
	}
}

// Fuse is fuse.
func Fuse(rankings ...[]int) []float64 { return fuse(rankings...) }

// Places is places, of parts with a score of at least least.
func Places(scores []float64, least float64) []int {
	return places(scores, func(score float64) bool { return score >= least })
}

// ByVectors is a search by vectors only, to measure what they are worth.
func (f *Folder) ByVectors(ctx context.Context, query string, documentation bool) (tool.Result, error) {
	wanted, of := code, record.SourceFile
	if documentation {
		wanted, of = document, record.SourceDocumentation
	}

	r, all, err := f.read(ctx, wanted)
	if err != nil {
		return tool.Result{}, err
	}
	near, err := f.near(ctx, query, all, &r)
	if err != nil {
		return tool.Result{}, err
	}

	r.matches, r.fused = rank(all, make([]float64, len(all)), near, request{f.minScore, true, unwanted(query)})
	r.matches = r.matches[:min(len(r.matches), maxResults)]
	return f.result(r, of)
}

// Rank ranks files whose parts have scores by words and by vectors.
func Rank(paths []string, words, near map[string][]float64, whole bool) (files []string, scores []float64) {
	var all []chunk
	var byWords, byVectors []float64
	for _, path := range paths {
		byWords, byVectors = append(byWords, words[path]...), append(byVectors, near[path]...)
		for range words[path] {
			all = append(all, chunk{path: path})
		}
	}

	matches, _ := rank(all, byWords, byVectors, request{0.5, whole, func(string) bool { return false }})
	for _, m := range matches {
		files, scores = append(files, m.path), append(scores, m.score)
	}
	return files, scores
}
