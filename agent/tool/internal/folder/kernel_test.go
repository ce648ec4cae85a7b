//go:build linux

package folder_test

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool/internal/folder"
)

// S11: a folder that has /proc, /sys or /dev in it shows neither variables of programs nor devices.
func TestFilesOfTheKernel(t *testing.T) {
	t.Parallel()
	for root, names := range map[string][]string{
		"/": {
			"proc/self/environ", "proc/1/environ", "proc/self/maps", "sys/kernel/mm/transparent_hugepage/enabled", "dev/null",
			"dev/zero", "dev/stdin",
		},
		// also where it is not called so
		"/proc/self": {"environ", "status", "root/etc/hostname", "cwd/folder.go"},
	} {
		f, err := folder.Open(root, "*")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })

		for _, name := range names {
			if _, content, _, err := f.Content(name); err == nil || strings.Contains(err.Error(), "no such file") &&
				!strings.HasPrefix(name, "sys") {
				t.Errorf("%s in %s: %d bytes, %v", name, root, len(content), err)
			}
		}
	}
}
