package model

import "context"

// Embedder makes vectors of texts: texts that mean the same have vectors of nearly the same direction.
// Its methods can be called concurrently.
type Embedder interface {
	// Name returns the name of the model, as the provider knows it.
	Name() string

	// Embed returns a vector for each text, in their order. All vectors of a model have the same
	// number of elements. It sends one request, once. Of the usage, only the input counts. Errors are of
	// type [*Error].
	Embed(ctx context.Context, texts []string) ([][]float32, Usage, error)
}
