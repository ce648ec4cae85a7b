package search

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
)

// Store holds vectors where other processes find them, by the model and the SHA-256 of the text. Its methods
// can be called at the same time.
type Store interface {
	// Vectors returns those that it has. It keeps what is used for longer.
	Vectors(ctx context.Context, model string, texts [][sha256.Size]byte) (map[[sha256.Size]byte][]float32, error)
	// StoreVectors stores vectors, in place of those that it has.
	StoreVectors(ctx context.Context, model string, vectors map[[sha256.Size]byte][]float32) error
}

// Vectors makes vectors of texts and keeps them, by what the texts say: in memory, and in a [Store] if it has
// one. Tools of several folders can share it.
type Vectors struct {
	embedder model.Embedder
	// turn is held by the one call that asks the embedder for what is missing, and by whoever reads
	// kept.
	turn  chan struct{}
	kept  map[[sha256.Size]byte]*vector
	asks  uint64                // how often vectors were asked for
	store atomic.Pointer[Store] // nil: only memory
}

// vector has length 1.
type vector struct {
	elements []float32
	used     uint64    // when it was asked for last
	since    time.Time // when it was made, or the store last heard of it
}

// NewVectors returns Vectors that have none yet, and no store.
func NewVectors(e model.Embedder) *Vectors {
	return &Vectors{embedder: e, turn: make(chan struct{}, 1), kept: map[[sha256.Size]byte]*vector{}}
}

// Bounds of the vectors. A request has at most batchTexts texts with batchBytes bytes.
const (
	batchTexts = 64
	batchBytes = 96 << 10
	maxKept    = 256 << 20 // bytes of all elements
	attempts   = 3
	// maxElements bounds a vector: twice the elements of those of the largest models.
	maxElements = 8192
	// maxAge is how long the store does not hear that a vector is used, because it is in memory.
	maxAge = 24 * time.Hour
)

// StoreIn lets the vectors be stored in a store, too.
func (v *Vectors) StoreIn(s Store) { v.store.Store(&s) }

// at returns the store; nil: there is none.
func (v *Vectors) at() Store {
	if s := v.store.Load(); s != nil {
		return *s
	}
	return nil
}

// errMixed says that vectors do not come from one model.
var errMixed = errors.New("the vectors of the embedder do not have the same number of elements")

// of returns the vectors of chunks, in their order. Those that are known are not asked for again. If it
// fails, those that came before are stored, so that the next call goes on from there.
func (v *Vectors) of(ctx context.Context, chunks []chunk) ([][]float32, *tool.Embedding, error) {
	used := &tool.Embedding{Model: v.embedder.Name()}
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return nil, used, ctx.Err()
	}

	v.asks++
	if err := v.read(ctx, v.missing(chunks, maxAge)); err != nil {
		return nil, used, err
	}

	found, err := v.complete(ctx, chunks, used)
	if errors.Is(err, errMixed) { // those that are stored may be of another model that had the same name
		v.drop(chunks)
		found, err = v.complete(ctx, chunks, used)
	}
	if errors.Is(err, errMixed) { // the embedder does not agree with itself; it may the next time
		v.drop(chunks)
	}
	v.forget()
	return found, used, err
}

func (v *Vectors) drop(chunks []chunk) {
	for _, c := range chunks {
		delete(v.kept, c.hash)
	}
}

// missing returns those chunks whose vectors are not in memory, or not known to the store for longer than an
// age, each text once.
func (v *Vectors) missing(chunks []chunk, age time.Duration) (missing []chunk) {
	asked := map[[sha256.Size]byte]bool{}
	for _, c := range chunks {
		known := v.kept[c.hash]
		if known != nil {
			known.used = v.asks
		}

		if (known == nil || time.Since(known.since) > age) && !asked[c.hash] {
			asked[c.hash] = true
			missing = append(missing, c)
		}
	}
	return missing
}

// read reads the vectors of chunks that the store has. It gets those that it lacks and that are in memory.
func (v *Vectors) read(ctx context.Context, chunks []chunk) error {
	store := v.at()
	if store == nil || len(chunks) == 0 {
		return nil
	}

	hashes := make([][sha256.Size]byte, len(chunks))
	for i, c := range chunks {
		hashes[i] = c.hash
	}
	found, err := store.Vectors(ctx, v.embedder.Name(), hashes)
	if err != nil {
		return err
	}

	lacks := map[[sha256.Size]byte][]float32{}
	for _, hash := range hashes {
		if elements, ok := found[hash]; ok {
			v.kept[hash] = &vector{elements, v.asks, time.Now()}
		} else if known := v.kept[hash]; known != nil {
			lacks[hash], known.since = known.elements, time.Now()
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	return store.StoreVectors(ctx, v.embedder.Name(), lacks)
}

// complete returns the vectors of chunks, and asks for those that are not in memory. It adds what that used.
func (v *Vectors) complete(ctx context.Context, chunks []chunk, used *tool.Embedding) ([][]float32, error) {
	missing := v.missing(chunks, math.MaxInt64)
	for len(missing) > 0 {
		n, size := 0, 0
		for n < len(missing) && n < batchTexts && (n == 0 || size+len(missing[n].text) <= batchBytes) {
			size += len(missing[n].text)
			n++
		}

		if err := v.add(ctx, missing[:n], used); err != nil {
			return nil, err
		}
		missing = missing[n:]
	}

	found := make([][]float32, len(chunks))
	for i, c := range chunks {
		found[i] = v.kept[c.hash].elements
		if len(found[i]) != len(found[0]) {
			return nil, errMixed
		}
	}
	return found, nil
}

// add asks for the vectors of chunks, and keeps them.
func (v *Vectors) add(ctx context.Context, chunks []chunk, used *tool.Embedding) error {
	texts := make([]string, len(chunks))
	for i, c := range chunks {
		texts[i] = c.text
	}

	vectors, usage, err := v.ask(ctx, texts)
	if err != nil {
		return fmt.Errorf("embedder: %w", err)
	}
	if used.Texts += len(texts); usage.Input != nil {
		if used.InputTokens == nil {
			used.InputTokens = new(int64)
		}
		*used.InputTokens += *usage.Input
	}
	if len(vectors) != len(chunks) {
		return fmt.Errorf("the embedder returned %d vectors for %d texts", len(vectors), len(chunks))
	}

	made := make(map[[sha256.Size]byte][]float32, len(chunks))
	for i, elements := range vectors {
		unit, err := normal(elements)
		if err != nil {
			return err
		}
		made[chunks[i].hash] = unit
		v.kept[chunks[i].hash] = &vector{unit, v.asks, time.Now()}
	}

	if store := v.at(); store != nil {
		return store.StoreVectors(ctx, v.embedder.Name(), made)
	}
	return nil
}

// ask asks the embedder, again if that helps.
func (v *Vectors) ask(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	for attempt := 1; ; attempt++ {
		vectors, used, err := v.embedder.Embed(ctx, texts)
		pause, again := model.Pause(err, attempt+1)
		if err == nil || !again || attempt == attempts || ctx.Err() != nil {
			return vectors, used, err
		}

		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, used, ctx.Err()
		}
	}
}

// normal returns a vector of the same direction with length 1.
func normal(elements []float32) ([]float32, error) {
	if len(elements) > maxElements {
		return nil, fmt.Errorf("the embedder returned a vector of more than %d elements", maxElements)
	}

	sum := 0.0
	for _, x := range elements {
		sum += float64(x) * float64(x)
	}
	length := math.Sqrt(sum)
	if length == 0 || math.IsInf(length, 0) || math.IsNaN(length) {
		return nil, errors.New("the embedder returned a vector without a direction")
	}

	unit := make([]float32, len(elements))
	for i, x := range elements {
		unit[i] = float32(float64(x) / length)
	}
	return unit, nil
}

// forget drops the vectors that this call did not ask for, if there are too many.
func (v *Vectors) forget() {
	size := 0
	for _, each := range v.kept {
		size += 4 * len(each.elements)
	}

	for hash, each := range v.kept {
		if size > maxKept && each.used != v.asks {
			size -= 4 * len(each.elements)
			delete(v.kept, hash)
		}
	}
}

// relevance returns how near two vectors of length 1 are: 1 for the same direction, 0.5 for a right
// angle, 0 for opposite ones.
func relevance(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return min(max((1+sum)/2, 0), 1)
}
