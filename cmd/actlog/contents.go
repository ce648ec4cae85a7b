package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/record"
)

// contents holds the contents of a file for the records behind them: where their texts are, not the texts,
// of which a tree may have more than fit into memory.
type contents struct {
	trees map[string]map[content.Hash]held // by root plan
	texts *os.File                         // all pieces, one behind the other; nil: none yet
	size  int64                            // of texts
}

type held struct {
	at    int64          // of a piece, in texts
	bytes int64          // of its text
	parts []content.Hash // of a page
}

// maxJoined bounds a text that is put together: what was cut is exported one character too long.
const maxJoined = record.MaxTextBytes + utf8.UTFMax

// add holds a content. All that it names must be held already.
func (h *contents) add(c wire.Content) (err error) {
	if h.texts == nil {
		if h.texts, err = os.CreateTemp("", "actlog-import-*"); err != nil {
			return fmt.Errorf("hold contents: %w", err)
		}
		h.trees = map[string]map[content.Hash]held{}
	}

	tree := h.trees[c.RootPlanID]
	if tree == nil {
		tree = map[content.Hash]held{}
		h.trees[c.RootPlanID] = tree
	}

	has := held{at: h.size, bytes: int64(len(c.Body)), parts: c.Pieces}
	for _, hash := range c.Pieces {
		piece, ok := tree[hash]
		switch {
		case !ok:
			return missing("parts", hash)
		case piece.parts != nil:
			return badParts("parts", "names %s, which is a list of parts itself", hash)
		}

		has.bytes += piece.bytes
	}

	if _, err := h.texts.WriteAt([]byte(c.Body), h.size); err != nil {
		return fmt.Errorf("hold contents: %w", err)
	}
	h.size += int64(len(c.Body))
	tree[c.Hash] = has
	return nil
}

// join puts the texts of a record in place of their parts, and returns how many bytes they have.
func (h *contents) join(c record.Change) (bytes int, err error) {
	tree := h.trees[c.Key().Root]
	err = field.JoinTexts(c, func(f *field.Field, parts []content.Hash) (string, error) {
		var size int64
		for _, hash := range parts {
			has, ok := tree[hash]
			if !ok {
				return "", missing(f.Pieces.Name, hash)
			}
			if size += has.bytes; size > maxJoined {
				return "", badParts(f.Pieces.Name, "names over %d bytes", maxJoined)
			}
		}

		var text strings.Builder
		text.Grow(int(size))
		for _, hash := range parts {
			if err := h.write(&text, tree, hash); err != nil {
				return "", fmt.Errorf("read contents: %w", err)
			}
		}

		bytes += text.Len()
		return text.String(), nil
	})

	return bytes, err
}

func (h *contents) write(to io.Writer, tree map[content.Hash]held, hash content.Hash) error {
	has := tree[hash]
	for _, piece := range has.parts {
		if err := h.write(to, tree, piece); err != nil {
			return err
		}
	}

	if has.parts != nil {
		return nil
	}

	_, err := io.Copy(to, io.NewSectionReader(h.texts, has.at, has.bytes))
	return err
}

func missing(name string, hash content.Hash) error {
	return badParts(name, "names %s, a content that is not in the lines before", hash)
}

func badParts(name, format string, args ...any) error {
	e := invalid(record.CodeInvalidValue, format, args...)
	e.Field = name
	return e
}

// close removes what is held.
func (h *contents) close() {
	if h.texts != nil {
		_ = h.texts.Close()
		_ = os.Remove(h.texts.Name())
	}
}
