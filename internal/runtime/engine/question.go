package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

// questionOf returns the question of a tool as one to a human: the properties of its schema are the
// fields of a form.
func questionOf(q tool.Question) WaitInfo {
	w := WaitInfo{
		Type: record.WaitUserInput, Title: q.Message, Subject: json.RawMessage(`{"decisions":["submit","reject"]}`),
	}
	if q.From != "" {
		w.Title = q.From + " asks: " + q.Message
	}
	if q.URL != "" {
		w.Description = "It asks you to visit this page: " + q.URL
	}

	for _, p := range properties(q.Schema) {
		in := map[string]string{
			"label": cmp.Or(p.Title, p.name), "name": p.name, "type": p.input(),
			"required": strconv.FormatBool(p.required), "value": "",
		}
		if options := p.options(); len(options) > 0 {
			in["options"] = strings.Join(options, ",")
		}
		w.Inputs = append(w.Inputs, in)
	}

	if w.Inputs == nil {
		w.Inputs = []map[string]string{}
	}
	return w
}

// property is one of a flat schema, as MCP servers ask with.
type property struct {
	name     string
	required bool

	Title  string   `json:"title"`
	Type   string   `json:"type"`
	Format string   `json:"format"`
	Enum   []string `json:"enum"`
	OneOf  []struct {
		Const string `json:"const"`
	} `json:"oneOf"`
	Items *property `json:"items"`
	AnyOf []struct {
		Const string `json:"const"`
	} `json:"anyOf"`
}

func properties(schema json.RawMessage) (all []property) {
	var s struct {
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}

	for name, p := range s.Properties {
		p.name, p.required = name, slices.Contains(s.Required, name)
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b property) int { return strings.Compare(a.name, b.name) })
	return all
}

func (p property) options() []string {
	options := slices.Clone(p.Enum)
	for _, o := range p.OneOf {
		options = append(options, o.Const)
	}
	for _, o := range p.AnyOf {
		options = append(options, o.Const)
	}
	if p.Items != nil {
		options = append(options, p.Items.options()...)
	}

	if p.Type == "boolean" {
		options = []string{"true", "false"}
	}
	return options
}

func (p property) input() string {
	switch {
	case p.Type == "array":
		return "checkbox"
	case len(p.options()) > 0:
		return "select"
	case p.Type == "number" || p.Type == "integer":
		return "number"
	case p.Format == "email":
		return "email"
	}
	return "text"
}

// answerTo returns the answer of a human to the question of a tool.
func answerTo(q tool.Question, a Answer) (tool.Answer, error) {
	switch a.State {
	case record.Submitted, record.Accepted, record.Approved:
	case record.Rejected:
		return tool.Answer{Decision: tool.Decline}, nil
	default:
		return tool.Answer{Decision: tool.Cancel}, nil
	}

	values := map[string]any{}
	for _, in := range a.Inputs {
		values[keyOf(in)] = in["value"]
	}
	for _, p := range properties(q.Schema) {
		text, ok := values[p.name].(string)
		if !ok || text == "" && !p.required {
			delete(values, p.name)
			continue
		}

		switch p.Type {
		case "number", "integer":
			n, ok := numberOf(text)
			if !ok {
				return tool.Answer{}, fmt.Errorf("the answer %s is no number", p.name)
			}
			values[p.name] = n
		case "boolean":
			values[p.name] = text == "true"
		case "array":
			values[p.name] = strings.Split(text, ",")
		}
	}

	return tool.Answer{Decision: tool.Accept, Values: values}, nil
}

// maxExactDigits bounds the whole numbers that are kept exactly. A float64 has at most 309 digits.
const maxExactDigits = 400

// numberOf returns the number that a human wrote: a float64, or a [json.Number] where that would be another whole
// number.
func numberOf(text string) (any, bool) {
	text = strings.TrimSpace(text)
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) || strings.ContainsAny(text, "_xXpP") {
		return nil, false
	}

	if len(text) > maxExactDigits || !json.Valid([]byte(text)) {
		return n, true
	}
	whole, isWhole := new(big.Int).SetString(text, 10)
	if isWhole && new(big.Rat).SetFloat64(n).Cmp(new(big.Rat).SetInt(whole)) != 0 {
		return json.Number(text), true
	}
	return n, true
}

func keyOf(input map[string]string) string { return cmp.Or(input["name"], input["label"]) }
