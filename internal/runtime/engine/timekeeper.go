package engine

import (
	"sync"
	"time"

	"github.com/actlog/actlog/internal/runtime/define"
)

// timekeeper is what who keeps time knows. One goroutine of an engine does, and holds it.
type timekeeper struct {
	sync.Mutex
	filed     map[string]filedSchedule // that this process put on record as those of the configuration
	forgotten time.Time                // when old ticks were last deleted
}

// filedSchedule is a schedule of the configuration, and its hash.
type filedSchedule struct {
	define.Schedule
	hash string
}
