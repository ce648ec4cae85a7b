package http_test

import (
	"fmt"

	tools "github.com/actlog/actlog/agent/tool/http"
)

// The tools of a program that may read from one API, and report to another.
func ExampleTools() {
	all, err := tools.Tools(tools.Options{
		Hosts:   []string{"api.example.com", "*.example.org"},
		Methods: []string{"GET", "POST"},
		Headers: map[string]map[string]string{"api.example.com": {"Authorization": "Bearer a-token"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, each := range all {
		fmt.Println(each.Spec().Name, each.Spec().Policy.Approval)
	}
	// Output:
	// http.request false
	// http.send true
}
