// Package redact replaces what matches patterns in texts. A pattern is a named kind, such as email, or
// a regular expression (RE2). What matches is replaced by a marker: "[email]", or "[redacted]" for
// regular expressions.
package redact
