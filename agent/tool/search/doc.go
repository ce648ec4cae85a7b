// Package search owns the tools that find parts of the texts of one folder by what they are about:
// search.search_code, search.search_documentation and search.search_similar_code.
//
// Parts are found by their words, and with an embedder by their vectors, too: the two rankings are fused. If vectors
// cannot be had, or nothing is near, words alone decide, and the result says so. A result has the ten best parts at
// most, each a source with its lines and a score from 0 to 1: of each file its best one, except for what is like a
// piece of code.
//
// Vectors are kept in memory and, where there is one, in a [Store], by the SHA-256 of the text that they
// are of: a text that did not change is not embedded again, wherever it moves. Each process searches its
// own files: what another worker has of the folder may differ.
package search
