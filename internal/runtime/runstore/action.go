package runstore

import "cmp"

// Action is what somebody asks of a run and all below it.
type Action string

// The actions.
const (
	Stop   Action = "STOP"
	Pause  Action = "PAUSE"
	Resume Action = "RESUME"

	retryAction Action = "RETRY" // see [Store.Retry]
	againAction Action = "AGAIN" // see [NewRun]
	forkAction  Action = "FORK"  // see [Store.Fork]
	runAction   Action = "RUN"   // see [NewRun]
)

// Who is who asks for something.
type Who struct {
	Name  string // as the server or the program knows them; empty: it does not
	Claim string // as they say themselves; may be empty
}

// String returns who asks, as they say, else as they are known; empty: nobody knows.
func (w Who) String() string { return cmp.Or(w.Claim, w.Name) }
