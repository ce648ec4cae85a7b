package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/internal/modelhttp"
)

// Embedder implements [model.Embedder] by the Embeddings API.
type Embedder struct{ http *modelhttp.Client }

// NewEmbedder returns an embedder. Its base URL ends where /embeddings begins. It sends nothing.
func NewEmbedder(config Config) (*Embedder, error) {
	client, err := connect(config, "/embeddings")
	if err != nil {
		return nil, err
	}
	return &Embedder{client}, nil
}

// Name implements [model.Embedder].
func (e *Embedder) Name() string { return e.http.Model }

// Embed implements [model.Embedder].
func (e *Embedder) Embed(ctx context.Context, texts []string) (vectors [][]float32, used model.Usage, err error) {
	if len(texts) == 0 {
		return nil, used, nil
	}

	body := map[string]any{"model": e.Name(), "input": texts, "encoding_format": "float"}
	err = e.http.Post(ctx, body, func(_ string, data []byte) error {
		var err error
		if vectors, used, err = readVectors(data, len(texts)); err != nil {
			return e.http.Unreadable(data, err)
		}
		return modelhttp.ErrDone
	})
	if err == nil && vectors == nil {
		err = e.http.Incomplete()
	}
	return vectors, used, err
}

func readVectors(data []byte, want int) (_ [][]float32, used model.Usage, err error) {
	var answer struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
		Usage struct {
			PromptTokens *int64 `json:"prompt_tokens"`
		} `json:"usage"`
	}

	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, used, err
	}
	if len(answer.Data) != want {
		return nil, used, fmt.Errorf("it has %d vectors for %d texts", len(answer.Data), want)
	}

	vectors := make([][]float32, want)
	for _, d := range answer.Data {
		switch {
		case d.Index < 0 || d.Index >= want || vectors[d.Index] != nil:
			return nil, used, fmt.Errorf("index %d is not that of one text", d.Index)
		case len(d.Embedding) == 0 || len(d.Embedding) != len(answer.Data[0].Embedding):
			return nil, used, errors.New("its vectors have no elements, or not the same number")
		}
		vectors[d.Index] = d.Embedding
	}

	used.Input = answer.Usage.PromptTokens
	return vectors, used, nil
}
