//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// fault breaks something and repairs what does not recover by itself. It returns what it did and the
// time from which on the server has to recover.
type fault func(d *driver, ctx context.Context) (what string, from time.Time, err error)

// faults has all faults by name.
var faults = map[string]fault{
	"server":   (*driver).killServer,
	"postgres": (*driver).killPostmaster,
	"backend":  (*driver).killBackend,
	"client":   (*driver).killClient,
	"pause":    (*driver).pauseOne,
	"network":  (*driver).breakNetwork,
	"clock":    (*driver).moveClock,
	diskFault:  (*driver).fillDisk,
}

// diskFault needs a mount.
const diskFault = "disk"

func faultNames() []string { return slices.Sorted(maps.Keys(faults)) }

// between returns a random duration.
func (d *driver) between(from, to time.Duration) time.Duration {
	return from + time.Duration(d.rand.Int64N(int64(to-from)))
}

// killServer kills the server: alone, with its Postgres, or again while it starts.
func (d *driver) killServer(ctx context.Context) (string, time.Time, error) {
	what := "killed the server"
	switch d.rand.IntN(3) {
	case 0:
		what += " and its postgres"
		if pid := d.server.postmaster(); pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	case 1:
		delay := d.between(0, time.Second)
		what += fmt.Sprintf(", and again after %.2fs", delay.Seconds())
		d.server.kill()
		pause(ctx, restartDelay+delay)
	}

	d.server.kill()
	return what, time.Now(), nil
}

func (d *driver) killPostmaster(ctx context.Context) (string, time.Time, error) {
	pid, err := d.awaitPostmaster(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return "", time.Time{}, err
	}

	from := time.Now()
	// For a moment its processes continue without it and answer.
	for d.server.postmaster() == pid && ctx.Err() == nil {
		pause(ctx, time.Millisecond)
	}
	_, err = d.awaitPostmaster(ctx)
	return fmt.Sprintf("killed postmaster %d", pid), from, err
}

// awaitPostmaster returns the process id of the postmaster. It waits for one that is starting.
func (d *driver) awaitPostmaster(ctx context.Context) (int, error) {
	for until := time.Now().Add(recoverWithin); time.Now().Before(until) && ctx.Err() == nil; {
		if pid := d.server.postmaster(); pid > 0 {
			return pid, nil
		}
		pause(ctx, 20*time.Millisecond)
	}
	return 0, errors.New("there is no postmaster")
}

// killBackend kills a random process of Postgres. Postgres then restarts all of them.
func (d *driver) killBackend(ctx context.Context) (string, time.Time, error) {
	pid, err := d.awaitPostmaster(ctx)
	if err != nil {
		return "", time.Time{}, err
	}

	all := children(pid)
	for until := time.Now().Add(recoverWithin); len(all) == 0 && time.Now().Before(until) &&
		ctx.Err() == nil; all = children(pid) {
		pause(ctx, 20*time.Millisecond) // it restarts them after another fault
	}
	if len(all) == 0 {
		return "", time.Time{}, errors.New("postgres has no processes")
	}

	victim := all[d.rand.IntN(len(all))]
	title, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", victim))
	err = syscall.Kill(victim, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		err = nil // it had just exited
	}
	return fmt.Sprintf("killed %.40q", string(title)), time.Now(), err
}

func (d *driver) killClient(ctx context.Context) (string, time.Time, error) {
	s := d.clients[d.rand.IntN(len(d.clients))]
	d.clientPeak = max(d.clientPeak, peakRSS(s.cmd.Process.Pid))
	if err := s.kill(); err != nil {
		d.violated("%v", err)
	}
	from := time.Now()
	return fmt.Sprintf("killed client %s (%c)", s.name, s.mode), from, d.startClient(ctx, s)
}

// pauseOne stops the server, or Postgres with all its processes, for a while.
func (d *driver) pauseOne(ctx context.Context) (string, time.Time, error) {
	length := d.between(300*time.Millisecond, 3*time.Second)
	if d.rand.IntN(2) == 0 {
		if err := d.server.signal(syscall.SIGSTOP); err != nil {
			return "", time.Time{}, err
		}
		pause(ctx, length)
		return fmt.Sprintf("paused the server for %.1fs", length.Seconds()), time.Now(), d.server.signal(syscall.SIGCONT)
	}

	resume, err := d.pausePostgres(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	pause(ctx, length)
	resume()
	return fmt.Sprintf("paused postgres for %.1fs", length.Seconds()), time.Now(), nil
}

// pausePostgres stops all processes of Postgres until resume is called.
func (d *driver) pausePostgres(ctx context.Context) (resume func(), err error) {
	pid, err := d.awaitPostmaster(ctx)
	if err != nil {
		return nil, err
	}
	// Stop the postmaster first, so that it starts no new processes.
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil, err
	}

	stopped := append(children(pid), pid)
	for _, p := range stopped {
		_ = syscall.Kill(p, syscall.SIGSTOP)
	}
	return func() {
		for _, p := range stopped {
			_ = syscall.Kill(p, syscall.SIGCONT)
		}
	}, nil
}

func (d *driver) breakNetwork(ctx context.Context) (string, time.Time, error) {
	all := []traffic{trafficStalls, trafficIsReset, trafficTrickles, trafficCut}
	now, length := all[d.rand.IntN(len(all))], d.between(300*time.Millisecond, 3*time.Second)
	d.proxy.set(now)
	pause(ctx, length)
	d.proxy.set(trafficPasses)
	return fmt.Sprintf("the network %s for %.1fs", now, length.Seconds()), time.Now(), nil
}

// moveClock shifts the clocks of the clients by up to half a day, back or forth. The times and
// revisions of a record come from its client. The clocks of the server and of Postgres stay.
func (d *driver) moveClock(context.Context) (string, time.Time, error) {
	shift := d.between(-12*time.Hour, 12*time.Hour)
	// Replace the file in one step, because clients read it all the time.
	path := filepath.Join(d.dir, clockFile)
	err := os.WriteFile(path+".new", []byte(strconv.FormatInt(int64(shift), 10)), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	return fmt.Sprintf("moved the clocks of the clients to %+.1fh", shift.Hours()), time.Now(), err
}

const (
	// diskBytes is the size of the disk that becomes full. The disk is in memory.
	diskBytes = 3 << 30
	// The disk fills as if another program wrote: first diskNear is free, then diskStep less every
	// diskEach, until diskLeft is free.
	diskNear = 256 << 20
	diskStep = 4 << 20
	diskEach = 20 * time.Millisecond
	diskLeft = 2 << 20
	// diskFull is how long the disk stays full after the first rejected write.
	diskFull = 6 * time.Second
)

// mountDisk mounts a disk in memory for the server.
func mountDisk(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return syscall.Mount("chaos", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", diskBytes))
}

func unmountDisk(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

// resizeDisk makes the disk full or empty again. A ballast file would do the same, but would use all
// that memory.
func resizeDisk(dir string, size uint64) error {
	return syscall.Mount("chaos", dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", size))
}

// shrinkDisk leaves left bytes free on the disk.
func shrinkDisk(dir string, left uint64) error {
	for try := 0; ; try++ {
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			return fmt.Errorf("fill the disk: %w", err)
		}
		used := (st.Blocks - st.Bfree) * uint64(st.Bsize)
		err := resizeDisk(dir, used+left)
		if err == nil || try == 100 { // the used part may have grown in the meantime
			return err
		}
	}
}

// fillDisk lets the disk become full under load, keeps it full for a while, and makes room again. In
// the meantime writes must be rejected with a clear answer, and reads must work. The driver then
// checks that writes work again.
func (d *driver) fillDisk(ctx context.Context) (what string, from time.Time, err error) {
	dir := d.server.dataDir
	defer func() {
		if resizeErr := resizeDisk(dir, diskBytes); err == nil && resizeErr != nil {
			err = fmt.Errorf("make room: %w", resizeErr)
		}
		from = time.Now()
	}()

	for left := uint64(diskNear); left > diskLeft && ctx.Err() == nil; {
		left = max(left-diskStep, diskLeft)
		if err := shrinkDisk(dir, left); err != nil {
			return "", time.Time{}, err
		}
		pause(ctx, diskEach)
	}

	started := time.Now()
	var rejected bool
	var reads, failed int
	var firstFailed time.Duration

	probed := make(chan string, 1)
	probe := func() {
		status, retryAfter, err := d.probe(ctx)
		if status == http.StatusServiceUnavailable && retryAfter != "" {
			probed <- "503"
		} else {
			probed <- fmt.Sprintf("%d %v", status, err)
		}
	}
	go probe()
	for until := started.Add(40 * time.Second); time.Now().Before(until) && ctx.Err() == nil; {
		select {
		case answer := <-probed:
			if answer == "503" && !rejected {
				rejected, until = true, time.Now().Add(diskFull)
			} else if answer != "503" && answer != "200 <nil>" {
				d.violated("with the disk full, a write was answered %s", answer)
			}
			go probe()
		default:
		}

		status, _, err := d.ask(ctx, http.MethodGet, "/api/executor/details/probe-1", "")
		if reads++; err != nil || status != http.StatusOK {
			if failed++; failed == 1 {
				firstFailed = time.Since(started)
			}
		}
		pause(ctx, 50*time.Millisecond)
	}

	what = fmt.Sprintf("the disk was full for %.1fs, writes rejected: %v, reads %d", time.Since(started).Seconds(),
		rejected, reads)
	if ctx.Err() != nil {
		return "", from, ctx.Err()
	}

	if !rejected {
		d.violated("with the disk full, no write was rejected")
	}
	if failed > 0 {
		what += fmt.Sprintf(" (%d failed, first after %.1fs)", failed, firstFailed.Seconds())
		d.violated("with the disk full, %d of %d reads failed", failed, reads)
	}
	return what, from, nil
}

// answerWithin is the 15 s that a write may wait, plus some seconds for a busy machine.
const answerWithin = 20 * time.Second

// outage takes Postgres down for a while in two ways: first it is frozen, then it is killed each time
// it starts.
func (d *driver) outage(ctx context.Context) error {
	if err := d.underLoad(ctx); err != nil {
		return err
	}
	for _, how := range []string{"frozen", "dead"} {
		stop := d.probing(ctx)
		err := d.takeAway(ctx, how, d.config.lasts)
		if err != nil {
			stop()
			return err
		}

		took, err := d.recovered(ctx, time.Now())
		answered := stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			d.violated("after postgres was %s for %s: %v", how, d.config.lasts, err)
			return nil
		}

		d.recoveries = append(d.recoveries, took)
		d.say("     postgres was %s for %s: writes were answered %v, the slowest after %.1fs; back after %.2fs",
			how, d.config.lasts, answered.counts, answered.longest.Seconds(), took.Seconds())

		if answered.longest > answerWithin {
			d.violated("with postgres %s, a write was answered after %.1fs", how, answered.longest.Seconds())
		}
		for answer := range answered.counts {
			if answer != "200" && answer != "503" {
				d.violated("with postgres %s, a write was answered %s", how, answer)
			}
		}

		if err := d.underLoad(ctx); err != nil {
			return err
		}
	}

	return nil
}

// takeAway leaves the server without Postgres for a while.
func (d *driver) takeAway(ctx context.Context, how string, lasts time.Duration) error {
	if how == "frozen" {
		resume, err := d.pausePostgres(ctx)
		if err != nil {
			return err
		}
		defer resume()
		pause(ctx, lasts)
		return nil
	}

	for until := time.Now().Add(lasts); time.Now().Before(until) && ctx.Err() == nil; pause(ctx, 10*time.Millisecond) {
		if pid := d.server.postmaster(); pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return nil
}
