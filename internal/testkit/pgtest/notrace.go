//go:build !race

package pgtest

const raced = false
