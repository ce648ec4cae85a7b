package docker_test

import (
	"fmt"

	"github.com/actlog/actlog/agent/tool/docker"
)

// The tools of a program that may look at the containers of the shop.
func ExampleTools() {
	all, err := docker.Tools(docker.Options{Socket: "/var/run/docker.sock", Containers: []string{"shop-*"}})
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, each := range all {
		fmt.Println(each.Spec().Name)
	}
	// Output:
	// docker.list_containers
	// docker.inspect
	// docker.logs
	// docker.stats
	// docker.list_images
}
