package embedpg

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// diskEnv says that this process has mounts of its own.
const diskEnv = "EMBEDPG_TEST_DISK"

// TestFullDisk fills the disk of a running server to the last byte and crashes Postgres. It starts
// again, on the room of the ballast, and rows can be read and deleted. So it does when a new program
// starts it. Once there is room, there is a ballast again.
//
// N23: a disk with 0 bytes free kept Postgres from starting.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getenv(diskEnv) == "" {
		onDiskOfItsOwn(t)
		return
	}

	disk := publicDir(t)
	if err := syscall.Mount("disk", disk, "tmpfs", 0, "size=600m,mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })

	config := Config{
		Dir: filepath.Join(disk, "pg"), Ballast: 64 << 20, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	s := mustStart(t, config)
	mustAddRow(t, s)

	file := filepath.Join(config.Dir, "ballast")
	mustTake := func(room int64) {
		t.Helper()
		var disk syscall.Stat_t
		if err := syscall.Stat(file, &disk); err != nil || disk.Blocks*512 != room {
			t.Fatalf("the ballast takes %d bytes: %v", disk.Blocks*512, err)
		}
	}
	mustTake(64 << 20)

	fillDisk(t, disk)
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}

	mustDelete := func(s *Server) {
		t.Helper()
		for {
			conn, err := pgx.Connect(t.Context(), s.URL())
			if err != nil {
				time.Sleep(10 * time.Millisecond)
				continue
			}

			tag, err := conn.Exec(t.Context(), "DELETE FROM r")
			if err := errors.Join(err, conn.Close(t.Context())); err != nil || tag.RowsAffected() != 1 {
				t.Fatalf("tag = %v, %v", tag, err)
			}
			return
		}
	}

	mustDelete(s)
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the ballast is still there: %v", err)
	}
	if err := s.Room(); err == nil {
		t.Error("there is room for writes")
	}

	s.ballast.ensure() // no room
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	s.ballast.ensure()
	mustTake(64 << 20)

	mustAddRow(t, s)
	pid := s.PID()
	s.cancel() // as if the program had been killed
	<-s.done
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	unlockFile(s.lock)

	fillDisk(t, disk)
	config.Ballast = 0 // it is given up by whoever starts Postgres
	mustDelete(mustStart(t, config))
}

// onDiskOfItsOwn runs the test in a process that may mount.
func onDiskOfItsOwn(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), diskEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}},
		}
	}

	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this user may not mount a small disk")
	}
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// fillDisk leaves no byte free.
func fillDisk(t *testing.T, disk string) {
	t.Helper()
	f, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	at := int64(0)
	for block := int64(1 << 20); block >= 512; {
		if _, err := f.WriteAt(make([]byte, block), at); err != nil {
			block /= 2
			continue
		}
		at += block
	}

	if free, err := freeBytes(disk); err != nil || free != 0 {
		t.Fatalf("%d bytes are free, %v", free, err)
	}
}

// TestFill checks what stands in for allocation on other file systems.
func TestFill(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	const size = 3<<20 + 5
	if err := fill(f, size); err != nil {
		t.Fatal(err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != size {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
}
