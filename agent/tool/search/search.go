package search

import (
	"cmp"
	"context"
	"crypto/sha256"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/folder"
)

// Folder is a folder with the tools that search it. Close it when no tool is called any more.
type Folder struct {
	at      *folder.Folder
	vectors *Vectors // nil without an embedder
}

// Open returns the folder at a path of this machine. vectors is nil where there is no embedder. allow are patterns, as
// .gitignore has them, of files that are searched although they may hold secrets or are hard links.
func Open(dir string, vectors *Vectors, allow ...string) (*Folder, error) {
	at, err := folder.Open(dir, allow...)
	if err != nil {
		return nil, err
	}
	return &Folder{at, vectors}, nil
}

// Hide makes files and folders of this machine, by their absolute paths, unavailable whatever is allowed: those of the
// server. Call it before a tool is called.
func (f *Folder) Hide(paths ...string) { f.at.Hide(paths...) }

// Close gives the folder up. Its tools fail from then on.
func (f *Folder) Close() error { return f.at.Close() }

// Bounds of what a call searches.
const (
	maxSearched = 64 << 20 // bytes
	maxChunks   = 20_000
)

// found are the parts of the folder that match, the best first.
type found struct {
	matches []match
	files   int // that were searched
	left    folder.Left
	used    *tool.Embedding // nil without an embedder
}

// match is a part that matches.
type match struct {
	chunk
	score float64
}

// find returns the parts of the files that are wanted which match a text best: at most as many, with at
// least the least score that counts.
func (f *Folder) find(ctx context.Context, query string, wanted func(at string) bool, most int) (r found, err error) {
	var all []chunk
	size, more := 0, false
	r.left, err = f.at.Texts(ctx, "", "", func(at string, content []byte) error {
		if !wanted(at) {
			return nil
		}
		parts := chunks(at, string(content))
		if size += len(content); size > maxSearched || len(all)+len(parts) > maxChunks {
			more = true
			return fs.SkipAll
		}
		r.files++
		all = append(all, parts...)
		return ctx.Err()
	})
	r.left.More = r.left.More || more
	if err != nil || len(all) == 0 {
		return r, err
	}
	r.matches, r.used, err = f.compare(ctx, query, all)
	slices.SortStableFunc(r.matches, func(a, b match) int { return cmp.Compare(b.score, a.score) }) // else in the order of paths and lines
	if r.matches = r.matches[:min(len(r.matches), most)]; r.used != nil {
		r.used.Hits = len(r.matches)
	}
	return r, err
}

// compare returns the parts that match a text.
func (f *Folder) compare(ctx context.Context, query string, all []chunk) (matches []match, used *tool.Embedding, err error) {
	var scores []float64
	least := 0.0
	if f.vectors == nil {
		scores = byWords(query, all)
	} else if scores, used, err = f.byVectors(ctx, query, all); err != nil {
		return nil, nil, err
	} else {
		least = minScore
	}
	for i, score := range scores {
		if score > 0 && score >= least {
			matches = append(matches, match{all[i], score})
		}
	}
	return matches, used, nil
}

// minScore is the least score of a match by vectors.
const minScore = 0.7

func (f *Folder) byVectors(ctx context.Context, query string, all []chunk) ([]float64, *tool.Embedding, error) {
	vectors, used, err := f.vectors.of(ctx, append(all[:len(all):len(all)], chunk{text: query, hash: sha256.Sum256([]byte(query))}))
	if err != nil {
		return nil, nil, err
	}
	scores := make([]float64, len(all))
	for i := range scores {
		scores[i] = relevance(vectors[i], vectors[len(all)])
	}
	return scores, used, nil
}

// The parameters of BM25, as most use them.
const (
	saturation = 1.2  // how many times a word must be in a part of usual length to count half
	byLength   = 0.75 // how much it matters that a part has more words than others
)

// byWords returns how much of a query is in each part: words that are in few parts weigh more. 0 is
// nothing, and 1 would be each word without end.
func byWords(query string, all []chunk) []float64 {
	in := map[string]int{} // index of a word of the query
	words(query, func(w string) {
		if _, ok := in[singular(w)]; !ok {
			in[singular(w)] = len(in)
		}
	})
	counts, lengths := make([][]int, len(all)), make([]float64, len(all))
	parts, total := make([]int, len(in)), 0.0 // how many have the word
	for i, c := range all {
		counts[i] = make([]int, len(in))
		words(c.path+"\n"+c.text, func(w string) {
			lengths[i]++
			if j, ok := in[singular(w)]; ok {
				if counts[i][j]++; counts[i][j] == 1 {
					parts[j]++
				}
			}
		})
		total += lengths[i]
	}
	weights, sum := make([]float64, len(in)), 0.0
	for j, n := range parts {
		weights[j] = math.Log(1 + (float64(len(all)-n)+0.5)/(float64(n)+0.5))
		sum += weights[j]
	}
	scores := make([]float64, len(all))
	for i := range all {
		half := saturation * (1 - byLength + byLength*lengths[i]*float64(len(all))/total)
		for j, n := range counts[i] {
			scores[i] += weights[j] / sum * float64(n) / (float64(n) + half)
		}
	}
	return scores
}

// singular returns a word without the s of most plurals, so that a query for files finds a file.
func singular(word string) string {
	if len(word) > 3 && strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") {
		return word[:len(word)-1]
	}
	return word
}
