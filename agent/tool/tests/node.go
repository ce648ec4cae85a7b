package tests

import (
	"os"
	"path/filepath"
	"strings"
)

// memory lets Node say how much memory it uses where /proc cannot be read, as in Landlock: without it, workers of
// Vitest fail when they report it, and Vitest waits for ever.
const memory = `'use strict';
try {
  process.memoryUsage();
} catch {
  const { getHeapStatistics } = require('node:v8');
  const usage = () => {
    const heap = getHeapStatistics();
    return {
      rss: heap.total_physical_size, heapTotal: heap.total_heap_size, heapUsed: heap.used_heap_size,
      external: heap.external_memory, arrayBuffers: 0,
    };
  };
  process.memoryUsage = Object.assign(usage, { rss: () => usage().rss });
}
`

// nodeOptions writes what Node loads first into a folder, and returns the variable that says so, with what it was.
func nodeOptions(dir, before string) (string, error) {
	at := filepath.Join(dir, "memory.cjs")
	if err := os.WriteFile(at, []byte(memory), 0o600); err != nil {
		return "", err
	}
	quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(at) + `"`
	return strings.TrimSpace(before + " --require=" + quoted), nil
}
