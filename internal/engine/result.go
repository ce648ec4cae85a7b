package engine

// Result is how a run ended.
type Result struct {
	Summary string // what the run answers; one that failed may say here how far it came
	Said    bool   // the executor itself added what was said to the conversation
}

// RunError ends a step or a run as FAILED.
type RunError struct {
	Kind    string // a short class of the error, to count by
	Message string
}

func (f *RunError) Error() string { return f.Message }
