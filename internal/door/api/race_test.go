//go:build race

package api_test

// The race detector makes reading bytes many times slower.
func init() {
	hugeText, hugeList = 5<<20, 100_000
	largeStep, deepLevels = 16, 200
}
