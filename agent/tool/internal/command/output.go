package command

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

// Output keeps the beginning and the end of what is written. It may be written to at the same time.
type Output struct {
	mu         sync.Mutex
	head, tail []byte
	dropped    int
}

// Write implements [io.Writer]. It never fails.
func (o *Output) Write(b []byte) (int, error) {
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

func (o *Output) drop(n int) {
	o.tail = append([]byte(nil), o.tail[n:]...)
	o.dropped += n
}

// String returns what was kept as valid UTF-8, with a notice of what was not.
func (o *Output) String() string {
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

// End returns the last bytes of a text, at most limit, as valid UTF-8.
func End(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}
