//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// beClock is an environment variable. If it is set, this program tells its clocks for each line that
// it reads: the Unix time, and the milliseconds since it started.
const beClock = "ACTLOG_CHAOS_CLOCK"

func tellClock() {
	start := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(time.Now().Unix(), time.Since(start).Milliseconds())
	}
}

// TestStepWallClock steps the wall clock of another process. Its monotonic clock, by which leases go,
// does not move.
func TestStepWallClock(t *testing.T) {
	t.Parallel()
	if !canStep {
		t.Skip("the wall clock of one process cannot be stepped on this processor")
	}

	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), beClock+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}

	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()

	for _, offset := range []time.Duration{0, -12 * time.Hour, 40 * time.Hour, 0} {
		if err := stepWallClock(cmd.Process.Pid, offset); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}

		var wall, since int64
		if _, err := fmt.Fscan(out, &wall, &since); err != nil {
			t.Fatal(err)
		}
		moved := time.Until(time.Unix(wall, 0)) - offset
		if moved.Abs() > time.Minute || since < 0 || since > time.Minute.Milliseconds() {
			t.Errorf("with %s: off by %s, %d ms since the start", offset, moved, since)
		}
	}
}
