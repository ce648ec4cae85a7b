package code

import (
	"encoding/json"
	"fmt"

	"github.com/actlog/actlog/agent/tool"
)

func init() {
	tool.RegisterToolset("code", func(o tool.Opening) (tool.Toolset, error) {
		var in struct {
			Root        string   `json:"root"`
			EnableWrite bool     `json:"enableWrite"`
			Allow       []string `json:"allow"`
		}
		if err := json.Unmarshal(o.Options, &in); err != nil {
			return nil, fmt.Errorf("options: %w", err)
		}

		f, err := Open(in.Root, Options{Write: in.EnableWrite, Allow: in.Allow, Hide: o.Hide})
		if err != nil {
			return nil, err // and not a Toolset without a Folder
		}
		return f, nil
	})
}
