package nearest_test

import (
	"testing"

	"github.com/actlog/actlog/internal/record/nearest"
)

func TestName(t *testing.T) {
	t.Parallel()
	names := []string{"title", "stepIndex", "thinkOutput", "modelName", "name"}
	for wrong, want := range map[string]string{
		"titel": "title", "Title": "title", "step_index": "stepIndex", "output": "thinkOutput", "naem": "name",
		"put": "", "x": "", "": "", "somethingElse": "",
	} {
		if got := nearest.Name(wrong, names); got != want {
			t.Errorf("nearest to %q: got %q, want %q", wrong, got, want)
		}
	}
}
