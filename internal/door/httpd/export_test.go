package httpd

import "net/http"

// AddressOf is the address of the client that made a request.
func AddressOf(p Proxies, r *http.Request) string { return p.client(r).String() }

// Waiting is how many requests wait for a turn.
func (t *Turns) Waiting() int {
	t.taken.Lock()
	defer t.taken.Unlock()
	return len(t.waiting)
}

// HeldAnswers is how many bytes answers hold, and how many large ones are made.
func HeldAnswers(s *Server) (bytes int64, making int) { return s.answers.Held(), s.making.Taken() }
