package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/actlog/actlog/agent/internal/group"
	"github.com/actlog/actlog/agent/sandbox"
)

// grace is how long a server has to end after it was asked to, and again before it is killed.
const grace = 2 * time.Second

// process is a server that was started by its command.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser // its messages
	stray  *printed      // lines of its standard output that are no messages
	stderr *printed
	exited chan struct{}
	end    func() // cleans up after it
}

func start(s Server, log *slog.Logger) (*process, error) {
	cmd := exec.Command(s.Command[0], s.Command[1:]...) //nolint:noctx // it lives longer than the call that starts it
	cmd.Env = sandbox.Environment(s.Env, "PATH", "HOME", "SystemRoot")
	p := &process{
		cmd:    cmd,
		stray:  &printed{log: log.Warn, what: "MCP server wrote to its standard output what is no message"},
		stderr: &printed{log: log.Info, what: "MCP server wrote"},
		exited: make(chan struct{}),
	}
	cmd.Stderr = p.stderr
	cmd.WaitDelay = grace // for programs that it started and that keep stderr open
	group.Lead(cmd)

	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()

	cmd.Stdout = write
	p.stdout = &messages{Closer: read, lines: bufio.NewReader(read), other: p.stray}
	if p.stdin, err = cmd.StdinPipe(); err == nil {
		p.end, err = s.sandbox().Start(cmd)
	}
	if err != nil {
		read.Close()
		return nil, err
	}

	go func() {
		defer close(p.exited)
		err := cmd.Wait()
		group.Kill(cmd) // what the server started and left behind
		p.end()
		// A process that still holds stdout does not keep the connection open.
		_ = read.SetReadDeadline(time.Now().Add(grace))
		p.stderr.flush()
		log.Debug("MCP server ended", "status", cmd.ProcessState.String(), "err", err)
	}()
	return p, nil
}

// stop ends the server: it closes its input, then asks it to end, then kills it.
func (p *process) stop() {
	p.stdin.Close()
	for _, next := range []func(*exec.Cmd){group.Terminate, group.Kill} {
		select {
		case <-p.exited:
			p.stdout.Close()
			return
		case <-time.After(grace):
			next(p.cmd)
		}
	}

	<-p.exited
	p.stdout.Close()
}

// Bounds of what a server writes beside its messages.
const (
	maxPrintedLine  = 1 << 10
	maxPrintedLines = 20 // a minute
	maxPrintedTail  = 2 << 10
)

// printed logs what a server writes beside its messages, line by line and within bounds, and keeps the end of
// it for errors.
type printed struct {
	log  func(message string, args ...any)
	what string // the message of the log

	mu      sync.Mutex
	line    []byte // begun
	tail    []byte
	since   time.Time // of the minute
	lines   int       // logged in it
	skipped int
}

func (s *printed) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = append(s.tail, b...)
	s.tail = append([]byte(nil), s.tail[max(len(s.tail)-maxPrintedTail, 0):]...)

	for rest := b; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		room := maxPrintedLine + 1 - len(s.line) // one more says that there is more
		s.line = append(s.line, part[:min(len(part), room)]...)
		if whole {
			s.write()
		}
		rest = after
	}
	return len(b), nil
}

// write logs the line.
func (s *printed) write() {
	line := strings.ToValidUTF8(strings.TrimSpace(string(s.line)), "\uFFFD")
	if len(s.line) > maxPrintedLine {
		line += " (cut)"
	}
	if s.line = s.line[:0]; line == "" {
		return
	}

	if now := time.Now(); now.Sub(s.since) > time.Minute {
		if s.skipped > 0 {
			s.log(s.what+", and more", "lines", s.skipped)
		}
		s.since = now
		s.lines, s.skipped = 0, 0
	}

	if s.lines == maxPrintedLines {
		s.skipped++
		return
	}
	s.lines++
	s.log(s.what, "line", line)
}

func (s *printed) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write()
}

// explain adds to an error what the server wrote last.
func (p *process) explain(err error) error {
	last := cmp.Or(p.stderr.last(), p.stray.last())
	if last == "" {
		return err
	}
	return fmt.Errorf("%w; it wrote: %s", err, last)
}

func (s *printed) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ToValidUTF8(string(bytes.TrimSpace(s.tail)), "\uFFFD")
}
