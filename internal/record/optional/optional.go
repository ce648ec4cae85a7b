// Package optional owns values that may be missing: as pointers, which are nil then, and as zero values.
package optional

// Value returns what a pointer points to, or the zero value if it is nil.
func Value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Pointer returns a pointer to a value, or nil if it is the zero value.
func Pointer[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
