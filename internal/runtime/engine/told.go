package engine

import (
	"reflect"
	"slices"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/record"
)

// told is what a model was told in a cycle besides what the executor told it, and from then on.
type told struct {
	seq      int64
	request  []model.Message // of the executor, in that cycle
	messages []model.Message
}

// tolds are in the order of their cycles.
type tolds []told

// tell notes what a cycle reads. request is that of the executor.
func (all *tolds) tell(seq int64, request []model.Message, read []record.SteeringMessage) {
	*all = slices.DeleteFunc(*all, func(t told) bool { return t.seq == seq })
	if len(read) == 0 {
		return
	}
	next := told{seq: seq, request: request}
	for _, m := range read {
		next.messages = append(next.messages, model.User(m.Text))
	}
	*all = append(*all, next)
}

// with returns a request of the executor with what the model was told besides, up to a cycle. Each message is where the
// conversation was when it was read. If the conversation began again since, as with a summary, that is after what both
// have in common.
func (all tolds) with(seq int64, request []model.Message) []model.Message {
	if len(all) == 0 {
		return request
	}

	behind := make([][]model.Message, len(request)+1)
	for _, t := range all {
		if t.seq <= seq {
			at := placeIn(request, t.request)
			behind[at] = append(behind[at], t.messages...)
		}
	}

	whole := slices.Clone(behind[0])
	for i, m := range request {
		whole = append(append(whole, m), behind[i+1]...)
	}
	return whole
}

// placeIn returns how many messages of a request a message comes behind that came behind an earlier one. It is not put
// before the system prompt, nor between calls and their results.
func placeIn(request, earlier []model.Message) int {
	at := 0
	for at < min(len(request), len(earlier)) && reflect.DeepEqual(request[at], earlier[at]) {
		at++
	}
	for at < len(request) && (request[at].Role == model.RoleTool || request[at].Role == model.RoleSystem) {
		at++
	}
	return at
}
