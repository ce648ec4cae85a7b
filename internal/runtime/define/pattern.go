package define

// Overlap reports whether there is a name that both patterns match, as [tool.Match] has it.
func Overlap(a, b string) bool {
	// fits[j] says whether the rest of a that was looked at and b[j:] overlap.
	fits, next := make([]bool, len(b)+1), make([]bool, len(b)+1)
	for i := len(a); i >= 0; i-- {
		for j := len(b); j >= 0; j-- {
			switch {
			case i == len(a) && j == len(b):
				next[j] = true
			case i < len(a) && a[i] == '*':
				next[j] = fits[j] || j < len(b) && next[j+1]
			case j < len(b) && b[j] == '*':
				next[j] = next[j+1] || i < len(a) && fits[j]
			default:
				next[j] = i < len(a) && j < len(b) && a[i] == b[j] && fits[j+1]
			}
		}
		fits, next = next, fits
	}

	return fits[0]
}
