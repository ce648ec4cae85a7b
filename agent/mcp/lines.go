package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxMessage bounds a message of a server, in bytes.
const maxMessage = 16 << 20

var errTooLong = errors.New("the server sent a message of more than 16 MiB")

// messages reads the messages among the lines that a server writes to its standard output. Many servers, or
// what they load, print other lines there; each goes to other.
type messages struct {
	io.Closer
	lines *bufio.Reader
	other io.Writer
	left  []byte // of a message that was read
}

func (m *messages) Read(p []byte) (int, error) {
	for len(m.left) == 0 {
		line, err := readLine(m.lines)
		message := exact(line)

		switch {
		case isMessage(message):
			m.left = append(bytes.TrimSpace(message), '\n')
		case errors.Is(err, errTooLong) && bytes.Contains(line, []byte(`"jsonrpc"`)):
			return 0, err
		case len(line) > 0:
			// What the writer cannot take is not worth the connection.
			_, _ = m.other.Write(append(bytes.TrimSuffix(line, []byte("\n")), '\n'))
		}

		if err != nil && !errors.Is(err, errTooLong) && len(m.left) == 0 {
			return 0, err
		}
	}

	n := copy(p, m.left)
	m.left = m.left[n:]
	return n, nil
}

// isMessage reports whether the SDK takes a line for a message, or for a batch of them.
func isMessage(line []byte) bool {
	var batch []json.RawMessage
	if json.Unmarshal(line, &batch) != nil {
		_, err := jsonrpc.DecodeMessage(line)
		return err == nil
	}

	for _, each := range batch {
		if _, err := jsonrpc.DecodeMessage(each); err != nil {
			return false
		}
	}
	return len(batch) > 0
}

// readLine reads a line with its end. Of one that is longer than a message may be it returns the beginning and
// errTooLong, after reading all of it.
func readLine(r *bufio.Reader) (line []byte, err error) {
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		room := maxMessage - len(line)
		tooLong = tooLong || len(part) > room
		line = append(line, part[:min(len(part), room)]...)

		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == nil && tooLong:
			return line, errTooLong
		default:
			return line, err
		}
	}
}

// events reads a stream of server-sent events, and makes the messages in it exact.
type events struct {
	io.Closer
	lines *bufio.Reader
	left  []byte
}

func (e *events) Read(p []byte) (int, error) {
	if len(e.left) == 0 {
		event, err := e.next()
		if len(event) == 0 {
			return 0, err
		}
		e.left = event // an error comes again
	}

	n := copy(p, e.left)
	e.left = e.left[n:]
	return n, nil
}

// next reads an event up to the blank line behind it, or to the end of the stream.
func (e *events) next() ([]byte, error) {
	var event, data []byte
	for {
		line, err := readLine(e.lines)
		if len(event)+len(data)+len(line) > maxMessage {
			return nil, errTooLong
		}

		text := bytes.TrimRight(line, "\r\n")
		if value, isData := bytes.CutPrefix(text, []byte("data:")); isData {
			data = append(append(data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
		} else if bytes.Contains(text, []byte(":")) { // other lines mean nothing
			event = append(append(event, text...), '\n')
		}

		isBlank := len(bytes.TrimSpace(text)) == 0
		if err == nil && !isBlank {
			continue
		}
		if len(data) > 0 && (isBlank || errors.Is(err, io.EOF)) {
			event = fmt.Appendf(event, "data: %s\n", oneLine(exact(data)))
		}
		if len(event) > 0 || err == nil {
			event = append(event, '\n')
		}
		return event, err
	}
}

// oneLine returns data without its line ends, which are white space in JSON.
func oneLine(data []byte) []byte {
	return bytes.TrimSpace(bytes.ReplaceAll(data, []byte("\n"), []byte(" ")))
}
