package git_test

import (
	"context"
	"fmt"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/git"
)

func ExampleTools() {
	tools, err := git.Tools(".", git.Options{Write: true, Name: "Reviewer", Email: "reviewer@example.org"})
	if err != nil {
		fmt.Println(err)
		return
	}

	// This definition lets agents commit without a human's approval.
	never := false
	rules := tool.Rules{{Tools: "git.commit", Approval: &never}}
	for _, t := range tools { // none where git is not installed
		policy := rules.Policy(t.Spec().Name, t.Spec().Policy)
		result, err := tool.Do(context.Background(), t, policy, tool.Call{ID: "call-1"}, 0)
		fmt.Println(t.Spec().Name, result.Summary, err)
	}
}
