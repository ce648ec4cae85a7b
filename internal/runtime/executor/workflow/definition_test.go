package workflow

import "testing"

func TestTitleOf(t *testing.T) {
	t.Parallel()

	for request, want := range map[string]string{
		"Say it.":                          "Say it.",
		`{"n":1} and more`:                 `{"n":1} and more`,
		`null`:                             `null`,
		`{}`:                               "w",
		`{"z":" é","a":true,"b":false}`:    "w: a true, b false, z  é",
		`{"a":null,"b":[1],"c":{"d":1}}`:   "w",
		`{"n":12345678,"x":1.5,"y":-0.10}`: "w: n 12345678, x 1.5, y -0.10",
		`{"id": 9007199254740993 }`:        "w: id 9007199254740993",
	} {
		if got := titleOf("w", request); got != want {
			t.Errorf("%s: got %q, want %q", request, got, want)
		}
	}
}
