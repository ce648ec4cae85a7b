// Package imports owns the rules of who may import whom, and of the layers of files inside a
// package, as tests. It has no code of the product.
package imports
