package files

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/internal/folder"
)

// maxEdited bounds a file after an edit, in bytes.
const maxEdited = folder.MaxFile

const maxPlaces = 20

// splitLines returns the lines of a text, each with its end.
func splitLines(text string) []string {
	all := strings.SplitAfter(text, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// plainLines returns lines without what does not count when they are compared: how they end.
func plainLines(text string) string {
	return strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
}

// wholeLines returns the numbers of the lines at which lines stand in a file.
func wholeLines(all, part []string) (numbers []string) {
	if len(part) == 0 {
		return nil
	}

	for i := 0; i+len(part) <= len(all) && len(numbers) < maxPlaces; i++ {
		if slices.EqualFunc(all[i:i+len(part)], part, func(a, b string) bool { return plainLines(a) == plainLines(b) }) {
			numbers = append(numbers, strconv.Itoa(i+1))
		}
	}
	return numbers
}

const (
	maxNear     = 20  // lines of a file in an error
	maxNearText = 300 // bytes of each
)

func showLines(all []string, first, last int) string {
	var text strings.Builder
	for i := first; i <= min(last, len(all)); i++ {
		fmt.Fprintf(&text, "%d\t%s\n", i, tool.Cut(strings.TrimRight(all[i-1], "\r\n"), maxNearText))
	}
	return text.String()
}
