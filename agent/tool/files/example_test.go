package files_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/files"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	folder, err := files.Open(dir, files.Options{Write: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer folder.Close()
	set, err := tool.NewSet(folder.Tools()...)
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, call := range []struct{ name, arguments string }{
		{"files.write_file", `{"path":"src/main.py","content":"# BUG\nprint(1)\n"}`},
		{"files.search_in_files", `{"pattern":"BUG"}`},
		{"files.read_file", `{"path":"../secret"}`},
	} {
		t, _ := set.Get(call.name)
		result, err := tool.Do(context.Background(), t, t.Spec().Policy,
			tool.Call{Arguments: json.RawMessage(call.arguments)}, 0)
		fmt.Printf("%q %q %v\n", result.Summary, result.Text, err)
	}
	// Output:
	// "Wrote 2 lines to src/main.py" "Wrote 2 lines to src/main.py." <nil>
	// "Found 1 match in src/main.py" "src/main.py:1: # BUG\n" <nil>
	// "" "../secret: the path leaves the folder" <nil>
}
