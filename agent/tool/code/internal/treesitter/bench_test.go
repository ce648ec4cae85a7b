package treesitter

import (
	"os"
	"strings"
	"testing"
)

// samples are ordinary texts of a few KiB, which are repeated.
var samples = [languages]string{Python: "sample.py", Java: "Sample.java", TypeScript: "sample.ts", TSX: "sample.tsx"}

func BenchmarkParse(b *testing.B) {
	for l, name := range samples {
		b.Run(Language(l).String(), func(b *testing.B) {
			one, err := os.ReadFile("testdata/" + name)
			if err != nil {
				b.Fatal(err)
			}

			text := []byte(strings.Repeat(string(one), 100<<10/len(one)))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := Parse(b.Context(), Language(l), text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
