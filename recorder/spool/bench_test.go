package spool_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
	"github.com/actlog/actlog/recorder/spool"
)

// BenchmarkSpooledWrite measures the time until a record of 1 KB is in the log.
func BenchmarkSpooledWrite(b *testing.B) {
	for _, durable := range []bool{false, true} {
		b.Run(fmt.Sprint("sync=", durable), func(b *testing.B) {
			s, err := spool.Open(b.TempDir(), recorder.Discard, spool.Options{Sync: durable})
			if err != nil {
				b.Fatal(err)
			}

			changes := []record.Change{artifact("a", strings.Repeat("x", 1_000))}
			b.ReportAllocs()
			for b.Loop() {
				if result, err := s.Write(b.Context(), changes); err != nil || result.Accepted != 1 {
					b.Fatalf("s.Write(b.Context(), changes) = %v, %v", result, err)
				}
			}

			b.StopTimer()
			if err := s.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
