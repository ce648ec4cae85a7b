package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/actlog/actlog/agent/config"
)

// Every mistake of a file is reported.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	path := filepath.Join(dir, "actlog.yaml")
	err = os.WriteFile(path, []byte(`models:
  default: {provider: openai, model: gpt-5-mini, apiKey: "${API_KEY}"}
agents:
  reader: {model: gpt, maxStep: 30}
`), 0o600)
	if err != nil {
		fmt.Println(err)
		return
	}

	_, err = config.Open(path, config.Options{
		Lookup: func(string) (string, bool) { return "", false }, // os.LookupEnv in a program
	})
	wrong, _ := errors.AsType[*config.InvalidError](err)
	for _, p := range wrong.Problems {
		fmt.Println(p.Line, p.Field, p.Message)
	}
	// Output:
	// 2 models.default.apiKey the variable API_KEY is not set
	// 4 agents.reader.model no model is called "gpt"; there are: default
	// 4 agents.reader.maxStep no such key; did you mean maxSteps?
}
