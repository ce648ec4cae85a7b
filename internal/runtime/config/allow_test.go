package config_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/config"
)

// S11: the configuration says which files that may hold secrets the tools of a folder may use.
func TestAllow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{".env", "tls.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("hunter2"), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	text := `toolsets: {files: {allow: [".env"]}, git: {allow: ["*.key", "!tls.key"]}, code: {allow: [a]}, search: {allow: [b]}}`
	c, err := config.Parse(filepath.Join(dir, "actlog.yaml"), []byte(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	parts, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer parts.Close()

	for path, failed := range map[string]bool{".env": false, "tls.key": true} {
		for _, each := range parts.Tools {
			if each.Spec().Name != "files.read_file" {
				continue
			}

			arguments, err := json.Marshal(map[string]string{"path": path})
			if err != nil {
				t.Fatal(err)
			}
			got, err := tool.Do(t.Context(), each, each.Spec().Policy, tool.Call{Arguments: arguments}, 0)
			if err != nil || got.Failed != failed {
				t.Errorf("%s: %+v, %v", path, got, err)
			}
		}
	}

	_, err = config.Parse(filepath.Join(dir, "actlog.yaml"),
		[]byte(`toolsets: {files: {allow: .env}, git: {allow: [""]}, code: {allow: [1]}}`), config.Options{})
	for _, want := range []string{
		"toolsets.files.allow: ", "toolsets.git.allow[0]: it is empty", "toolsets.code.allow[0]: ",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("config.Parse = %v, want %q", err, want)
		}
	}
}
