package search

// Age lets the vectors in memory be as old as they can become there.
func (v *Vectors) Age() {
	for _, each := range v.kept {
		each.since = each.since.Add(-maxAge)
	}
}
