package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/actlog/actlog/internal/runtime/config"
	"github.com/actlog/actlog/internal/testkit/pgtest"
)

const planted = "hunter2-planted-secret"

const secretFile = `models:
  default: {provider: openai, model: m, baseURL: "http://${S}/v1", apiKey: "${S}"}
  plain: {provider: anthropic, model: m, baseURL: "http://shown/", apiKey: ` + planted + `}
embedder: {provider: openai, model: m, baseURL: "http://${S}/v1", apiKey: "${S}"}
mcpServers:
  a: {command: ["${S}", "--token=${S}"], env: {A: "${S}", B: ` + planted + `}}
  b: {url: "http://h/${S}?t=${S}", headers: {Authorization: "Bearer ${S}", X: ` + planted + `}}
toolsets:
  files: {root: "${DIR}"}
  git: {root: "${DIR}"}
  code: {root: "${DIR}"}
  search: {root: "${DIR}"}
  tests: {unit: {command: [x], root: "${DIR}", env: {A: "${S}"}}}
agents: {a: {mcpServers: [a, b], tools: ["*"]}}
redact: [email]
`

// A secret stands wherever one can, in a file that is right. Nothing that is made of the file shows it.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), planted)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(filepath.Join(t.TempDir(), "actlog.yaml"), []byte(secretFile), config.Options{
		Lookup: environment("S", planted, "DIR", dir),
	})
	if err != nil {
		t.Fatal(err)
	}

	parts, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer parts.Close()
	definition, ok := c.Definition("a")
	if !ok {
		t.Fatal("no definition")
	}

	shown := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown["config "+verb] = fmt.Sprintf(verb, c)
		shown["copy "+verb] = fmt.Sprintf(verb, *c)
		shown["parts "+verb] = fmt.Sprintf(verb, parts)
		shown["copy of parts "+verb] = fmt.Sprintf(verb, *parts)
		shown["model "+verb] = fmt.Sprintf(verb, c.Models["default"])
		shown["value "+verb] = fmt.Sprintf(verb, c.Models["default"].APIKey)
		shown["unexported "+verb] = fmt.Sprintf(verb, struct{ v config.Value }{c.Models["default"].APIKey})
		shown["definition "+verb] = fmt.Sprintf(verb, definition)
	}
	for name, value := range map[string]any{
		"config": c, "copy": *c, "definition": definition, "server": c.MCPServers["a"], "value": c.Models["default"].APIKey,
	} {
		if b, err := json.Marshal(value); err != nil {
			t.Error(err)
		} else {
			shown[name+" JSON"] = string(b)
		}
		if b, err := yaml.Marshal(value); err != nil {
			t.Error(err)
		} else {
			shown[name+" YAML"] = string(b)
		}

		var text, jsonText bytes.Buffer
		slog.New(slog.NewTextHandler(&text, nil)).Info("x", "value", value)
		slog.New(slog.NewJSONHandler(&jsonText, nil)).Info("x", "value", value)
		shown[name+" log"], shown[name+" JSON log"] = text.String(), jsonText.String()
	}

	pinned, err := json.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	shown["definition"] = string(pinned)

	hex := fmt.Sprintf("%x", planted)
	for name, s := range shown {
		if strings.Contains(s, planted) || strings.Contains(s, hex) {
			t.Errorf("%s shows the secret: %s", name, s)
		}
	}
	for _, name := range []string{"config JSON", "copy YAML", "config JSON log", "value log"} {
		if !strings.Contains(shown[name], "[secret]") {
			t.Errorf("%s does not say where secrets are: %s", name, shown[name])
		}
	}
	if !strings.Contains(shown["config JSON"], "http://shown/") {
		t.Errorf("a base URL without a variable is hidden: %s", shown["config JSON"])
	}

	// Those who need them get them.
	servers := parts.Servers()
	if servers["a"].Command[1] != "--token="+planted || servers["a"].Env["B"] != planted ||
		servers["b"].Headers["Authorization"] != "Bearer "+planted ||
		c.Models["plain"].APIKey.Reveal() != planted || c.Toolsets.Files.Root.Reveal() != dir {
		t.Error("secrets are lost")
	}
}

// A secret stands at every place, most of them wrong for it. No error shows it.
func TestErrorsHaveNoSecrets(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is refused, and in which words")
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}

	_, example, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	var top yaml.Node
	if err := yaml.Unmarshal([]byte(example), &top); err != nil {
		t.Fatal(err)
	}

	path := filepath.Join(t.TempDir(), "actlog.yaml")
	tried, wrong := 0, 0
	try := func(as string) {
		text, err := yaml.Marshal(&top)
		if err != nil {
			t.Fatal(err)
		}

		tried++
		c, err := config.Parse(path, text, config.Options{Lookup: func(name string) (string, bool) {
			if name == "PLANTED" {
				return as, true
			}
			return "http://127.0.0.1:1", true
		}})
		if err != nil {
			wrong++
			if strings.Contains(err.Error(), planted) {
				t.Fatalf("%s shows the secret", err)
			}
			return
		}

		if b, err := json.Marshal(c); err != nil || strings.Contains(string(b), planted) {
			t.Errorf("%s shows the secret, %v", b, err)
		}
		parts, err := c.Open()
		if err == nil {
			parts.Close()
		} else if strings.Contains(err.Error(), planted) {
			t.Errorf("%s shows the secret", err)
		}
	}

	var visit func(n *yaml.Node, key bool)
	visit = func(n *yaml.Node, key bool) {
		if n.Kind == yaml.ScalarNode && !key {
			before := *n
			for _, as := range []string{
				planted, "http://" + planted + ":x@h%zz", "(" + planted, "a\n" + planted, "\x00" + planted,
				"\x7f" + planted + "\xff",
			} {
				*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: "${PLANTED}"}
				try(as)
			}
			*n = before
		}
		for i, each := range n.Content {
			visit(each, n.Kind == yaml.MappingNode && i%2 == 0)
		}
	}

	visit(&top, false)
	if tried < 500 || wrong < tried/2 || wrong == tried {
		t.Errorf("%d tried, %d wrong", tried, wrong)
	}
}

// A key that stands in the file itself is not shown either, whatever is wrong around it.
func TestKeysInTheFileAreNotShown(t *testing.T) {
	t.Parallel()
	for _, as := range []string{
		"%s", "\"%s", "'%s", "*%s", "&%s", "!%s x", "!!int %s", "!!binary %s", "%s: x", "[%s", "{%s", "@%s", "`%s", "|%s",
		"\"\\q%s\"", "\"%s\x00\"", "? %s", "$%s", "${%s}", "${%s", "%%%s", "\t%s", "[%s]", "\"a\\n%s\"",
	} {
		for _, field := range []string{"models: {default: {provider: openai, model: m, apiKey: KEY}}",
			"models:\n  default:\n    provider: openai\n    model: m\n    apiKey: KEY\n",
			"mcpServers:\n  a:\n    command: [x]\n    env:\n      A: KEY\n",
			"mcpServers:\n  a:\n    url: http://h\n    headers:\n      A: KEY\n    other: x\n"} {
			text := strings.ReplaceAll(field, "KEY", fmt.Sprintf(as, planted))
			c, err := parse(t, text, config.Options{})
			if shown := fmt.Sprintf("%v %+v", err, c); strings.Contains(shown, planted) {
				t.Errorf("%q: %s", text, shown)
			}
		}
	}
}
