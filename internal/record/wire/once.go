package wire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

// The lines of an export with contents once: contents, and records that have the parts of a text in place of the text.
// Servers do not take them as records.

// kindContent is the kind of a line with a content.
const kindContent = "content"

// Content is a content of a tree.
type Content struct {
	RootPlanID string
	content.Content
}

// EncodeContent writes a content as [DecodeOnce] reads it.
func EncodeContent(c Content) ([]byte, error) {
	line := struct {
		Kind       string         `json:"kind"`
		RootPlanID string         `json:"rootPlanId"`
		Hash       content.Hash   `json:"hash"`
		Parts      []content.Hash `json:"parts,omitempty"`
		Body       *string        `json:"body,omitempty"`
	}{Kind: kindContent, RootPlanID: c.RootPlanID, Hash: c.Hash, Parts: c.Pieces}

	if c.Pieces == nil {
		line.Body = &c.Body
	}

	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(line); err != nil {
		return nil, fmt.Errorf("encode content %s: %w", c.Hash, err)
	}
	return b.Bytes()[:b.Len()-1], nil
}

// EncodeOnce writes a change as [DecodeOnce] reads it: as [Encode] does, with the parts of texts.
func EncodeOnce(c record.Change) ([]byte, error) { return encode(c, sentOnce) }

func sentOnce(f *field.Field) bool { return f.Sent() || f.Type == field.Hashes }

// DecodeOnce reads a line: a change, some of whose texts may be parts only, or a content, if the change is nil. The
// error is a [*record.InvalidError]. A content has its hash; whether what it names is there is for the reader to check.
func DecodeOnce(raw []byte) (record.Change, Content, error) {
	members, err := split(raw)
	if err != nil {
		return nil, Content{}, err
	}
	kind, err := kindOf(members)
	if err != nil {
		return nil, Content{}, err
	}

	if kind == kindContent {
		c, err := decodeContent(members)
		return nil, c, err
	}
	c, err := decode(kind, members, sentOnce)
	if err != nil {
		return nil, Content{}, err
	}

	for _, f := range field.InPieces(c.Kind()) {
		if !f.In(c).IsZero() && !f.Pieces.In(c).IsZero() {
			return nil, Content{}, invalid(record.CodeInvalidValue, f.Pieces.Name,
				"replaces "+f.Name+", so only one of them can be sent")
		}
	}
	return c, Content{}, nil
}

func decodeContent(members []member) (c Content, err error) {
	values := map[string]jsontext.Value{}
	for _, m := range members {
		switch m.name {
		case "kind", "rootPlanId", "hash", "parts", "body":
			values[m.name] = m.value
		default:
			return c, invalid(record.CodeUnknownField, shown(m.name), "is no field of "+kindContent)
		}
	}

	has := func(name string) bool { return !isNull(values[name]) }
	for _, name := range []string{"rootPlanId", "hash"} {
		if !has(name) {
			return c, invalid(record.CodeMissingField, name, "is required")
		}
	}
	if has("parts") == has("body") {
		return c, invalid(record.CodeInvalidValue, "body", "or parts is required, and not both")
	}

	var ok bool
	if c.RootPlanID, ok = text(values["rootPlanId"]); !ok {
		return c, invalid(record.CodeInvalidValue, "rootPlanId", "must be a string")
	}
	if has("parts") {
		parts, ok := hashes(values["parts"])
		if !ok || len(parts) == 0 {
			return c, invalid(record.CodeInvalidValue, "parts", "must be a list of hashes in hex")
		}
		c.Content = content.PageOf(parts)
	} else {
		if c.Body, ok = text(values["body"]); !ok {
			return c, invalid(record.CodeInvalidValue, "body", "must be a string")
		}
		c.Hash = content.HashOf(c.Body)
	}

	if given, _ := text(values["hash"]); given != c.Hash.String() {
		return c, invalid(record.CodeInvalidValue, "hash", "is not that of the content, which is "+c.Hash.String())
	}
	return c, nil
}

// hashes reads a list of hashes in hex.
func hashes(raw jsontext.Value) (list []content.Hash, ok bool) {
	ok = eachText(raw, func(s string) bool {
		hash, ok := content.ParseHash(s)
		list = append(list, hash)
		return ok
	})
	return list, ok
}
