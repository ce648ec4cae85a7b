package main

import (
	"bufio"
	"errors"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

func TestAgentTurn(t *testing.T) {
	t.Parallel()
	turn := agentTurn{
		runs: 5, took: 2 * time.Second, bare: 10 * time.Millisecond,
		used: cost{
			worker: 200 * time.Millisecond, postgres: 300 * time.Millisecond, wal: 4_000, transactions: 150,
		},
	}

	for name, tt := range map[string]struct{ got, want float64 }{
		"calls a second":          {turn.callsPerSecond(), 50},
		"a cycle over bare":       {turn.overBare(), 39},
		"seconds of worker":       {turn.workerSeconds(), 2},
		"seconds of Postgres":     {turn.postgresSeconds(), 3},
		"seconds of both":         {turn.processorSeconds(), 5},
		"transactions of a cycle": {turn.transactions(), 3},
		"WAL of a call":           {turn.walOfCall(), 40},
	} {
		if diff := tt.got - tt.want; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("%s: got %v, want %v", name, tt.got, tt.want)
		}
	}
}

// TestProcessorTime: the time of a process has that of a child, also once the child has ended.
func TestProcessorTime(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}

	shell := exec.CommandContext(t.Context(), "sh", "-c",
		"sh -c 'n=0; while [ $n -lt 500000 ]; do n=$((n+1)); done'; echo ended; read stop")
	stdin, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}

	stdout, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}

	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	got, err := processorTime(shell.Process.Pid)
	if err := errors.Join(err, stdin.Close()); err != nil {
		t.Fatal(err)
	}
	_ = shell.Wait() // it could not read a line

	ended := shell.ProcessState.UserTime() + shell.ProcessState.SystemTime()
	if diff := ended - got; got == 0 || diff < -50*time.Millisecond || diff > 50*time.Millisecond {
		t.Errorf("the shell and its child took %v of processor time, want %v", got, ended)
	}
}
