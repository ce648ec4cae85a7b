package spool

// With small files, few records fill many files.
func init() { segmentBytes = 256 << 10 }
