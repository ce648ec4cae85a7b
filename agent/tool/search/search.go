package search

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/internal/folder"
)

// Defaults of [Options].
const (
	DefaultMinScore = 0.7
	DefaultPatience = 4 * time.Minute
)

// Options of a Folder.
type Options struct {
	// Vectors find parts by what they mean; nil: parts are found by words only.
	Vectors *Vectors
	// MinScore is how near a part must be to what is searched for, from 0 to 1, to count as found by vectors: 0.5 is a
	// right angle. nil: DefaultMinScore.
	MinScore *float64
	// Patience is how long a call waits for vectors before it goes on with words only. 0: DefaultPatience.
	Patience time.Duration
	// Allow are patterns, as .gitignore has them, of files that are searched although they may hold secrets or are hard
	// links.
	Allow []string
	// Hide are absolute paths of files and folders that are not searched, whatever is allowed.
	Hide []string
}

// Folder is a folder with the tools that search it. Close it when no tool is called any more.
type Folder struct {
	at       *folder.Folder
	vectors  *Vectors // nil without an embedder
	minScore float64
	patience time.Duration
}

// Open returns the folder at a path of this machine. It is an error if a number of the options is out of its bounds, or
// if there is no such folder.
func Open(dir string, o Options) (*Folder, error) {
	least := cmp.Or(o.MinScore, new(DefaultMinScore))
	f := &Folder{vectors: o.Vectors, minScore: *least, patience: cmp.Or(o.Patience, DefaultPatience)}
	switch {
	case !(f.minScore >= 0 && f.minScore <= 1): // also no number
		return nil, fmt.Errorf("the least score must be from 0 to 1, not %v", f.minScore)
	case f.patience < 0:
		return nil, fmt.Errorf("the patience must not be negative, but is %s", f.patience)
	}

	var err error
	if f.at, err = folder.Open(dir, o.Allow...); err != nil {
		return nil, err
	}
	f.at.Hide(o.Hide...)
	return f, nil
}

// Close gives the folder up. Its tools fail from then on.
func (f *Folder) Close() error { return f.at.Close() }

// Bounds of what a call searches.
const (
	maxSearched = 64 << 20 // bytes
	maxChunks   = 20_000
)

// found are the parts of the folder that match, the best first.
type found struct {
	matches         []match
	searched        int // how many files were
	skipped         folder.Skipped
	embedding       *tool.Embedding // nil without an embedder
	fused           bool            // by words and vectors; false: by words only
	wordsOnlyReason string          // why only words count although there is an embedder
}

type wish struct {
	query  string
	wanted func(at string) bool // which files
	parts  bool                 // several parts of a file may be found; false: only its best one
	most   int                  // parts
}

func (f *Folder) find(ctx context.Context, w wish) (found, error) {
	r, all, err := f.read(ctx, w.wanted)
	if err != nil || len(all) == 0 {
		return r, err
	}

	near, err := f.near(ctx, w.query, all, &r)
	if err != nil {
		return r, err
	}
	how := request{f.minScore, !w.parts, unwanted(w.query)}
	r.matches, r.fused = rank(all, byWords(w.query, all), near, how)
	if f.vectors != nil && !r.fused && r.wordsOnlyReason == "" {
		r.wordsOnlyReason = fmt.Sprintf("no part has a score of %v by embeddings", f.minScore)
	}

	r.matches = r.matches[:min(len(r.matches), w.most)]
	for _, m := range r.matches {
		if m.vector {
			r.embedding.Hits++
		}
	}
	return r, nil
}

func (f *Folder) read(ctx context.Context, wanted func(at string) bool) (r found, all []chunk, err error) {
	size, more := 0, false
	r.skipped, err = f.at.WalkTextFiles(ctx, "", "", func(at string, content []byte) error {
		if !wanted(at) {
			return nil
		}

		parts := chunks(at, string(content))
		if size += len(content); size > maxSearched || len(all)+len(parts) > maxChunks {
			more = true
			return fs.SkipAll
		}
		r.searched++
		all = append(all, parts...)
		return ctx.Err()
	})
	r.skipped.TooMany = r.skipped.TooMany || more
	return r, all, err
}

// near returns how near parts are to a text, by their vectors. It returns nothing without an embedder, and if vectors
// cannot be had: r says why. It is an error if the context ended.
func (f *Folder) near(ctx context.Context, query string, all []chunk, r *found) (scores []float64, err error) {
	if f.vectors == nil {
		return nil, nil
	}

	patient, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	texts := append(slices.Clip(all), chunk{text: query, hash: sha256.Sum256([]byte(query))})
	vectors, used, err := f.vectors.of(patient, texts)
	r.embedding = used
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && errors.Is(patient.Err(), context.DeadlineExceeded):
		r.wordsOnlyReason = fmt.Sprintf("the embedder did not make all vectors within %s; a later search goes on from there",
			f.patience)
		return nil, nil
	case err != nil:
		r.wordsOnlyReason = oneLine(err.Error())
		return nil, nil
	}

	scores = make([]float64, len(all))
	for i := range scores {
		scores[i] = relevance(vectors[i], vectors[len(all)])
	}
	return scores, nil
}

// maxWhy bounds what an embedder has to say about its failure, in bytes.
const maxWhy = 300

// oneLine returns the beginning of a text without line breaks and control characters.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	return cutText(strings.TrimRight(text, ". "), maxWhy)
}
