package recorder

// LimitRecords lowers a limit that is costly to reach.
func (s *HTTPSink) LimitRecords(bytes int) { s.maxRecord = bytes }
