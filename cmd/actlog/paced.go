package main

import "time"

// progressEvery is how often it is printed how far a call has come, at most.
const progressEvery = 5 * time.Second

// paced says of which calls it was printed lately how far they have come. Its zero value has none.
type paced struct{ printed map[string]time.Time }

// due reports whether it can be printed of a call again, and notes that it is.
func (p *paced) due(toolCallID string, now time.Time) bool {
	if now.Sub(p.printed[toolCallID]) < progressEvery {
		return false
	}
	if p.printed == nil || len(p.printed) > 10_000 { // after this, some are printed early
		p.printed = map[string]time.Time{}
	}
	p.printed[toolCallID] = now
	return true
}
