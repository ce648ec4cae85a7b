package redact_test

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/redact"
)

func BenchmarkText(b *testing.B) {
	r, _ := redact.New(redact.Kinds()...)
	for _, x := range []struct{ name, text string }{
		{"prose", strings.Repeat("The quick brown fox jumps over the lazy dog, again. ", 200)},
		{
			"code", strings.Repeat("	if err := f.Close(); err != nil { // line 12:34\n"+
				"		return fmt.Errorf(\"close %s: %w\", at[0].name, err)\n", 100),
		},
		{"json", strings.Repeat(`{"id": 12345, "name": "x@y", "time": "2026-11-23T03:30:05Z", "v": 1.25}`, 150)},
	} {
		b.Run(x.name, func(b *testing.B) {
			b.SetBytes(int64(len(x.text)))
			for b.Loop() {
				r.Text(x.text)
			}
		})
	}
}
