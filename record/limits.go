package record

// Limits of what a field may hold.
const (
	// MaxIDBytes bounds ids. Names are cut to it.
	MaxIDBytes = 255
	// MaxTextBytes bounds texts and JSON values. Longer ones are cut.
	MaxTextBytes = 4 << 20
	// MaxJSONDepth bounds the nesting of JSON values.
	MaxJSONDepth = 100
	// MaxListItems bounds lists of texts. Longer ones are cut.
	MaxListItems = 1_000
	// MaxCount bounds counts and costs, so that their sums fit a bigint: one absurd figure
	// must not spoil the figures of everything above it.
	MaxCount = 1_000_000_000_000
)
