package web

import (
	"strings"

	"github.com/actlog/actlog/record"
)

// stateWord is the word for a state, as in the record.
func stateWord(s record.State) string {
	return strings.ToLower(strings.ReplaceAll(string(s), "_", " "))
}

// stateIcon is a sign for a state beside its word: states are not told by colour alone.
func stateIcon(s record.State) string {
	switch s {
	case record.Completed:
		return "✓"
	case record.Failed, record.Interrupted, record.Blocked:
		return "✗"
	case record.Running:
		return "▶"
	case record.Waiting, record.AwaitingApproval:
		return "◐"
	case record.Paused:
		return "‖"
	case record.Cancelled, record.Skipped:
		return "⊘"
	case record.Unknown:
		return "?"
	}
	return "○"
}

func stateClass(s record.State) string {
	switch s {
	case record.Completed:
		return "good"
	case record.Failed, record.Interrupted, record.Blocked, record.Unknown:
		return "bad"
	case record.Running, record.Waiting, record.AwaitingApproval, record.Paused:
		return "open"
	}
	return "other"
}
