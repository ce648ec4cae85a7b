package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/runtime/config"
)

// Whatever a file says, it is read or its problems are named.
func FuzzParse(f *testing.F) {
	f.Add("models: {default: {provider: openai, model: m, apiKey: \"${KEY}\"}}\n" +
		"agents: {a: {tools: [form, \"*\"], responseSchema: {type: object}}}\n")
	f.Add("agents:\n  a: &a {tools: *a, limits: {tokens: 1e3}}\nplans: {p: {steps: [{stepRequirement: \"[a] <<x>>\"}]}}\n")
	f.Add("workflows: {w: {steps: [w, {name: w}]}}\nredact: [email, \"(\"]\nroles: {r: {tools: [\"*\"]}}\n" +
		"policies: [{tools: \"a*b*\", timeout: 1s}]\n")
	f.Add("mcpServers: {s: {command: [x], env: {A: 1}}, t: {url: \"http://h\", headers: {A: b}}}\n" +
		"toolsets: {files: {}, tests: {a: [b]}}\n")
	f.Add("? [a]\n: b\n!!binary x: !foo y\n<<: *z\n")

	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("actlog.yaml", []byte(text), config.Options{Lookup: func(string) (string, bool) {
			return planted, true
		}})
		if err != nil {
			if wrong, ok := errors.AsType[*config.InvalidError](err); !ok || len(wrong.Problems) == 0 {
				t.Fatal(err)
			}
			if strings.Contains(err.Error(), planted) {
				t.Error(err)
			}
			return
		}

		for name := range c.Agents {
			if d, ok := c.Definition(name); !ok {
				t.Errorf("name = %v", name)
			} else if _, _, err := d.JSON(); err != nil {
				t.Error(err)
			}
		}
	})
}
