package config_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/actlog/actlog/internal/runtime/config"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	const file = `models:
  default: {provider: openai, model: gpt-5-mini, apiKey: "${API_KEY}"}
toolsets:
  files: {root: .}
agents:
  reader: {systemPrompt: You read files., tools: [files.read_file]}
`

	path := filepath.Join(dir, "actlog.yaml")
	err = os.WriteFile(path, []byte(file), 0o600)
	if err != nil {
		fmt.Println(err)
		return
	}

	current, err := config.Open(path, config.Options{
		Lookup: func(string) (string, bool) { return "a secret", true }, // os.LookupEnv in a program
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer current.Close()

	parts, release, err := current.Use()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer release()

	reader := parts.Config.Agents["reader"]
	definition := reader.Definition("reader", parts.Config.Models[reader.Model].Definition(reader.Model), nil, nil)
	for _, t := range definition.Select(parts.Tools) {
		fmt.Println(t.Spec().Name)
	}
	fmt.Println(parts.Models[definition.Model.Name].Name(), parts.Config.Models["default"].APIKey)
	// Output:
	// files.read_file
	// gpt-5-mini [secret]
}

// Every mistake of a file is reported.
func ExampleParse() {
	_, err := config.Parse("actlog.yaml", []byte(`models:
  default: {provider: openai, model: gpt-5-mini, apiKey: "${API_KEY}"}
agents:
  reader: {model: gpt, maxStep: 30}
`), config.Options{Lookup: func(string) (string, bool) { return "", false }})
	fmt.Println(err)
	// Output:
	// actlog.yaml:2: models.default.apiKey: the variable API_KEY is not set
	// actlog.yaml:4: agents.reader.model: no model is called "gpt"; there are: default
	// actlog.yaml:4: agents.reader.maxStep: no such key; did you mean maxSteps?
}
