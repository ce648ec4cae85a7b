package tests_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/tests"
)

func ExampleTools() {
	tools, err := tests.Tools(tests.Command{Name: "unit", Dir: ".", Arguments: []string{"echo", "15 passed in"}})
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, arguments := range []string{`{"path":"doc.go"}`, `{"path":"../.."}`} {
		result, err := tool.Do(context.Background(), tools[0], tools[0].Spec().Policy,
			tool.Call{Arguments: json.RawMessage(arguments)}, 0)
		fmt.Printf("%q %q %v\n", result.Summary, result.Text, err)
	}
	// Output:
	// "15 tests passed" "15 tests passed.\n15 passed in ./doc.go\n" <nil>
	// "" "path: \"../..\" is not a path below the folder" <nil>
}
