package define_test

import (
	"testing"

	"github.com/actlog/actlog/internal/runtime/define"
)

// B38: placeholders are replaced, planId is always one, and one without a value is named.
func TestTemplate(t *testing.T) {
	t.Parallel()
	texts := []string{"Read <<path>> of <<the-repo>>.", "<<path>> <<planId>> <<>> <<a<b>> 1 << 2"}
	names := []string{"path", "planId", "the-repo"}
	values := map[string]string{"path": "<<planId>>/x", "the-repo": "$1", "planId": "forged"}

	for i, want := range []string{"Read <<planId>>/x of $1.", "<<planId>>/x plan-7 <<>> <<a<b>> 1 << 2"} {
		if got := define.Fill(texts[i], "plan-7", values); got != want {
			t.Errorf("define.Fill = %q, want %q", got, want)
		}
	}
	if name, lacks := define.Lacking(names, values); lacks {
		t.Errorf("define.Lacking = %q", name)
	}

	delete(values, "the-repo")
	if name, lacks := define.Lacking(names, values); !lacks || name != "the-repo" {
		t.Errorf("define.Lacking = %q, %t", name, lacks)
	}
	if got := define.Fill(texts[0], "plan-7", nil); got != texts[0] {
		t.Errorf("without values: %q", got)
	}
}
