package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode"

	"github.com/creack/pty"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// screen is a model of a terminal: what is written moves a cursor over cells, as in terminals that
// wrap the lines of an old frame again when their width changes.
type screen struct {
	mu            sync.Mutex
	width, height int
	rows          [][]string // the cells; the second cell of a wide character is empty
	row, column   int
	wraps         bool
	rest          string // the beginning of a sequence that has not arrived whole
}

func newScreen(width, height int) *screen {
	return &screen{width: width, height: height, rows: [][]string{nil}, wraps: true}
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	text := []rune(s.rest + string(p))
	s.rest = ""
	for i := 0; i < len(text); i++ {
		switch r := text[i]; r {
		case '\n':
			s.down()
		case '\r':
			s.column = 0
		case '\x1b':
			end := slices.IndexFunc(text[i:], func(r rune) bool { return r >= 'A' && r <= 'z' && r != '[' })
			if end < 0 {
				s.rest = string(text[i:])
				return len(p), nil
			}
			s.control(string(text[i+2 : i+end+1]))
			i += end
		default:
			s.put(r)
		}
	}
	return len(p), nil
}

func (s *screen) control(code string) {
	switch code {
	case "1A":
		s.row = max(s.row-1, s.top())
	case "2K":
		s.rows[s.row] = nil
	case "H":
		s.row, s.column = s.top(), 0
	case "2J":
		for i := s.top(); i < len(s.rows); i++ {
			s.rows[i] = nil
		}
	case "?7l":
		s.wraps = false
	case "?7h":
		s.wraps = true
	}
}

// top is the first row on the screen; those before were scrolled out.
func (s *screen) top() int { return max(0, len(s.rows)-s.height) }

func (s *screen) down() {
	if s.row++; s.row == len(s.rows) {
		s.rows = append(s.rows, nil)
	}
}

// cells is how many columns this terminal takes for a character. It joins none.
func cells(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Cf):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xff00 && r <= 0xff60,
		r >= 0x1f300 && r <= 0x1faff, r >= 0x20000:
		return 2
	}
	return 1
}

func (s *screen) put(r rune) {
	n := cells(r)
	if n == 0 {
		return
	}
	if s.column+n > s.width {
		if s.wraps {
			s.down()
			s.column = 0
		} else {
			s.column = s.width - n
		}
	}

	row := s.rows[s.row]
	for len(row) < s.column+n {
		row = append(row, " ")
	}

	row[s.column] = string(r)
	for i := range n - 1 {
		row[s.column+1+i] = ""
	}
	s.rows[s.row] = row
	s.column += n
}

// resize wraps the rows again, as most terminals do.
func (s *screen) resize(width, height int) {
	s.mu.Lock()
	defer s.mu.Unlock()

	var rows [][]string
	for _, row := range s.rows[:s.row] {
		for len(row) > width {
			rows, row = append(rows, row[:width:width]), row[width:]
		}
		rows = append(rows, row)
	}
	s.rows, s.row = append(rows, nil), len(rows)
	s.width, s.height = width, height
	s.column = 0
}

// String returns what is on the screen, without the blank lines at its end.
func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, row := range s.rows[s.top():] {
		b.WriteString(strings.TrimRight(strings.Join(row, ""), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// await waits until a text is on the screen.
func (s *screen) await(t *testing.T, text string) string {
	t.Helper()
	var shown string
	until(t, fmt.Sprintf("%q is on the screen", text), s, func() bool {
		shown = s.String()
		return strings.Contains(shown, text)
	})
	return shown
}

// onTerminal starts the program in a terminal.
func onTerminal(t *testing.T, width, height int, args ...string) (cmd *exec.Cmd, tty *os.File, shown *screen) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), beMain+"=1", "TERM=xterm", "NO_COLOR=")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)})
	if err != nil {
		t.Fatal(err)
	}

	shown = newScreen(width, height)
	var read sync.WaitGroup
	read.Go(func() {
		buf := make([]byte, 4<<10)
		for {
			n, err := tty.Read(buf)
			_, _ = shown.Write(buf[:n])
			if err != nil { // EIO: the program has ended
				return
			}
		}
	})

	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		read.Wait()
		_ = tty.Close()
	})
	return cmd, tty, shown
}

// TestTailInATerminal (N3) follows a plan in a terminal that is narrower than the lines of its
// tree, and changes the size of the terminal.
func TestTailInATerminal(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	figures := func(seq int64) record.Change {
		return &record.ThinkAct{
			RootPlanID: "p", StepID: "s", Seq: seq, InputTokens: new(int64(2_000)), OutputTokens: new(int64(200)),
		}
	}
	storetest.Write(t, s, runningPlan("p",
		&record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: "s", AgentName: new("reader"), State: new(record.Running),
		}, figures(0))...)

	cmd, tty, shown := onTerminal(t, 43, 10, "tail", "p", "--server", url)
	const line = "p  RUNNING  1 model call, 2,000 → 200 tokens"
	if got := shown.await(t, "reader"); !strings.HasPrefix(got, "p  RUNNING  1 model call, 2,000 → 200 toke…\n") {
		t.Errorf("43 columns:\n%s", got)
	}
	for _, width := range []int{31, 60, 12, 43} {
		shown.resize(width, 10)
		if err := pty.Setsize(tty, &pty.Winsize{Cols: uint16(width), Rows: 10}); err != nil {
			t.Fatal(err)
		}

		want := fit(line, width)
		got := shown.await(t, want+"\n")
		if strings.Count(got, "RUNNING") > 3 || strings.Count(got, "Work") != 1 {
			t.Errorf("an old frame is left at %d columns:\n%s", width, got)
		}
	}

	storetest.Write(t, s, figures(1))
	shown.await(t, "2 model calls")
	storetest.Write(t, s, &record.Plan{RootPlanID: "p", CurrentPlanID: "p", State: new(record.Failed)})
	got := shown.await(t, "p  FAILED")
	if err := cmd.Wait(); err != nil || strings.Count(got, "Work") != 1 || strings.Contains(got, "RUNNING  1 model") {
		t.Errorf("cmd.Wait() = %v\n%s", err, got)
	}
}

// TestFit (N3) cuts lines of all kinds, and expects no line that is wider than the terminal in one
// that joins no characters.
func TestFit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		line  string
		width int
		want  string
	}{
		{"2,000 → 200 tokens", 18, "2,000 → 200 tokens"},
		{"2,000 → 200 tokens", 10, "2,000 → 2…"},
		{"2,000 → 200 tokens", 1, "…"},
		{"", 1, ""},
		{"漢字漢字", 8, "漢字漢字"},
		{"漢字漢字", 7, "漢字漢…"},
		{"漢字漢字", 6, "漢字…"}, // half a character is none
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
		{"👍🏽👍🏽", 8, "👍🏽👍🏽"},
		{"👍🏽👍🏽", 7, "👍🏽…"},
		{"a👩\u200d👩\u200d👧b", 5, "a…"},
		{"❤\ufe0f❤\ufe0f", 3, "❤\ufe0f…"},
		{"\x1b[31mred line\x1b[0m", 8, "\x1b[31mred line\x1b[0m"},
		{"\x1b[31mred line\x1b[0m", 4, "\x1b[31mred…\x1b[0m"},
		{"\x1b[1mab\x1b[0m\x1b[2mcd\x1b[0m", 3, "\x1b[1mab\x1b[0m\x1b[2m…\x1b[0m"},
	} {
		if got := fit(tt.line, tt.width); got != tt.want {
			t.Errorf("%q in %d columns: %q, want %q", tt.line, tt.width, got, tt.want)
		}
		s := newScreen(tt.width, 5)
		_, _ = s.Write([]byte(fit(tt.line, tt.width)))
		if len(s.rows) > 1 {
			t.Errorf("%q in %d columns wraps:\n%s", tt.line, tt.width, s)
		}
	}
}

// TestDrawingIsSafe (N3) draws hostile texts. Only our own sequences may reach the terminal.
func TestDrawingIsSafe(t *testing.T) {
	t.Parallel()
	hostile := "a\x1b[2J\x1b]0;title\x07\u009b31m\u202egnp.exe\r\n\b\x00\xff" + strings.Repeat("漢", 100)
	var out strings.Builder
	d := &drawing{w: &out}
	d.draw(&planView{CurrentPlanID: hostile, Title: hostile, State: hostile, ErrorMessage: hostile,
		AgentExecutionSequence:  []*stepView{{StepID: hostile, AgentName: hostile, ErrorMessage: hostile}},
		SubPlanExecutionRecords: []*planView{{Title: hostile, ParentActToolCall: &toolCallView{Name: hostile}}},
	}, true)

	drawn := strings.TrimSuffix(strings.TrimPrefix(out.String(), "\x1b[?7l"), "\x1b[?7h")
	if i := strings.IndexFunc(drawn, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("%q", drawn[i:])
	}
	for line := range strings.Lines(drawn) {
		if n := columns(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, strconv.Quote(line))
		}
	}
}

// TestInterruptedTerminal (N5) presses Ctrl-C in a terminal.
func TestInterruptedTerminal(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s, runningPlan("p")...)

	cmd, tty, shown := onTerminal(t, 80, 24, "tail", "p", "--server", url)
	shown.await(t, "RUNNING")
	if _, err := tty.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 128+int(syscall.SIGINT) {
		t.Errorf("exit code %d\n%s", cmd.ProcessState.ExitCode(), shown)
	}
}
