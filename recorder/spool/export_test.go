package spool

// With small files, few records fill many files.
func init() { segmentBytes = 256 << 10 }

// Bytes returns how many bytes wait on disk.
func (s *Spool) Bytes() int64 {
	_, bytes := s.queue.Len()
	return bytes
}
