package runstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
)

// Pin returns the version of a definition that has a body, which is JSON without secrets. A body that
// is new becomes the next version.
func (s *Store) Pin(ctx context.Context, definitionID, kind string, body json.RawMessage) (Pinned, error) {
	hash := sha256.Sum256(body)
	params := db.DefinitionPinParams{
		DefinitionID: definitionID, Kind: kind, Body: body, Sha256: hex.EncodeToString(hash[:]),
	}

	for {
		version, err := queries.DefinitionPin(ctx, s.DB(), params)
		if errors.Is(err, pgx.ErrNoRows) && ctx.Err() == nil { // another took the number a moment ago
			continue
		}
		if err != nil {
			return Pinned{}, fmt.Errorf("pin definition %s: %w", definitionID, pg.Translate(err))
		}
		return Pinned{ID: definitionID, Version: int(version)}, nil
	}
}

// DefinitionVersion is a version of a definition.
type DefinitionVersion struct {
	Pinned
	SHA256 string // of the body
	Body   json.RawMessage
}

// Definitions returns a version of each of some definitions that there are, by id: the one that has one of the hashes,
// else the newest.
func (s *Store) Definitions(ctx context.Context, ids, hashes []string) (map[string]DefinitionVersion, error) {
	rows, err := read(ctx, s.Reader.DB(), queries.DefinitionNewest,
		db.DefinitionNewestParams{Ids: append([]string{}, ids...), Hashes: append([]string{}, hashes...)})
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}

	found := map[string]DefinitionVersion{}
	for _, row := range rows {
		pinned := Pinned{ID: row.DefinitionID, Version: int(row.Version)}
		found[row.DefinitionID] = DefinitionVersion{pinned, row.Sha256, row.Body}
	}
	return found, nil
}

// Definition returns the body of a version of a definition.
func (s *Store) Definition(ctx context.Context, p Pinned) (json.RawMessage, error) {
	body, err := read(ctx, s.Reader.DB(), queries.DefinitionBody,
		db.DefinitionBodyParams{DefinitionID: p.ID, Version: int32(p.Version)})
	if err != nil {
		return nil, fmt.Errorf("read definition %s, version %d: %w", p.ID, p.Version, err)
	}
	return body, nil
}
