package config_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/runtime/config"
)

// F6: a variable may have a default, which stands for one that is not set or empty. A base URL that is empty counts as
// not given.
func TestDefaultsOfVariables(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"${URL}":                               "http://127.0.0.1:1/v1",
		"${URL:-http://other/v1}":              "http://127.0.0.1:1/v1",
		"${NOT_SET:-http://other/v1}":          "http://other/v1",
		"${EMPTY:-http://other/v1}":            "http://other/v1",
		"${NOT_SET:-http://other}/v1":          "http://other/v1",
		"${NOT_SET:-http://${EMPTY:-other}/v1": "", // no variables in a default
		"${NOT_SET-http://other/v1}":           "",
		"${:-http://other/v1}":                 "",
		"${NOT_SET:-http://other/v1":           "",
	} {
		c, err := parse(t, `models: {default: {provider: openai, model: m, baseURL: "`+value+`"}}`, config.Options{})
		switch {
		case want == "" && err == nil:
			t.Errorf("%s: it is taken as %q", value, c.Models["default"].BaseURL.Reveal())
		case want != "" && err != nil:
			t.Errorf("%s: %v", value, err)
		case want != "" && c.Models["default"].BaseURL.Reveal() != want:
			t.Errorf("%s: %q, want %q", value, c.Models["default"].BaseURL.Reveal(), want)
		}
	}

	for _, value := range []string{"${EMPTY}", "${NOT_SET:-}", " ${EMPTY} "} {
		c, err := parse(t, `{models: {default: {provider: anthropic, model: m, baseURL: "`+value+`"}},
			embedder: {provider: openai, model: m, baseURL: "`+value+`"}}`, config.Options{})
		if err != nil {
			t.Errorf("%s: %v", value, err)
		} else if base := c.Models["default"].BaseURL; !base.IsZero() || !c.Embedder.BaseURL.IsZero() {
			t.Errorf("%s: %q, %q", value, base.Reveal(), c.Embedder.BaseURL.Reveal())
		}
	}

	got := problems(t, `
models:
  a: {provider: openai, model: m, baseURL: "${NOT_SET}"}
  b: {provider: openai, model: "${NOT_SET:-m}"}
`)
	if want := []string{"3: models.a.baseURL: the variable NOT_SET is not set",
		"4: models.b.model: the variable NOT_SET cannot be used here, because this text goes on record; a dollar itself " +
			"is written $$"}; !slices.Equal(got, want) {
		t.Errorf("cmp.Diff(want, got) = %v", cmp.Diff(want, got))
	}
}
