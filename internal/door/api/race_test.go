//go:build race

package api_test

// The race detector makes reading bytes many times slower.
func init() { hugeText, hugeList, largeStep, deepLevels = 5<<20, 100_000, 16, 200 }
