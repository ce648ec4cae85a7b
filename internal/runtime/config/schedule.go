package config

import (
	"encoding/json"
	"errors"

	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/schedule"
	"github.com/actlog/actlog/record"
)

func readSchedule(n node, name string, there knownNames) define.Schedule {
	s := define.NewSchedule()
	g := n.object(fields{
		"cron":     func(n node) { s.Cron = n.word() },
		"timezone": func(n node) { s.Timezone = n.word() },
		"jitter":   func(n node) { s.Jitter = define.Span(n.duration()) },
		"overlap":  func(n node) { s.Overlap = oneOf(n, define.Overlaps...) },
		"catchUp":  func(n node) { s.CatchUp = oneOf(n, define.CatchUps...) },
		"window":   func(n node) { s.Window = define.Span(n.duration()) },
		"paused":   func(n node) { s.Paused = n.boolean() },

		"executor":       func(n node) { s.Executor = n.word() },
		"name":           func(n node) { s.Name = n.word() },
		"input":          func(n node) { s.Input = n.input(there) },
		"conversationId": func(n node) { s.ConversationID = n.word() },
		"project":        func(n node) { s.Project = n.word() },
		"userId":         func(n node) { s.UserID = n.word() },
		"tags":           func(n node) { s.Tags = n.words() },
		"limits":         func(n node) { s.Limits = new(readLimits(n)) },
		"priority":       func(n node) { s.Priority = new(int(n.whole(0, 9))) },
		"concurrencyKey": func(n node) { s.ConcurrencyKey = n.word() },
	})
	g.require("cron", "executor", "input")
	if !g.has("cron") {
		return s
	}

	_, err := schedule.NewTiming(name, s)
	if bad := new(record.InvalidError); errors.As(err, &bad) && g.at(bad.Field).valid() {
		g.at(bad.Field).problem("%s", bad.Reason)
	}
	return s
}

// input returns the input of a run as JSON. An agent that it names must be there.
func (n node) input(there knownNames) json.RawMessage {
	if !n.is("a mapping", "!!map") {
		return nil
	}
	if agent := n.child("agent"); agent.path != n.path {
		agent.reference("agent", there.agents)
	}
	text, _ := n.json()
	return text
}

// valid reports whether no mistake was noted at this place.
func (n node) valid() bool {
	for _, p := range n.file.problems {
		if p.Field == n.path {
			return false
		}
	}
	return true
}
