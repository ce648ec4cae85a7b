package scriptmodel

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// stream sends server-sent events, slowly or incompletely if the turn says so.
type stream struct {
	w    http.ResponseWriter
	r    *http.Request
	turn Turn
	sent int
}

// newStream starts the answer: its headers are sent.
func newStream(w http.ResponseWriter, r *http.Request, turn Turn) *stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush() // an error means that the client is gone
	return &stream{w: w, r: r, turn: turn}
}

// send sends one event, with a name if there is one, and reports whether to go on.
func (s *stream) send(name string, v any) bool {
	if s.sent > 0 && !pause(s.r.Context(), time.Duration(s.turn.ChunkDelay)) {
		return false
	}

	if b := s.turn.Break; b != nil && s.sent == b.After {
		if b.Error != nil {
			name := ""
			if s.r.URL.Path == messagesPath {
				name = "error"
			}
			s.write(name, b.Error.apiError().body(s.r))
		}
		if b.Then != "end" {
			b.away(s.r.Context())
		}
		return false
	}

	s.sent++
	return s.write(name, v)
}

func (s *stream) write(name string, v any) bool {
	data, err := json.Marshal(v)
	if done, ok := v.(string); ok {
		data, err = []byte(done), nil
	}
	if err != nil {
		return false
	}

	event := fmt.Sprintf("data: %s\n\n", data)
	if name != "" {
		event = "event: " + name + "\n" + event
	}
	_, err = io.WriteString(s.w, event)
	return err == nil && http.NewResponseController(s.w).Flush() == nil
}

// away closes the connection, at once or when the client leaves. It does not return.
func (b *Break) away(ctx context.Context) {
	if b.Then == "hang" {
		<-ctx.Done()
	}
	panic(http.ErrAbortHandler)
}

// writeStream sends the answer as server-sent events. With usage, every chunk has a usage field:
// null, except in an extra last chunk without choices.
func writeStream(s *stream, answer *completion, usage bool) {
	usage = usage && answer.Usage != nil
	type withUsage struct {
		completion
		Choices []choice `json:"choices"`
		Usage   any      `json:"usage"`
	}

	chunks := answer.chunks()
	for _, chunk := range chunks {
		var v any = chunk
		if usage {
			v = withUsage{completion: chunk, Choices: chunk.Choices}
		}
		if !s.send("", v) {
			return
		}
	}

	if usage && !s.send("", withUsage{completion: chunks[0], Choices: []choice{}, Usage: answer.Usage}) {
		return
	}
	s.send("", "[DONE]")
}
