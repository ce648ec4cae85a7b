package engine

// Result is how a run ended well.
type Result struct {
	Summary string // what the run answers
}

// RunError ends a step or a run as FAILED.
type RunError struct {
	Kind    string // a short class of the error, to count by
	Message string
}

func (f *RunError) Error() string { return f.Message }
