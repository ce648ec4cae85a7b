package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// seen are the places where hidden paths were seen, links followed. A program that moves one, or changes a link on
// the way to it, does not make the next one forget where it is.
var seen = struct {
	sync.Mutex
	at map[string][]string // by the path that is hidden
}{at: map[string][]string{}}

// remember keeps where a hidden path is now, and returns all places where it was seen.
func remember(path string) []string {
	real, there := resolve(path, nil)
	seen.Lock()
	defer seen.Unlock()

	if there && !slices.Contains(seen.at[path], real) {
		seen.at[path] = append(seen.at[path], real)
	}
	return slices.Clone(seen.at[path])
}

// hiddenOf returns what is hidden of some paths, wherever it was seen. It is an error if that has gone from a folder
// that the program writes: what cannot be found cannot be hidden, and may have another name there by now.
func hiddenOf(paths, writable []string) ([]string, error) {
	all := realOf(paths)
	for _, path := range paths {
		for _, at := range remember(path) {
			if _, err := os.Lstat(at); err != nil && below(at, writable) {
				return nil, fmt.Errorf("sandbox: %s, which programs must not reach, was there and is gone; "+
					"put it back, or restart the server if it is to be gone", filepath.Base(at))
			}
			all = append(all, at)
		}
	}

	slices.Sort(all) // a folder before what is in it
	return slices.Compact(all), nil
}

// below reports whether a path is one of some folders, or in one.
func below(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return within(path, folder) })
}
