package config

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/actlog/actlog/internal/runtime/define"
)

func (n node) schema() json.RawMessage {
	if !n.is("a JSON Schema", "!!map") {
		return nil
	}

	text, ok := n.json()
	if !ok {
		return nil
	}
	if err := define.CheckSchema(text); err != nil {
		n.note(err.Error())
		return nil
	}
	return text
}

// Bounds of a schema: aliases could make very many values of few.
const (
	maxNodes = 50_000
	maxDepth = 100
)

// json returns what stands at a place as JSON, with the keys in the order of the file.
func (n node) json() (json.RawMessage, bool) {
	var out bytes.Buffer
	w := jsonWriter{out: &out, left: maxNodes}
	problems := len(n.file.problems)
	w.write(n, 0)
	if w.left < 0 {
		n.problem("it has more than %d values, or is more than %d deep", maxNodes, maxDepth)
	}
	return out.Bytes(), len(n.file.problems) == problems
}

type jsonWriter struct {
	out  *bytes.Buffer
	left int
}

func (w *jsonWriter) write(n node, depth int) {
	if depth > maxDepth {
		w.left = 0
	}
	if w.left--; w.left < 0 {
		return
	}

	switch n.ShortTag() {
	case "!!map":
		separator := byte('{')
		n.entries(func(key string, value node) {
			w.out.WriteByte(separator)
			separator = ','
			w.any(key)
			w.out.WriteByte(':')
			w.write(value, depth+1)
		})
		if separator == '{' {
			w.out.WriteByte('{')
		}
		w.out.WriteByte('}')
	case "!!seq":
		w.out.WriteByte('[')
		for i, each := range n.list() {
			if i > 0 {
				w.out.WriteByte(',')
			}
			w.write(each, depth+1)
		}
		w.out.WriteByte(']')
	case "!!str":
		w.any(n.text())
	case "!!null", "!!bool", "!!int", "!!float":
		var x any
		if err := n.Decode(&x); err != nil {
			n.problem("it cannot be read as %s", n.kind())
			return
		}
		if f, ok := x.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			n.problem("JSON has no such number")
			return
		}
		w.any(x)
	default:
		n.problem("JSON has no such value: %s", n.kind())
	}
}

func (w *jsonWriter) any(x any) {
	b, _ := json.Marshal(x) // cannot fail: texts, numbers, booleans and null
	w.out.Write(b)
}
