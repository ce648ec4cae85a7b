package scriptmodel

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"net/http"
	"strings"
	"unicode"
)

// dimensions is how many elements the vectors have.
const dimensions = 512

// embeddings answers with a vector for each text, which follows from its words alone: the more words
// two texts share, the nearer their vectors.
func (h *Handler) embeddings(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model string   `json:"model"`
		Input []string `json:"input"`
	}
	sent, problem := h.decode(w, r, &body)
	if problem == nil && (body.Model == "" || len(body.Input) == 0) {
		problem = &apiError{
			Status:  http.StatusBadRequest,
			Message: "Missing required parameter: 'model' and 'input', which is a list of texts.", Param: "input",
		}
	}

	if problem != nil {
		writeError(w, r, *problem)
		return
	}
	h.record(Recorded{Request: Request{Model: body.Model}, Body: json.RawMessage(sent), Status: http.StatusOK})

	type embedding struct {
		Object    string    `json:"object"`
		Index     int       `json:"index"`
		Embedding []float64 `json:"embedding"`
	}

	data, words := []embedding{}, 0
	for i, text := range body.Input {
		found := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r)
		})
		words += len(found)
		data = append(data, embedding{"embedding", i, vector(found)})
	}

	writeJSON(w, http.StatusOK, map[string]any{
		"object": "list", "data": data, "model": body.Model, "usage": map[string]int{
			"prompt_tokens": words, "total_tokens": words,
		},
	})
}

// vector returns the vector of words, of length 1.
func vector(words []string) []float64 {
	v := make([]float64, dimensions)
	for _, word := range words {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(word)) // cannot fail
		v[hash.Sum32()%dimensions] = 1
	}

	length := 0.0
	for _, x := range v {
		length += x
	}
	if length == 0 {
		v[0], length = 1, 1
	}

	for i := range v {
		v[i] /= math.Sqrt(length)
	}
	return v
}
