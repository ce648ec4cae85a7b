package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
)

// vectorPage bounds the vectors of a statement. A vector may have some thousand elements.
const vectorPage = 500

// Vectors returns those that are stored of texts, by the SHA-256 of the texts, and notes that they are used.
func (s *Store) Vectors(
	ctx context.Context, model string, texts [][sha256.Size]byte,
) (map[[sha256.Size]byte][]float32, error) {
	found := map[[sha256.Size]byte][]float32{}
	for page := range slices.Chunk(texts, vectorPage) {
		keys := make([][]byte, len(page))
		for i := range page {
			keys[i] = page[i][:]
		}

		rows, err := s.queries.VectorUse(ctx, s.db, db.VectorUseParams{Model: model, Texts: keys})
		if err != nil {
			return nil, fmt.Errorf("read vectors: %w", pg.Translate(err))
		}

		for _, r := range rows {
			if len(r.Sha256) == sha256.Size {
				found[[sha256.Size]byte(r.Sha256)] = elementsOf(r.Elements)
			}
		}
	}
	return found, nil
}

// StoreVectors stores vectors of texts, by the SHA-256 of the texts, until they are not used any more.
func (s *Store) StoreVectors(ctx context.Context, model string, vectors map[[sha256.Size]byte][]float32) error {
	for page := range slices.Chunk(slices.Collect(maps.Keys(vectors)), vectorPage) {
		p := db.VectorKeepParams{Model: model}
		for i := range page {
			p.Texts, p.Vectors = append(p.Texts, page[i][:]), append(p.Vectors, bytesOf(vectors[page[i]]))
		}
		if err := s.queries.VectorKeep(ctx, s.db, p); err != nil {
			return fmt.Errorf("keep vectors: %w", pg.Translate(err))
		}
	}
	return nil
}

func bytesOf(elements []float32) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, elements) // numbers of a fixed size
	return b
}

func elementsOf(b []byte) []float32 {
	elements := make([]float32, len(b)/4)
	_, _ = binary.Decode(b, binary.LittleEndian, elements) // there is enough for all
	return elements
}
