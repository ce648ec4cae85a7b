package treesitter

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
)

// Language is one that can be parsed.
type Language int

// The languages. TSX is TypeScript with XML in it, and JavaScript with or without it. TypeScript's own grammar is for
// files without XML, where <T>x converts a value.
const (
	Python Language = iota
	Java
	TypeScript
	TSX
	languages // how many there are
)

// String returns the name that the files of the grammar have.
func (l Language) String() string { return [languages]string{"python", "java", "typescript", "tsx"}[l] }

//go:generate sh fetch.sh

//go:embed wasm/*.wasm.gz
var files embed.FS

// file returns a file of wasm, decompressed.
func file(name string) ([]byte, error) {
	packed, err := files.ReadFile("wasm/" + name + ".wasm.gz")
	if err != nil {
		return nil, err
	}

	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return io.ReadAll(r)
}
