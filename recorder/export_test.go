package recorder

// LimitRecords makes a limit that is costly to reach a small one.
func (s *HTTPSink) LimitRecords(bytes int) { s.maxRecord = bytes }
