package engine

import "time"

// DefaultLease is how long the runs of a worker are its own after a heartbeat. When a worker is killed, others go on
// with its runs after this time.
const DefaultLease = 3 * time.Second
