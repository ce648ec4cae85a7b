package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/actlog/actlog/agent/tool"
)

func ExampleFunc() {
	type Transfer struct {
		To     string  `json:"to" jsonschema:"account that gets the money"`
		Amount float64 `json:"amount" jsonschema:"in euros"`
	}
	pay := tool.Func("pay-transfer", "Transfers money.", func(_ context.Context, in Transfer) (string, error) {
		return fmt.Sprintf("%.2f EUR are on their way to %s.", in.Amount, in.To), nil
	}, tool.WithPolicy(tool.Policy{Writes: true, Approval: true, OnUnknown: tool.Ask, Timeout: 30 * time.Second}))

	for _, arguments := range []string{`{"to":"Ada","amount":12.5}`, `{"to":"Ada","amount":"all"}`} {
		result, err := tool.Do(context.Background(), pay, pay.Spec().Policy,
			tool.Call{ID: "call-1", Arguments: json.RawMessage(arguments)}, 0)
		fmt.Println(result.Failed, result.Text, err)
	}
	// Output:
	// false 12.50 EUR are on their way to Ada. <nil>
	// true Bad arguments: amount: type: all has type "string", want "number" <nil>
}

func ExampleSet_Select() {
	nothing := func(context.Context, struct{}) (string, error) { return "", nil }
	all, err := tool.NewSet(
		tool.Func("files.read_file", "Reads a file.", nothing),
		tool.Func("files.write_file", "Writes a file.", nothing),
		tool.Func("git.status", "Says what changed.", nothing),
	)
	if err != nil {
		fmt.Println(err)
		return
	}

	some, err := all.Select("files.*")
	fmt.Println(some.Names(), err)
	_, err = all.Select("git.push")
	fmt.Println(err)
	// Output:
	// [files.read_file files.write_file] <nil>
	// no tool has the name git.push; there are: files.read_file, files.write_file, git.status
}
