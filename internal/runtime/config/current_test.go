package config_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/config"
)

// write replaces a configuration file at once, as editors do.
func write(t testing.TB, path, text string) {
	t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

const toolset = "toolsets: {files: {}}\n"

// readable reports whether the tools of parts still work.
func readable(ctx context.Context, p *config.Parts) bool {
	for _, each := range p.Tools {
		if s := each.Spec(); s.Name == "files.list_files" {
			result, err := tool.Do(ctx, each, s.Policy, tool.Call{Arguments: json.RawMessage(`{}`)}, 0)
			return err == nil && !result.Failed
		}
	}
	return false
}

// A bad file leaves the configuration before; runs keep what they use until they release it.
func TestReload(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "actlog.yaml")
	write(t, path, base+"  other: {provider: openai, model: m, apiKey: a}\n"+toolset)
	current, err := config.Open(path, config.Options{})
	if err != nil {
		t.Fatal(err)
	}

	old, releaseOld, err := current.Use()
	if err != nil {
		t.Fatal(err)
	}
	_, releaseSame, err := current.Use()
	if err != nil {
		t.Fatal(err)
	}

	write(t, path, "models: {a: {}}\n")
	if err := current.Reload(); err == nil ||
		!strings.Contains(err.Error(), "actlog.yaml:1: models.a.provider: required") {
		t.Error(err)
	}

	same, release, err := current.Use()
	if err != nil || same != old {
		t.Errorf("another configuration, %v", err)
	}
	release()
	if s := current.Loads(); s.Reloads != 0 || s.Failures != 1 || s.Held != 1 {
		t.Errorf("current.Loads() = %+v", s)
	}

	write(t, path, base+"  other: {provider: openai, model: m, apiKey: b}\n  more: {provider: openai, model: m}\n"+toolset)
	if err := current.Reload(); err != nil {
		t.Fatal(err)
	}
	now, releaseNow, err := current.Use()
	if err != nil || now == old || len(now.Models) != 3 {
		t.Fatalf("now = %+v %v", now, err)
	}

	if now.Models["default"] != old.Models["default"] {
		t.Error("a model that did not change lost its limits")
	}
	if now.Models["other"] == old.Models["other"] {
		t.Error("a model that changed stayed as it was")
	}
	if s := current.Loads(); s.Reloads != 1 || s.Failures != 1 || s.Held != 2 {
		t.Errorf("current.Loads() = %+v", s)
	}

	releaseOld()
	releaseOld()
	if !readable(t.Context(), old) {
		t.Error("the old configuration was closed while it is in use")
	}
	releaseSame()
	if readable(t.Context(), old) || current.Loads().Held != 1 {
		t.Error("the old configuration was not closed")
	}

	current.Close()
	current.Close()
	if !readable(t.Context(), now) {
		t.Error("closed while it is in use")
	}
	releaseNow()
	if readable(t.Context(), now) || current.Loads().Held != 0 {
		t.Error("not closed")
	}

	if _, _, err := current.Use(); !errors.Is(err, config.ErrClosed) {
		t.Error(err)
	}
	if err := current.Reload(); !errors.Is(err, config.ErrClosed) {
		t.Error(err)
	}
	if _, err := config.Open(filepath.Join(t.TempDir(), "none.yaml"), config.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Many use the configuration while it is loaded again and again: what they use is always open.
func TestReloadAmongUsers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "actlog.yaml")
	write(t, path, base+toolset)
	current, err := config.Open(path, config.Options{})
	if err != nil {
		t.Fatal(err)
	}

	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				parts, release, err := current.Use()
				if err != nil || !readable(t.Context(), parts) {
					t.Error("not open", err)
					return
				}
				release()
			}
		})
	}
	for i := range 2 {
		all.Go(func() {
			for j := range 20 {
				if err := current.Reload(); err != nil {
					t.Errorf("fmt.Sprint(i, j, err) = %v", fmt.Sprint(i, j, err))
				}
			}
		})
	}

	all.Wait()
	if s := current.Loads(); s.Reloads != 40 || s.Held != 1 {
		t.Errorf("current.Loads() = %+v", s)
	}
	current.Close()
}
