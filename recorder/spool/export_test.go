package spool

// Small files make many of them of few records.
func init() { segmentBytes = 256 << 10 }
