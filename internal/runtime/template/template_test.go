package template_test

import (
	"errors"
	"testing"

	"github.com/actlog/actlog/internal/runtime/template"
	"github.com/actlog/actlog/record"
)

// B38: placeholders are replaced, planId is always one, and one without a value is named.
func TestTemplate(t *testing.T) {
	t.Parallel()
	texts := []string{"Read <<path>> of <<the-repo>>.", "<<path>> <<planId>> <<>> <<a<b>> 1 << 2"}
	names := []string{"path", "planId", "the-repo"}
	values := map[string]string{"path": "<<planId>>/x", "the-repo": "$1", "planId": "forged"}

	for i, want := range []string{"Read <<planId>>/x of $1.", "<<planId>>/x plan-7 <<>> <<a<b>> 1 << 2"} {
		if got := template.Fill(texts[i], "plan-7", values); got != want {
			t.Errorf("template.Fill = %q, want %q", got, want)
		}
	}
	if err := template.Check(names, values); err != nil {
		t.Error(err)
	}

	delete(values, "the-repo")
	var invalid *record.InvalidError
	if err := template.Check(names, values); !errors.As(err, &invalid) || invalid.Field != "the-repo" {
		t.Errorf("template.Check(names, values) = %v", err)
	}
	if got := template.Fill(texts[0], "plan-7", nil); got != texts[0] {
		t.Errorf("without values: %q", got)
	}
}
