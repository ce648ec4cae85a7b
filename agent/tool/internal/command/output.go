package tests

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// Bounds of what is kept of an output, in bytes. What failed stands at the end as a rule.
const (
	maxHead = 8 << 10
	maxTail = 48 << 10
)

// output keeps the beginning and the end of what is written.
type output struct {
	mu         sync.Mutex
	head, tail []byte
	dropped    int
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(b)
	room := min(maxHead-len(o.head), len(b))
	o.head = append(o.head, b[:room]...)
	o.tail = append(o.tail, b[room:]...)
	if more := len(o.tail) - maxTail; more > maxTail { // not for each write
		o.drop(more)
	}
	return n, nil
}

func (o *output) drop(n int) {
	o.tail = append([]byte(nil), o.tail[n:]...)
	o.dropped += n
}

// String returns what was kept as valid UTF-8, with a notice of what was not.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if more := len(o.tail) - maxTail; more > 0 {
		o.drop(more)
	}
	text := string(o.head)
	if o.dropped > 0 {
		text += fmt.Sprintf("\n... (%d bytes left out)\n", o.dropped)
	}
	return strings.ToValidUTF8(text+string(o.tail), "\uFFFD")
}

// end returns the last bytes of a text, at most limit.
func end(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}
