package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// HideProcess keeps what this process holds from other programs of the same user: its memory, environment
// and open files cannot be read in /proc, and no debugger attaches. Nor does it leave a core dump. Root reads
// all of that, but of the environment in /proc only what [Environment] gives to programs. os.Getenv and
// os.Environ return what they did.
//
// A program calls it first in main.
func HideProcess() error {
	environment := wipeEnvironment() // while the process can open its own memory
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return errors.Join(fmt.Errorf("hide the process: %w", err), environment)
	}
	keepFiles()
	return environment
}

// wipeEnvironment overwrites the variables of this process where the kernel put them, which is what /proc shows.
// Go has a copy.
func wipeEnvironment() error {
	block, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return fmt.Errorf("hide the environment: %w", err)
	}

	var clean []byte
	for variable := range bytes.SplitAfterSeq(block, []byte{0}) {
		if name, _, _ := strings.Cut(string(variable), "="); !isPlain(name) {
			clear(variable)
		}
		clean = append(clean, variable...)
	}

	start, err := environmentStart()
	if err != nil {
		return fmt.Errorf("hide the environment: %w", err)
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("hide the environment: %w", err)
	}

	_, err = memory.WriteAt(clean, start)
	if err = errors.Join(err, memory.Close()); err != nil {
		return fmt.Errorf("hide the environment: %w", err)
	}
	return nil
}

// environmentStart returns the address of the environment in the memory of this process.
func environmentStart() (int64, error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, err
	}

	const at = 50 - 3 // the first two fields are before and in the brackets
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= at {
		return 0, errors.New("/proc/self/stat has too few fields")
	}
	return strconv.ParseInt(fields[at], 10, 64)
}

// keepFiles lets no program that this process starts inherit a file, but those that it is given. Go opens its
// own files so, but those that the process was started with are not.
func keepFiles() {
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) // an error means that Linux is older than 5.11
}
