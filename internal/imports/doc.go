// Package imports owns the rules of who may import whom, as a test. It has no
// code of the product.
package imports
