package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/actlog/actlog/agent/mcp"
	"github.com/actlog/actlog/agent/tool"
)

func ExamplePool() {
	ctx := context.Background()
	pool := mcp.NewPool(mcp.Options{})
	defer pool.Close()

	program, err := os.Executable() // a server, for example "npx"
	if err != nil {
		fmt.Println(err)
		return
	}

	tools, err := pool.Tools(ctx, map[string]mcp.Server{
		"demo": {
			Command: []string{program}, Env: map[string]string{serverVariable: "new"}, Exclude: []string{"e*v"}, Trusted: true,
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	set, err := tool.NewSet(tools...)
	if err != nil {
		fmt.Println(err)
		return
	}

	echo, _ := set.Get("demo-echo")
	result, err := tool.Do(ctx, echo, echo.Spec().Policy,
		tool.Call{ID: "call-1", Arguments: json.RawMessage(`{"message":"hello"}`)}, 0)
	fmt.Println(result.Text, err)
	// Output: {"message":"hello"} call-1 <nil>
}
