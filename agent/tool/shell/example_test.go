package shell_test

import (
	"fmt"

	"github.com/actlog/actlog/agent/tool/shell"
)

// The tools of a program that lets a model build, and look around.
func ExampleTools() {
	all, err := shell.Tools(
		shell.Command{Name: "build", Dir: ".", Arguments: []string{"make", "build"}},
		shell.Command{Name: "ls", Dir: ".", Arguments: []string{"ls"}, Allow: "[a-z/]+", NoApproval: true},
	)
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, each := range all {
		fmt.Println(each.Spec().Name, each.Spec().Policy.Approval)
	}
	// Output:
	// shell.build true
	// shell.ls false
}
