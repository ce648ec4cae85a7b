package spool_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
	"github.com/actlog/actlog/recorder/spool"
)

// asEnv turns the test binary into an agent, see agent.
const asEnv = "ACTLOG_SPOOL_TEST_AGENT"

func TestMain(m *testing.M) {
	if role := os.Getenv(asEnv); role != "" {
		if err := agent(role, os.Args[1]); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// sink keeps the newest value of each artifact, and fails as it is set to.
type sink struct {
	mu    sync.Mutex
	fail  error
	rows  map[string]string // the values of artifacts, by name
	names []string          // in the order in which they came
}

func newSink() *sink { return &sink{rows: map[string]string{}} }

func away() *sink { return &sink{rows: map[string]string{}, fail: record.ErrUnavailable} }

func (s *sink) Write(_ context.Context, changes []record.Change) (record.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return record.Result{}, s.fail
	}

	for _, c := range changes {
		a := c.(*record.Artifact)
		s.rows[a.Name] = string(a.Value)
		s.names = append(s.names, a.Name)
	}
	return record.Result{Accepted: len(changes)}, nil
}

func (s *sink) set(fail error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

func artifact(name, value string) *record.Artifact {
	return &record.Artifact{RootPlanID: "p", PlanID: "p", Name: name, Value: strconv.AppendQuote(nil, value)}
}

// numbered makes changes with distinct names from first on.
func numbered(first, n int, value string) (out []record.Change) {
	for i := range n {
		out = append(out, artifact(fmt.Sprint(first+i), value))
	}
	return out
}

func names(n int) (out []string) {
	for i := range n {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string, sink recorder.Sink, set ...func(*spool.Options)) *spool.Spool {
	t.Helper()
	var options spool.Options
	for _, f := range set {
		f(&options)
	}
	s, err := spool.Open(dir, sink, options)
	ok(t, err)
	return s
}

func write(t *testing.T, s *spool.Spool, changes ...record.Change) {
	t.Helper()
	result, err := s.Write(t.Context(), changes)
	if err != nil || result.Accepted != len(changes) || result.Rejected != nil {
		t.Fatalf("Write returned %+v, %v", result, err)
	}
}

// leave closes a spool whose sink is away.
func leave(t *testing.T, s *spool.Spool, waiting int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var unwritten *recorder.UnwrittenError
	if err := s.Close(ctx); waiting > 0 && (!errors.As(err, &unwritten) || unwritten.Waiting != waiting) ||
		waiting == 0 && err != nil {
		t.Fatalf("Close returned %v, want %d waiting", err, waiting)
	}
}

// delivered opens a folder in front of a sink that works, and returns the sink after everything was
// delivered.
func delivered(t *testing.T, dir string) *sink {
	t.Helper()
	to := newSink()
	s := open(t, dir, to)
	ok(t, s.Close(t.Context()))
	return to
}

// logFiles are the files of the log, in order.
func logFiles(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "log", "0*"))
	ok(t, err)
	return paths
}

// What one process could not deliver, the next one does, in order. Delivered records are removed
// from the disk.
func TestReopen(t *testing.T) {
	t.Parallel()
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprint("sync ", durable), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "a", "b")
			set := func(o *spool.Options) { o.Sync = durable }
			s := open(t, dir, away(), set)

			write(t, s, numbered(0, 3, "x")...)
			write(t, s, numbered(3, 1, "y")...)
			if s.Pending() != 4 {
				t.Errorf("%d wait", s.Pending())
			}
			leave(t, s, 4)

			s = open(t, dir, away(), set)
			if s.Pending() != 4 {
				t.Errorf("%d wait", s.Pending())
			}
			write(t, s, numbered(4, 1, "z")...)
			leave(t, s, 5)

			to := delivered(t, dir)
			if diff := cmp.Diff(names(5), to.names); diff != "" || to.rows["3"] != `"y"` {
				t.Errorf("%s, row 3 is %s", diff, to.rows["3"])
			}
			if to := delivered(t, dir); len(to.names) != 0 {
				t.Errorf("delivered again: %q", to.names)
			}

			for _, path := range logFiles(t, dir) {
				if info, err := os.Stat(path); err != nil || info.Size() != 0 {
					t.Errorf("info = %v, %v", info, err)
				}
			}
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("info = %v, %v", info, err)
			}
		})
	}
}

// Every kind and field comes back as it was written.
func TestFidelity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, away())
	at := time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC)
	changes := []record.Change{
		&record.Plan{
			RootPlanID: "p", CurrentPlanID: "p", Rev: new(int64(math.MaxInt64)), Title: new("é\n\"\x01<>&\u2028"),
			Tags: []string{"a", ""}, StartTime: &at, Metadata: []byte(`{"b":1,"a":2}`),
		},
		&record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "s", State: new(record.Running)},
		&record.ThinkAct{
			RootPlanID: "p", StepID: "s", Seq: 7, CostUSD: new(0.1), InputTokens: new(int64(0)), ThinkInput: new(""),
		},
		&record.ActTool{RootPlanID: "p", StepID: "s", Seq: 7, ToolCallID: "t", Parameters: new(`{"a":1}`)},
		&record.Thought{
			RootPlanID: "p", PlanID: "p", ThoughtID: "h", Iteration: new(int64(-1)), RelatedOperations: []string{"x"},
		},
		artifact("n", "v"),
		&record.Source{RootPlanID: "p", PlanID: "p", SourceID: "o", RelevanceScore: new(0.5)},
		&record.Wait{RootPlanID: "p", PlanID: "p", WaitID: "w", FormInputs: []byte(`[{"a":"b"}]`)},
	}

	write(t, s, changes...)
	leave(t, s, len(changes))
	var got []record.Change
	again := open(t, dir, sinkFunc(func(changes []record.Change) { got = append(got, changes...) }))
	ok(t, again.Close(t.Context()))
	if diff := cmp.Diff(changes, got); diff != "" {
		t.Errorf("append(got, changes...) (-want +got):\n%s", diff)
	}
}

type sinkFunc func([]record.Change)

func (f sinkFunc) Write(_ context.Context, changes []record.Change) (record.Result, error) {
	f(changes)
	return record.Result{Accepted: len(changes)}, nil
}

// A change without JSON is rejected at once, and the changes beside it are written.
func TestNoJSON(t *testing.T) {
	t.Parallel()
	to := newSink()
	s := open(t, t.TempDir(), to)
	bad := &record.Artifact{RootPlanID: "p", PlanID: "p", Name: "bad", Value: []byte("{")}

	result, err := s.Write(t.Context(), []record.Change{artifact("a", ""), bad, artifact("b", "")})
	ok(t, err)
	if result.Accepted != 2 || len(result.Rejected) != 1 || result.Rejected[0].Index != 1 ||
		result.Rejected[0].Err.Field != "value" {
		t.Errorf("s.Write = %+v", result)
	}

	result, err = s.Write(t.Context(), []record.Change{bad})
	if err != nil || result.Accepted != 0 || len(result.Rejected) != 1 {
		t.Errorf("s.Write = %+v, %v", result, err)
	}
	ok(t, s.Close(t.Context()))
	if len(to.rows) != 2 {
		t.Errorf("on record: %v", to.rows)
	}
}

// Heartbeats go past the log: those of a process that was killed are of no use.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	received := make(chan record.Change, 1)
	s := open(t, t.TempDir(), sinkFunc(func(changes []record.Change) { received <- changes[0] }))
	beat := &record.Plan{RootPlanID: "p", CurrentPlanID: "p", LastSeenAt: new(time.Unix(1, 0))}

	ok(t, s.Beat([]record.Change{beat}))
	if got := <-received; got != beat || s.Pending() != 0 {
		t.Errorf("received %+v, %d wait", got, s.Pending())
	}
	leave(t, s, 0)
	if err := s.Beat([]record.Change{beat}); !errors.Is(err, record.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A folder belongs to one Spool at a time, across processes.
func TestLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, newSink())
	if _, err := spool.Open(dir, newSink(), spool.Options{}); !errors.Is(err, spool.ErrLocked) ||
		!strings.Contains(err.Error(), dir) {
		t.Errorf("spool.Open = %v", err)
	}
	if out := start(t, "fill", dir).read(t); !strings.Contains(out, spool.ErrLocked.Error()) {
		t.Errorf("another process got %q", out)
	}

	ok(t, s.Close(t.Context()))
	delivered(t, dir)
	if _, err := s.Write(t.Context(), numbered(0, 1, "")); !errors.Is(err, record.ErrClosed) {
		t.Errorf("s.Write = %v", err)
	}
}

// Write waits while the bound of the disk is reached, and delivered records free the disk.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, to := t.TempDir(), away()
		const large = 4 << 10
		s := open(t, dir, to, func(o *spool.Options) { o.Buffer.MaxBytes = 20 * large })
		value := strings.Repeat("x", large)
		write(t, s, numbered(0, 20, value)...)

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := s.Write(ctx, numbered(20, 1, value)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("s.Write(numbered(20, 1, value)) = %v", err)
		}

		to.set(nil)
		for i := 20; i < 400; i++ { // fills several files of the log
			write(t, s, numbered(i, 1, value)...)
			if size := diskUsage(t, dir); size > 9<<17 {
				t.Fatalf("the log takes %d bytes", size)
			}
		}

		ok(t, s.Close(t.Context()))
		if diff := cmp.Diff(names(400), to.names); diff != "" {
			t.Errorf("to.names (-want +got):\n%s", diff)
		}
		if size := diskUsage(t, dir); size != 0 {
			t.Errorf("the log takes %d bytes", size)
		}
	})
}

func diskUsage(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	for _, path := range logFiles(t, dir) {
		if info, err := os.Stat(path); err == nil { // otherwise the sender has just dropped it
			bytes += info.Size()
		}
	}
	return bytes
}

// Whatever a crash or a bad disk does to the log, the next Open delivers what is whole, accepts new
// records, and logs what is lost.
func TestDamage(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is read, and how much of it")
	t.Parallel()
	const n = 600
	value := strings.Repeat("v", 1_175) // three files

	tests := []struct {
		name   string
		damage func(files []string) error
		lost   func(i int) bool // whether record i may be missing
		logged string
	}{
		{"none", func([]string) error { return nil }, func(int) bool { return false }, ""},
		{"a torn end", func(files []string) error {
			return cut(files[2], 600)
		}, func(i int) bool { return i == n-1 }, "torn end"},
		{"a torn length", func(files []string) error {
			return appendBytes(files[2], 0xff)
		}, func(int) bool { return false }, "torn end"},
		{"an end of zeros", func(files []string) error {
			return appendBytes(files[2], make([]byte, 5_000)...)
		}, func(int) bool { return false }, "torn end"},
		{"an empty last file", func(files []string) error {
			return cut(files[2], 1<<30)
		}, func(i int) bool { return i >= 400 }, ""},
		{"a garbled end", func(files []string) error {
			return garble(files[2], -100)
		}, func(i int) bool { return i == n-1 }, "torn end"},
		{"a garbled record in the middle", func(files []string) error {
			return garble(files[1], 100)
		}, func(i int) bool { return 190 < i && i < 215 }, "some records are lost"},
		{"a torn file in the middle", func(files []string) error {
			return cut(files[1], 60_000)
		}, func(i int) bool { return 300 < i && i < 425 }, "some records are lost"},
		{"a missing file in the middle", func(files []string) error {
			return os.Remove(files[1])
		}, func(i int) bool { return 200 < i && i < 425 }, "some records are lost"},
		{"a missing first file", func(files []string) error {
			return os.Remove(files[0])
		}, func(i int) bool { return i < 215 }, ""},
		{"killed while the front was dropped", func(files []string) error {
			return errors.Join(os.Rename(files[1], files[1]+".START"), os.WriteFile(files[2]+".START.TEMP", []byte("x"), 0o600))
		}, func(i int) bool { return i < 215 }, ""},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir, away())
			for i := 0; i < n; i += 10 {
				write(t, s, numbered(i, 10, value)...)
			}
			leave(t, s, n)

			files := logFiles(t, dir)
			if len(files) != 3 {
				t.Fatalf("files are %q", files)
			}
			ok(t, test.damage(files))

			var log bytes.Buffer
			to := newSink()
			s = open(t, dir, to, func(o *spool.Options) { o.Buffer.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			write(t, s, artifact("new", "x"))
			ok(t, s.Close(t.Context()))
			missing := 0
			for i := range n {
				if to.rows[strconv.Itoa(i)] == strconv.Quote(value) {
					continue
				}
				if missing++; !test.lost(i) {
					t.Errorf("record %d is lost", i)
				}
			}

			if to.rows["new"] == "" || test.lost(n-1) && missing == 0 {
				t.Errorf("the new record is %q, %d are lost", to.rows["new"], missing)
			}
			if !strings.Contains(log.String(), test.logged) || test.logged == "" && strings.Contains(log.String(), "ERROR") {
				t.Errorf("logged: %.2000s", log.String())
			}
			if left, err := filepath.Glob(filepath.Join(dir, "log", "*.*")); err != nil || len(left) > 0 {
				t.Errorf("left: %q, %v", left, err)
			}
			if again := delivered(t, dir); len(again.names) > 0 {
				t.Errorf("delivered again: %q", again.names)
			}
		})
	}
}

// cut removes n bytes from the end of a file.
func cut(path string, n int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, max(info.Size()-n, 0))
}

func appendBytes(path string, b ...byte) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, b...), 0o600)
}

// garble alters a byte, counted from the end if at is negative.
func garble(path string, at int) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}

	if at < 0 {
		at += len(data)
	}
	data[at] ^= 0xff
	return os.WriteFile(path, data, 0o600)
}

// A file that is not of the log is moved away. A log whose files contradict each other is left as it is, for a human
// to look at.
func TestStrayFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, away())
	write(t, s, numbered(0, 10, "x")...)
	leave(t, s, 10)
	stray := filepath.Join(dir, "log", "00000000000000000005")
	ok(t, os.WriteFile(stray, []byte("x"), 0o600))

	if to := delivered(t, dir); len(to.names) != 10 {
		t.Errorf("beside a stray file %d of 10 were delivered", len(to.names))
	}
	if kept, err := filepath.Glob(filepath.Join(dir, "damaged", "*")); err != nil || len(kept) != 1 {
		t.Errorf("kept %q, %v", kept, err)
	}

	s = open(t, dir, away())
	write(t, s, numbered(0, 10, "x")...)
	leave(t, s, 10)
	log := logFiles(t, dir)
	data, err := os.ReadFile(log[0])
	ok(t, err)
	ok(t, os.WriteFile(filepath.Join(dir, "log", "00000000000000000015"), data, 0o600))

	if _, err := spool.Open(dir, newSink(), spool.Options{}); err == nil ||
		!strings.Contains(err.Error(), "beyond repair") {
		t.Errorf("spool.Open = %v", err)
	}
	if _, err := spool.Open(filepath.Join(dir, "lock"), newSink(), spool.Options{}); err == nil {
		t.Error("a file was taken for a folder")
	}
}

// O2: damage costs the records that it hit, wherever it is, even if it hides where the next begins. What was damaged
// is kept, and the lost records are counted.
func TestDamageCostsWhatItHit(t *testing.T) {
	t.Parallel()
	t.Run("each byte", func(t *testing.T) {
		t.Parallel()
		dir, path, whole := smallLog(t, 5, 40)
		for at := range whole {
			data := bytes.Clone(whole)
			data[at] ^= byte(1 + at%255)
			checkDamage(t, dir, path, whole, data, at, at+1)
		}
	})

	t.Run("random ranges", func(t *testing.T) {
		t.Parallel()
		dir, path, whole := smallLog(t, 800, 120)
		random := rand.New(rand.NewPCG(7, 7))
		for range 100 {
			from, n := random.IntN(len(whole)), 1+random.IntN(400)
			data := bytes.Clone(whole)
			to := min(from+n, len(data))
			for i := from; i < to; i++ {
				data[i] = byte(random.IntN(256))
			}
			checkDamage(t, dir, path, whole, data, from, to)
		}
	})

	t.Run("zeros", func(t *testing.T) {
		t.Parallel()
		dir, path, whole := smallLog(t, 800, 120)
		random := rand.New(rand.NewPCG(7, 7))
		for range 100 {
			from := random.IntN(len(whole))
			to := min(from+1+random.IntN(4096), len(whole))
			data := bytes.Clone(whole)
			clear(data[from:to])
			checkDamage(t, dir, path, whole, data, from, to)
		}
	})

	t.Run("its beginning", func(t *testing.T) {
		t.Parallel()
		dir, path, whole := smallLog(t, 800, 120)
		checkDamage(t, dir, path, whole, append([]byte("\xff\x01\x00\x80random bytes!"), whole[17:]...), 0, 17)
	})
}

// What an earlier version left in the folder is delivered, too, and in order with what is new.
func TestEntriesOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	const n = 500
	for _, torn := range []int{0, 30} {
		dir, path, whole := smallLog(t, n, 120)
		old, _ := asEarlierVersion(whole)
		ok(t, os.WriteFile(path, old[:len(old)-torn], 0o600))

		s := open(t, dir, away())
		write(t, s, artifact("new", "x"))
		if want := min(torn, 1); s.Lost() != want {
			t.Errorf("%d bytes torn off: %d lost", torn, s.Lost())
		}
		leave(t, s, n+1-min(torn, 1))

		sink := newSink()
		s = open(t, dir, sink)
		ok(t, s.Close(t.Context()))
		if want := n + 1 - min(torn, 1); len(sink.rows) != want || sink.rows["0"] == "" || sink.rows["new"] == "" {
			t.Errorf("%d bytes torn off: %d of %d are delivered", torn, len(sink.rows), want)
		}
	}
}

// TestDamageInAnEarlierVersion alters one byte of an entry that an earlier version wrote: it costs that entry.
func TestDamageInAnEarlierVersion(t *testing.T) {
	t.Parallel()
	const n, hit = 500, 250
	dir, path, whole := smallLog(t, n, 120)
	old, places := asEarlierVersion(whole)
	old[places[hit]+20] ^= 0xff
	ok(t, os.WriteFile(path, old, 0o600))

	to := newSink()
	s := open(t, dir, to)
	if s.Lost() != 1 {
		t.Errorf("%d of %d are lost", s.Lost(), n)
	}
	ok(t, s.Close(t.Context()))

	for i := range n {
		if delivered := to.rows[strconv.Itoa(i)] != ""; delivered != (i != hit) {
			t.Errorf("record %d: delivered is %v", i, delivered)
		}
	}
	if kept, err := filepath.Glob(filepath.Join(dir, "damaged", "*")); err != nil || len(kept) != 1 {
		t.Errorf("kept %q, %v", kept, err)
	}
}

// TestBytesOfAnEarlierVersion: entries that were rewritten count with the bytes that they then have.
func TestBytesOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	dir, path, whole := smallLog(t, 50, 120)
	old, _ := asEarlierVersion(whole)
	ok(t, os.WriteFile(path, old, 0o600))

	to := newSink()
	s := open(t, dir, to)
	ok(t, s.Flush(t.Context()))
	if len(to.names) != 50 || s.Bytes() != 0 {
		t.Errorf("after %d of 50 were delivered, %d bytes wait", len(to.names), s.Bytes())
	}
	ok(t, s.Close(t.Context()))
}

// asEarlierVersion returns a file of the log as an earlier version wrote it, and where the entries begin in it.
func asEarlierVersion(whole []byte) (old []byte, places []int) {
	const headerBytes = 20
	for at := 0; at < len(whole); {
		size, length := binary.Uvarint(whole[at:])
		at += length
		line := whole[at+headerBytes : at+int(size)]

		old = binary.AppendUvarint(old, uint64(4+len(line)))
		places = append(places, len(old))
		old = binary.LittleEndian.AppendUint32(old, crc32.Checksum(line, crc32.MakeTable(crc32.Castagnoli)))
		old = append(old, line...)
		at += int(size)
	}
	return old, places
}

// smallLog returns a folder with n records, the only file of its log, and what is in it.
func smallLog(t *testing.T, n, length int) (dir, path string, whole []byte) {
	t.Helper()
	dir = t.TempDir()
	s := open(t, dir, away())
	write(t, s, numbered(0, n, strings.Repeat("v", length))...)
	leave(t, s, n)

	log := logFiles(t, dir)
	if len(log) != 1 {
		t.Fatalf("files are %q", log)
	}
	whole, err := os.ReadFile(log[0])
	ok(t, err)
	return dir, log[0], whole
}

// checkDamage opens a log whose bytes from one place to another were altered.
func checkDamage(t *testing.T, dir, path string, whole, damaged []byte, from, to int) {
	t.Helper()
	ok(t, os.RemoveAll(filepath.Join(dir, "damaged")))
	ok(t, os.RemoveAll(filepath.Dir(path)))
	ok(t, os.Mkdir(filepath.Dir(path), 0o700))
	ok(t, os.WriteFile(path, damaged, 0o600))

	sink := newSink()
	s := open(t, dir, sink)
	write(t, s, artifact("new", "x"))
	lost := s.Lost()
	ok(t, s.Close(t.Context()))

	const headerBytes = 20
	line := regexp.MustCompile(`\{"kind":"artifact"[^}]*"name":"(\d+)"[^}]*\}`)
	missing, last := 0, ""
	for _, at := range line.FindAllSubmatchIndex(whole, -1) {
		name := string(whole[at[2]:at[3]])
		last = name
		hit := from < at[1] && to > at[0]-headerBytes
		switch delivered := sink.rows[name] != ""; {
		case !hit && !delivered:
			t.Errorf("bytes %d to %d: record %s at %d is lost", from, to, name, at[0])
		case !delivered:
			missing++
		}
	}

	if sink.rows["new"] == "" {
		t.Errorf("bytes %d to %d: the new record is lost", from, to)
	}
	// How many a torn end held is not known.
	if endLost := sink.rows[last] == ""; !endLost && lost != missing || (lost > 0) != (missing > 0) {
		t.Errorf("bytes %d to %d: %d are counted as lost, %d are missing", from, to, lost, missing)
	}

	kept, err := filepath.Glob(filepath.Join(dir, "damaged", "*"))
	ok(t, err)
	if missing > 0 && len(kept) != 1 {
		t.Fatalf("bytes %d to %d: kept %q", from, to, kept)
	}
	for _, each := range kept {
		got, err := os.ReadFile(each)
		if err != nil || len(got) == 0 || !bytes.HasSuffix(damaged, got) || sink.rows[last] != "" && len(got) < len(damaged) {
			t.Errorf("bytes %d to %d: what was damaged is not kept: %v", from, to, err)
		}
	}
}

// Whatever faults the sink has and however often the spool is opened again, the record at the end is
// what was written.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				dir, to := t.TempDir(), newSink()
				written := map[string]string{}
				for round := range 5 {
					s := open(t, dir, to, func(o *spool.Options) {
						// Room for all: the sink may be away for as long as writers would wait.
						o.Buffer.BatchRecords, o.Buffer.MaxRecords = 1+random.IntN(50), 1000
						o.Sync = random.IntN(2) == 0
					})

					var wg sync.WaitGroup
					var mu sync.Mutex
					for w := range 3 {
						wg.Go(func() {
							for i := range 40 {
								a := artifact(fmt.Sprintf("%d/%d", w, i%17), fmt.Sprintf("%s %d %d", strings.Repeat("x", i*100), round, i))
								write(t, s, a)
								mu.Lock()
								written[a.Name] = string(a.Value)
								mu.Unlock()
							}
						})
					}
					for range 10 {
						to.set([]error{nil, record.ErrUnavailable, errors.New("connection lost")}[random.IntN(3)])
						time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
					}
					wg.Wait()

					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					_ = s.Close(ctx) // the next one delivers what is left
					cancel()
				}

				to.set(nil)
				s := open(t, dir, to)
				ok(t, s.Close(t.Context()))
				if diff := cmp.Diff(written, to.rows); diff != "" {
					t.Errorf("to.rows (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// agent is what the test binary does as another process. It writes records to the spool in dir
// while the record is away, and prints the number of each after Write has returned.
func agent(role, dir string) error {
	var options spool.Options
	to := away()
	if role == "torn" { // no file can be written
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err != nil {
			return err
		}
		to.set(nil)
		options.Buffer.Logger = slog.New(slog.NewTextHandler(os.Stdout, nil))
	}

	s, err := spool.Open(dir, to, options)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if role == "torn" {
		err := s.Close(ctx)
		fmt.Println("sent", len(to.names))
		return err
	}

	value := strings.Repeat("v", 1_000)
	if role == "full" { // files end at 100 KB, as on a full disk
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100_000, Max: 200_000}); err != nil {
			return err
		}
	}
	for i := 0; ; i++ {
		if _, err := s.Write(ctx, numbered(i, 1, value)); err != nil {
			if role != "full" {
				return err
			}
			fmt.Println("full", i, errors.Is(err, record.ErrUnavailable), err)
			break
		}
		fmt.Println(i)
	}

	if _, err := s.Write(ctx, numbered(1_000_000, 1, value)); err == nil {
		return errors.New("a second write to a full disk succeeded")
	}
	to.set(nil) // what waits is sent on, and makes room
	if err := s.Flush(ctx); err != nil {
		return err
	}
	fmt.Println("sent", len(to.names))

	if _, err := s.Write(ctx, numbered(2_000_000, 1, value)); err != nil {
		return err
	}
	if err := s.Close(ctx); err != nil {
		return err
	}
	fmt.Println("sent", len(to.names))
	return nil
}

// process is an agent in another process.
type process struct {
	cmd *exec.Cmd
	out io.ReadCloser
}

func start(t *testing.T, role, dir string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], dir)
	cmd.Env = append(os.Environ(), asEnv+"="+role)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	return &process{cmd, out}
}

// read returns everything that the agent prints until it ends.
func (p *process) read(t *testing.T) string {
	t.Helper()
	out, err := io.ReadAll(p.out)
	ok(t, err)
	_ = p.cmd.Wait() // the output says more
	return string(out)
}

// Everything that a write returned for is delivered after the agent was killed.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	written := 0
	for life := range 3 {
		p := start(t, "fill", dir)
		lines := bufio.NewScanner(p.out)
		for n := 0; lines.Scan(); n++ {
			if _, err := strconv.Atoi(lines.Text()); err != nil {
				t.Fatalf("the agent says %q", lines.Text())
			}
			if n == 500*(life+1) {
				ok(t, p.cmd.Process.Kill())
			}
			written = max(written, n+1)
		}

		if err := p.cmd.Wait(); err == nil {
			t.Error("the agent ended by itself")
		}
	}

	to := delivered(t, dir)
	for i := range written {
		if to.rows[strconv.Itoa(i)] == "" {
			t.Fatalf("record %d of %d is lost", i, written)
		}
	}
	if len(to.names) < 3_000 { // those of each life
		t.Errorf("%d records were delivered", len(to.names))
	}
}

// If the disk is full, Write says so. What was written before is delivered, and so makes room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := start(t, "full", dir).read(t)

	var full, sent, after int
	_, said, _ := strings.Cut(out, "full ")
	if _, err := fmt.Sscanf(said, "%d true", &full); err != nil || full < 50 ||
		!strings.Contains(said, "write to the spool") {
		t.Fatalf("the agent says %.500s", said)
	}

	_, counts, _ := strings.Cut(said, "\n")
	if _, err := fmt.Sscanf(counts, "sent %d\nsent %d", &sent, &after); err != nil || sent != full || after != full+1 {
		t.Errorf("%d were written; the agent says %.500s", full, said)
	}
	if to := delivered(t, dir); len(to.names) != 0 {
		t.Errorf("delivered again: %q", to.names)
	}
}

// TestTornEndOnAFullDisk: a torn end is cut off even if there is no room for a copy of it, so that what is whole is
// delivered. Damage before the end stays where it is until there is room for the copy.
func TestTornEndOnAFullDisk(t *testing.T) {
	t.Parallel()
	const n = 50
	dir, path, whole := smallLog(t, n, 120)
	ok(t, os.Truncate(path, int64(len(whole)-30)))

	out := start(t, "torn", dir).read(t)
	if !strings.Contains(out, fmt.Sprintf("\nsent %d\n", n-1)) || !strings.Contains(out, "no room for a copy") ||
		!strings.Contains(out, "cut off a torn end") {
		t.Errorf("the agent says %.2000s", out)
	}

	dir, path, whole = smallLog(t, n, 120)
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 0xff
	ok(t, os.WriteFile(path, damaged, 0o600))

	out = start(t, "torn", dir).read(t)
	left, err := os.ReadFile(path)
	if !strings.Contains(out, "keep a copy of what is damaged") || err != nil || !bytes.Equal(left, damaged) {
		t.Errorf("the agent says %.2000s; %v", out, err)
	}
}

// TestZerosAreNotKept: an end of zeros, as a power loss leaves it, is cut off without a copy.
func TestZerosAreNotKept(t *testing.T) {
	t.Parallel()
	dir, path, _ := smallLog(t, 5, 40)
	ok(t, appendBytes(path, make([]byte, 5_000)...))

	if to := delivered(t, dir); len(to.names) != 5 {
		t.Errorf("%d of 5 are delivered", len(to.names))
	}
	if kept, err := filepath.Glob(filepath.Join(dir, "damaged", "*")); err != nil || len(kept) != 0 {
		t.Errorf("kept %q, %v", kept, err)
	}
}
