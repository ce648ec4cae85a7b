//go:build race

package pgtest

const raced = true
