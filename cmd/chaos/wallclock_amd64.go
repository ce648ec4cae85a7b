//go:build linux

package main

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// canStep reports whether the wall clock of one process can be stepped here.
const canStep = true

// stepWallClock steps the wall clock of one process. A process reads its clocks with a function that
// the kernel maps into it. This replaces that function in the process by one that asks the kernel, and
// that adds offset to the wall clock alone: the monotonic clock goes on as it does after a real step.
// The process is one that this program started.
func stepWallClock(pid int, offset time.Duration) error {
	function, size, err := clockFunction()
	if err != nil {
		return err
	}
	from, to, err := vdso(pid)
	if err != nil {
		return err
	}

	code := []byte{
		0xb8, 0xe4, 0, 0, 0, // mov eax, 228: clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
		0x75, 0x07, // jne to the end
		0x48, 0x81, 0x06, 0, 0, 0, 0, // add qword [rsi], seconds
		0xc3, // ret
	}
	binary.LittleEndian.PutUint32(code[14:], uint32(int32(offset/time.Second)))
	if size < uint64(len(code)) {
		return fmt.Errorf("the clock function has only %d bytes", size)
	}

	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	defer syscall.Kill(pid, syscall.SIGCONT) //nolint:errcheck // it may be dead

	for range 50 {
		pause(context.Background(), 2*time.Millisecond)
		if inside(pid, from, to) {
			// A thread is reading the clock: try again a little later.
			_ = syscall.Kill(pid, syscall.SIGCONT)
			pause(context.Background(), 2*time.Millisecond)
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			continue
		}

		_, err := memory.WriteAt(code, int64(from+function))
		return err
	}
	return errors.New("a thread is always reading the clock")
}

// vdso returns where the kernel's functions are in a process.
func vdso(pid int) (from, to uint64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}

	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		_, err := fmt.Sscanf(line, "%x-%x", &from, &to)
		return from, to, err
	}
	return 0, 0, errors.New("the process has no functions of the kernel")
}

// clockFunction returns where clock_gettime begins among the kernel's functions, and its size.
func clockFunction() (offset, size uint64, err error) {
	from, to, err := vdso(os.Getpid())
	if err != nil {
		return 0, 0, err
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return 0, 0, err
	}
	defer memory.Close()

	image := make([]byte, to-from)
	if _, err := memory.ReadAt(image, int64(from)); err != nil {
		return 0, 0, err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, 0, err
	}

	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, 0, err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			return s.Value, s.Size, nil
		}
	}
	return 0, 0, errors.New("the kernel has no function for clocks")
}

// inside reports whether a thread of a stopped process is between two addresses, or is not known to be
// elsewhere.
func inside(pid int, from, to uint64) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid)) // the pattern is valid
	for _, file := range files {
		content, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
		}

		words := strings.Fields(string(content))
		if err != nil || len(words) < 2 {
			return true
		}
		at, err := strconv.ParseUint(strings.TrimPrefix(words[len(words)-1], "0x"), 16, 64)
		if err != nil || at >= from && at < to {
			return true
		}
	}
	return len(files) == 0
}
