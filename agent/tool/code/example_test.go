package code_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/code"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	text := "package a\n\nfunc positive(n int) bool {\n\tif n > 0 {\n\t\treturn true\n\t}\n\treturn false\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	folder, err := code.Open(dir, code.Options{})
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

	for _, name := range []string{"code.analyze_complexity", "code.suggest_refactoring"} {
		t, _ := set.Get(name)
		result, err := tool.Do(context.Background(), t, t.Spec().Policy,
			tool.Call{Arguments: json.RawMessage(`{"path":"a.go"}`)}, 0)
		fmt.Println(result.Summary, len(result.Sources), err)
	}
	// Output:
	// Measured 1 functions in 1 files 1 <nil>
	// Found 1 refactorings in 1 files 1 <nil>
}
