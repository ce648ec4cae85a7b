package define

import (
	"encoding/json"
	"strings"
	"time"
)

// Schedule says when a run is started again and again, and which.
type Schedule struct {
	Cron     string        `json:"cron"`
	Timezone string        `json:"timezone"`
	Jitter   Span          `json:"jitter"` // by how much a tick may be late on purpose
	Overlap  OverlapPolicy `json:"overlap"`
	CatchUp  CatchUpPolicy `json:"catchUp"`
	Window   Span          `json:"window"` // for how long a tick that was missed can be made up for
	Paused   bool          `json:"paused"`
	Start
}

// Start is what is started, as the body of a request says it.
type Start struct {
	Executor       string          `json:"executor"`
	Name           string          `json:"runName,omitempty"` // what to run; a schedule has a name itself
	Input          json.RawMessage `json:"input"`
	ConversationID string          `json:"conversationId,omitempty"`
	Project        string          `json:"project,omitempty"`
	UserID         string          `json:"userId,omitempty"`
	Tags           []string        `json:"tags,omitempty"`
	Limits         *Limits         `json:"limits,omitempty"`
	Priority       *int            `json:"priority,omitempty"` // nil: the default
	ConcurrencyKey string          `json:"concurrencyKey,omitempty"`
}

// OverlapPolicy says what a tick does while a run of its schedule goes on.
type OverlapPolicy string

// What a tick does while a run of its schedule goes on.
const (
	OverlapSkip   OverlapPolicy = "skip"   // nothing
	OverlapQueue  OverlapPolicy = "queue"  // its run begins when the others have ended
	OverlapCancel OverlapPolicy = "cancel" // the others are stopped; then its run begins
)

// CatchUpPolicy says which ticks are made up for that were missed.
type CatchUpPolicy string

// Which ticks are made up for.
const (
	CatchUpNone CatchUpPolicy = "none"
	CatchUpLast CatchUpPolicy = "last"
	CatchUpAll  CatchUpPolicy = "all"
)

// Overlaps and CatchUps are the values that there are, the default first.
var (
	Overlaps = []OverlapPolicy{OverlapSkip, OverlapQueue, OverlapCancel}
	CatchUps = []CatchUpPolicy{CatchUpLast, CatchUpNone, CatchUpAll}
)

// NewSchedule returns a schedule with the defaults.
func NewSchedule() Schedule {
	return Schedule{Timezone: "UTC", Overlap: OverlapSkip, CatchUp: CatchUpLast, Window: Span(time.Hour)}
}

// Bounds of schedules.
const (
	MaxJitter = Span(24 * time.Hour)
	MaxWindow = Span(30 * 24 * time.Hour)
)

// Span is how long something takes, written as 90s, 5m or 1h30m; 0 is one, too.
type Span time.Duration

// String returns the shortest form.
func (s Span) String() string {
	text := time.Duration(s).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalText returns the String.
func (s Span) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
