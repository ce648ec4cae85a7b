//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// restartDelay is how long an init system waits before it restarts a service.
const restartDelay = 200 * time.Millisecond

// server is an actlog child process that is restarted whenever it exits, as by an init system: a server,
// or what command says.
type server struct {
	binary, listen, dataDir, logFile string
	database                         []string // flags, used in place of dataDir
	more                             []string // flags of a server
	name                             string   // what else it is, by its name and its command
	command                          []string

	mu       sync.Mutex
	cmd      *exec.Cmd
	exited   chan struct{} // closed when cmd has exited
	killed   bool          // by this program
	stopping bool
	starts   int
	peak     int64         // maximum memory in bytes
	died     []string      // unexpected exits
	over     chan struct{} // closed when the server is not restarted any more
}

func (s *server) title() string {
	if s.name != "" {
		return "worker " + s.name
	}
	return "the server"
}

func (s *server) url() string { return "http://" + s.listen }

// start starts the server and restarts it until stop.
func (s *server) start(ctx context.Context) error {
	s.over = make(chan struct{})
	if err := s.launch(ctx); err != nil {
		close(s.over)
		return err
	}

	go func() {
		defer close(s.over)
		for {
			s.mu.Lock()
			cmd, exited := s.cmd, s.exited
			s.mu.Unlock()
			err := cmd.Wait()

			s.mu.Lock()
			if !s.killed && !s.stopping {
				s.died = append(s.died, fmt.Sprintf("%s exited by itself: %v: %s", s.title(), err, s.lastLine()))
			}
			stopping := s.stopping
			s.mu.Unlock()
			close(exited)

			if stopping {
				return
			}
			pause(ctx, restartDelay)
			if ctx.Err() != nil || s.launch(ctx) != nil {
				return
			}
		}
	}()

	return nil
}

// lastLine returns what the server logged last.
func (s *server) lastLine() string {
	log, err := os.ReadFile(s.logFile)
	if err != nil {
		return err.Error()
	}
	log = bytes.TrimSpace(log)
	return string(log[bytes.LastIndexByte(log, '\n')+1:])
}

func (s *server) launch(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return errors.New("the server is stopping")
	}

	log, err := os.OpenFile(s.logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	defer log.Close()

	// The driver stops the process. No context does.
	command := s.command
	if command == nil {
		command = append([]string{"serve", "--listen", s.listen, "--otlp-listen", "off"}, s.more...)
		if s.database != nil {
			command = append(command, s.database...)
		} else {
			command = append(command, "--data-dir", s.dataDir)
		}
	}

	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.binary, command...)
	cmd.Stdout, cmd.Stderr = log, log
	if s.name != "" {
		cmd.Env = append(os.Environ(), workerVariable+"="+s.name+"-"+strconv.Itoa(s.starts))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the driver
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}

	s.cmd, s.exited = cmd, make(chan struct{})
	s.killed = false
	s.starts++
	return nil
}

// kill kills the server with SIGKILL and waits until it has exited.
func (s *server) kill() {
	s.mu.Lock()
	s.sampleLocked()
	s.killed = true
	_ = s.cmd.Process.Kill()
	exited := s.exited
	s.mu.Unlock()
	<-exited
}

// restart asks the server to stop and waits until it has exited.
func (s *server) restart() {
	s.mu.Lock()
	s.killed = true
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	exited := s.exited
	s.mu.Unlock()
	<-exited
}

func (s *server) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Signal(sig)
}

// stop stops the server, cleanly if possible, and everything that it left behind. A server that was never started has
// nothing to stop.
func (s *server) stop() error {
	s.mu.Lock()
	if s.cmd == nil {
		s.mu.Unlock()
		return nil
	}

	s.sampleLocked()
	s.stopping = true
	exited := s.exited
	_ = s.cmd.Process.Signal(syscall.SIGCONT)
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	s.mu.Unlock()

	var err error
	select {
	case <-exited:
	case <-time.After(45 * time.Second):
		err = errors.New(s.title() + " did not exit on SIGTERM")
		s.kill()
	}
	<-s.over

	// A server that was killed or not restarted could not stop its Postgres.
	pid := 0
	if s.dataDir != "" {
		pid = s.postmaster()
	}
	if pid > 0 && err == nil && !s.killed {
		err = fmt.Errorf("the server left its postgres %d behind", pid)
	}

	sig := syscall.SIGQUIT
	for until := time.Now().Add(10 * time.Second); pid > 0 && parentOf(pid) > 0; {
		_ = syscall.Kill(pid, syscall.SIGCONT)
		_ = syscall.Kill(pid, sig)
		pause(context.Background(), 100*time.Millisecond)
		if time.Now().After(until) {
			sig = syscall.SIGKILL
		}
	}
	return err
}

// keepLog saves the log of Postgres, because its folder is removed with the disk.
func (s *server) keepLog() error {
	content, err := os.ReadFile(filepath.Join(s.dataDir, "postgres", "postgres.log"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it never started
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(filepath.Dir(s.logFile), "postgres.log"), content, 0o600)
	}
	return err
}

// postmaster returns the process id of the private Postgres, or 0.
func (s *server) postmaster() int {
	content, err := os.ReadFile(filepath.Join(s.dataDir, "postgres", "data", "postmaster.pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.SplitN(string(content), "\n", 2)[0])
	if err != nil || pid <= 1 || parentOf(pid) == 0 {
		return 0
	}

	// After kill -9, another process may have the process id in the file.
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil || strings.TrimSpace(string(name)) != "postgres" {
		return 0
	}
	return pid
}

// parentOf returns the parent of a process, or 0 if there is none or the process is dead.
func parentOf(pid int) int {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}

	// The name in parentheses may contain anything.
	rest := string(content[strings.LastIndexByte(string(content), ')')+1:])
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[0] == "Z" {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// children lists the processes of a postmaster.
func children(pid int) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	var found []int
	for _, dir := range dirs {
		child, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && parentOf(child) == pid {
			found = append(found, child)
		}
	}
	return found
}

// pid returns the process id of the server.
func (s *server) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// sample updates the maximum memory of the server.
func (s *server) sample() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sampleLocked()
}

func (s *server) sampleLocked() { s.peak = max(s.peak, peakRSS(s.cmd.Process.Pid)) }

// peakRSS returns the maximum memory of a process so far, in bytes, or 0 if it has exited.
func peakRSS(pid int) int64 {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}

	for line := range strings.Lines(string(content)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
}

// unexpected lists the exits that the driver did not cause.
func (s *server) unexpected() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.died...)
}
