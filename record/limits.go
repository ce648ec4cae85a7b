package record

// Limits of what a field may hold.
const (
	// MaxIDBytes bounds ids. Names are cut to it.
	MaxIDBytes = 255
	// MaxAddressBytes bounds addresses of rows: a number and two ids, of which each byte may be escaped.
	MaxAddressBytes = 2*3*MaxIDBytes + 32
	// MaxTextBytes bounds texts and JSON values. Longer ones are cut.
	MaxTextBytes = 4 << 20
	// MaxJSONDepth bounds the nesting of JSON values.
	MaxJSONDepth = 100
	// MaxListItems bounds lists of texts. Longer ones are cut.
	MaxListItems = 1_000
	// MaxPastAttempts bounds the earlier attempts that are kept of a step, cycle or tool call:
	// those with the highest numbers.
	MaxPastAttempts = 1_000
	// MaxAttemptTextBytes bounds the error of an attempt in the list of attempts. Longer ones
	// are cut there; the row has the whole error of its last attempt.
	MaxAttemptTextBytes = 2 << 10
	// MaxCount bounds counts and costs, so that their sums fit a bigint: one absurd figure
	// must not spoil the figures of everything above it.
	MaxCount = 1_000_000_000_000
	// MinYear bounds times. Earlier ones come from values that were never set, not from clocks,
	// however wrong: a clock that knows no time begins in 1970.
	MinYear = 1970
	// MaxYear bounds times: 64 bits of nanoseconds end in it.
	MaxYear = 2262
)
