package engine

import (
	"encoding/json"
	"fmt"
	"strings"
)

const fence = "```"

// ReadAnswer decodes the JSON that a model answered with: bare, or in a code fence, also with text around it.
// Of several fences, the first one that holds JSON counts. The error says what is wrong with the JSON.
func ReadAnswer(text string, to any) error {
	text = strings.TrimSpace(text)
	err := json.Unmarshal([]byte(text), to)
	if err == nil {
		return nil
	}

	if body, in := fenced(text); in != nil {
		return in
	} else if body != nil {
		return json.Unmarshal(body, to)
	}
	return err
}

// fenced returns the JSON of the first fence that holds some; else the error of the first fence. Both are nil
// if there is no fence. The end of the JSON is found by reading it, because its texts may hold fences.
func fenced(text string) (body json.RawMessage, err error) {
	for {
		_, rest, found := strings.Cut(text, fence)
		if !found {
			return nil, err
		}
		text = rest
		if len(rest) >= 4 && strings.EqualFold(rest[:4], "json") {
			rest = rest[4:]
		}

		d := json.NewDecoder(strings.NewReader(rest))
		in := d.Decode(&body)
		if in == nil {
			if after := strings.TrimSpace(rest[d.InputOffset():]); after == "" || strings.HasPrefix(after, fence) {
				return body, nil
			}
			in = fmt.Errorf("text follows the JSON of the code fence, at byte %d of it", d.InputOffset())
		}
		if err == nil {
			err = in
		}
	}
}
