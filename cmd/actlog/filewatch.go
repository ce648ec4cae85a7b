package main

import (
	"context"
	"crypto/sha256"
	"os"
	"time"

	"github.com/actlog/actlog/internal/pg"
)

// fileEvery is how often a file is looked at for changes.
const fileEvery = time.Second

// fileChanges sends when a file has another content than before, until ctx ends. A file that is being written is waited
// for: its content must be the same twice. The content counts, not the times of the file, so a link that points
// to another file now, as in a mounted secret, is a change.
func fileChanges(ctx context.Context, path string) <-chan struct{} {
	changes := make(chan struct{})
	known := contentOf(path)
	go func() {
		last := known
		for pg.Pause(ctx, fileEvery) == nil {
			now := contentOf(path)
			if now == last && now != known {
				select {
				case changes <- struct{}{}:
				case <-ctx.Done():
				}
				known = now
			}
			last = now
		}
	}()
	return changes
}

// contentOf returns a hash of a file; of the error if it cannot be read.
func contentOf(path string) [sha256.Size]byte {
	text, err := os.ReadFile(path)
	if err != nil {
		text = []byte(err.Error())
	}
	return sha256.Sum256(text)
}
