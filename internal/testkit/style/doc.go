// Package style checks how the code is written: its paragraphs, its assignments and the length of its lines. It has
// only tests.
package style
