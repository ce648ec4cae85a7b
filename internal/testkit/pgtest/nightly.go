package pgtest

import "os"

// Nightly reports whether tests take their long form: as `make nightly` runs them, with NIGHTLY set.
func Nightly() bool { return os.Getenv("NIGHTLY") != "" }
