package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/actlog/actlog/agent/sandbox"
)

const (
	planted  = "planted-secret-0123456789"
	variable = "PLANTED_SECRET"
	// beHidden makes the test binary a program that hides, and then waits for the end of its input.
	beHidden = "BE_HIDDEN"
	// beServer makes it a program that starts another one with bubblewrap, which echoes, and waits for it.
	beServer = "BE_SERVER"
)

func TestMain(m *testing.M) {
	if os.Getenv(beHidden) != "" {
		if err := sandbox.HideProcess(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(os.Getenv(variable), os.Getenv("TWICE"), strings.Join(os.Environ(), " ") != "")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}

	if os.Getenv(beServer) != "" {
		cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", "while read -r line; do echo $line; done")
		cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
		if _, err := (sandbox.Sandbox{Mode: sandbox.Bubblewrap}).Start(cmd); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		_ = cmd.Wait() // it is killed first
		return
	}

	goleak.VerifyTestMain(m)
}

// Programs get what says where things are, what they are given, and nothing else.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{
		"ACTLOG_DATABASE_URL", "ACTLOG_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "PGPASSWORD", "PGUSER",
		"AWS_SECRET_ACCESS_KEY", "GOOGLE_API_KEY", "GOFLAGS", "GOPROXY",
		"HTTPS_PROXY", "NPM_TOKEN", "NODE_OPTIONS", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "LD_PRELOAD",
		"path_to_key", "XPATH", "MY_LC_ALL", "LANGSMITH_API_KEY",
	} {
		t.Setenv(name, planted)
	}

	t.Setenv("LC_TIME", "C")
	t.Setenv("PATH", "/usr/bin:/bin")
	env := sandbox.Environment(map[string]string{"OWN": "mine", "PATH": "/bin"})
	if text := strings.Join(env, "\n"); strings.Contains(text, planted) {
		t.Errorf("it has a secret:\n%s", text)
	}
	for _, want := range []string{"LC_TIME=C", "OWN=mine", "PATH=/bin"} {
		if !slices.Contains(env, want) {
			t.Errorf("it lacks %s: %q", want, env)
		}
	}

	t.Setenv("HOME", "/home")
	if env := sandbox.Environment(map[string]string{"OWN": "mine"}, "HOME", "PGPASSWORD"); !slices.Equal(env,
		[]string{"HOME=/home", "OWN=mine"}) {
		t.Errorf("only: %q", env)
	}
	if slices.Contains(env, "PATH=/usr/bin:/bin") {
		t.Errorf("a variable is there twice: %q", env)
	}
}

// On Windows PATH is called Path.
func TestEnvironmentOnWindows(t *testing.T) {
	t.Setenv("PATH", "")
	if err := os.Unsetenv("PATH"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("Path", "there")
	t.Setenv("openai_Api_Key", planted)
	defer sandbox.AsOnWindows()()

	for _, row := range []struct {
		own  map[string]string
		only []string
		want string
	}{
		{nil, []string{"PATH"}, "Path=there"},
		{map[string]string{"PATH": "mine"}, []string{"PATH"}, "PATH=mine"},
		{map[string]string{"pAtH": "mine"}, []string{"path", "OPENAI_API_KEY"}, "pAtH=mine"},
	} {
		if got := strings.Join(sandbox.Environment(row.own, row.only...), " "); got != row.want {
			t.Errorf("%v %v: %q, want %q", row.own, row.only, got, row.want)
		}
	}

	if env := sandbox.Environment(nil); !slices.Contains(env, "Path=there") ||
		strings.Contains(strings.Join(env, " "), planted) {
		t.Errorf("env = %q", env)
	}
}

// modes are the sandboxes that the system has.
func modes(t *testing.T) (there []sandbox.Mode) {
	t.Helper()
	for _, mode := range []sandbox.Mode{sandbox.Landlock, sandbox.Bubblewrap} {
		if err := (sandbox.Sandbox{Mode: mode}).Check(); err != nil {
			t.Logf("%s: %v", mode, err)
			continue
		}
		there = append(there, mode)
	}
	return there
}

// run runs a script of the shell in a sandbox, and returns what it wrote.
func run(t *testing.T, s sandbox.Sandbox, dir, script string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", script, "sh"}, args...)...)
	cmd.Dir, cmd.Env = dir, sandbox.Environment(nil)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out

	end, err := s.Start(cmd)
	if err != nil {
		t.Fatalf("%s: %v", s.Mode, err)
	}
	defer end()
	_ = cmd.Wait() // its output says how it went
	return out.String()
}

// secrets are a folder of ours, with a folder for programs in it, and files that they must not reach.
type secrets struct{ top, work, data, key, config string }

func newSecrets(t *testing.T) (s secrets) {
	t.Helper()
	s.top = t.TempDir()
	s.work, s.key = filepath.Join(s.top, "work"), filepath.Join(s.top, "keys")
	s.data = filepath.Join(s.work, ".actlog")
	s.config = filepath.Join(s.work, "actlog.yaml")

	for _, dir := range []string{filepath.Join(s.data, "postgres"), filepath.Join(s.work, "src")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{filepath.Join(s.data, "postgres", "password"), s.key, s.config} {
		if err := os.WriteFile(file, []byte(planted), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s secrets) sandbox(mode sandbox.Mode) sandbox.Sandbox {
	return sandbox.Sandbox{Mode: mode, Hide: []string{s.data, s.key, s.config}}
}

// attacks are scripts that print secrets if they can. Their arguments are a process and the folder of secrets.
var attacks = map[string]string{
	"environment":      `cat /proc/$1/environ`,
	"all environments": `cat /proc/[0-9]*/environ /proc/[0-9]*/task/*/environ`,
	"memory":           `while read -r range rest; do dd if=/proc/$1/mem bs=4096 skip=$((0x${range%-*} / 4096)) count=4096; done </proc/$1/maps`,
	"open files":       `cat /proc/$1/fd/*; cat /proc/[0-9]*/fd/[3-9]`,
	"its root":         `cat /proc/$1/root$2/keys /proc/$1/cwd/keys`,
	"command lines":    `cat /proc/[0-9]*/cmdline | tr '\0' '\n' | grep -q -- '-test[.]' && echo ` + planted,
	"parents":          `p=$PPID; while [ "$p" -gt 1 ]; do cat /proc/$p/environ; p=$(cut -d' ' -f4 /proc/$p/stat); done`,
	"inherited files":  `for n in 3 4 5 6 7 8 9; do cat <&$n; done`,
	"data folder":      `cat $2/work/.actlog/postgres/password; cp -r $2/work/.actlog $TMPDIR/x; cat $TMPDIR/x/*/*`,
	"relative":         `cat .actlog/postgres/password actlog.yaml ../keys`,
	"key file":         `cat $2/keys`,
	"configuration":    `cat $2/work/actlog.yaml`,
	"symbolic links":   `ln -s ../.actlog src/a; ln -s $2/keys src/k; cat src/a/postgres/password src/k`,
	"hard links":       `ln .actlog/postgres/password src/h; ln $2/keys src/h; cp -l $2/keys src/h; cat src/h`,
	"moves":            `mv .actlog src/moved; mv $2/keys src/; mv $2/work/actlog.yaml src/; cat src/moved/postgres/password src/keys src/actlog.yaml`,
	"mounts":           `mkdir src/m; mount --bind $2 src/m; cat src/m/keys; unshare -rm sh -c "mount --bind $2 src/m; cat src/m/keys"`,
	"namespaces":       `nsenter -t $1 -m -p cat $2/keys; unshare -r cat $2/keys; chroot $2 /keys; nsenter -t $1 -a cat /proc/self/environ`,
	"disks": `set -- $1 $2 $(stat -c '%Hd %Ld' $2); mknod $TMPDIR/d b $3 $4 && grep -a -m 1 -o ` +
		planted + ` $TMPDIR/d`,
	"kernel memory":        `mknod $TMPDIR/m c 1 1 && echo ` + planted + `; head -c 1 /proc/kcore && echo ` + planted,
	"powers":               `grep CapEff /proc/thread-self/status; p=$(awk '/CapEff/{print $2}' /proc/self/status); case "$p" in *[1-9a-f]???????) echo ` + planted + `;; esac`,
	"signals":              `kill -0 $1 && echo ` + planted,
	"all signals":          `kill -WINCH -1`,
	"debugger":             `gdb -p $1 -batch -ex 'x/s 0'; strace -p $1 -o src/trace & sleep 0.3; kill %1; cat src/trace | grep . && echo ` + planted,
	"passwords of system":  `head -c 1 /etc/shadow | grep . && echo ` + planted,
	"write beside":         `echo x > $2/new; rm -f $2/keys; touch $2/keys.2; mkdir $2/d`,
	"write configuration":  `echo x > actlog.yaml; echo x > $2/work/.actlog/postgres/password`,
	"truncate":             `truncate -s 0 $2/keys; truncate -s 0 .actlog/postgres/password`,
	"terminal":             `: < /dev/tty && echo ` + planted,
	"home":                 `cat $HOME/.ssh/* $HOME/.netrc $HOME/.aws/credentials && echo ` + planted,
	"temporary files":      `ls /tmp/* >/dev/null 2>&1; cat $2/../*/keys /tmp/*/*/keys`,
	"through a descriptor": `exec 5<$2/keys; cat <&5; cat /dev/fd/5`,
}

// S8: no program in a sandbox prints a secret of the process that started it.
func TestAttacks(t *testing.T) {
	held, err := os.Open(newSecrets(t).key) // a file that is open
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()

	received := make(chan os.Signal, 100)
	signal.Notify(received, syscall.SIGWINCH, syscall.SIGPWR)
	defer signal.Stop(received)

	for _, mode := range modes(t) {
		for name, script := range attacks {
			t.Run(string(mode)+" "+name, func(t *testing.T) {
				s := newSecrets(t)
				out := run(t, s.sandbox(mode), s.work, script+"\n:", strconv.Itoa(os.Getpid()), s.top)
				if strings.Contains(out, planted) {
					t.Errorf("it got out:\n%.2000q", out)
				}
				if entries, err := os.ReadDir(s.top); err != nil || len(entries) != 2 {
					t.Errorf("it wrote: %v %v", entries, err)
				}

				// What was sent before this one comes before it.
				if err := syscall.Kill(os.Getpid(), syscall.SIGPWR); err != nil {
					t.Fatal(err)
				}
				if got := <-received; got != syscall.SIGPWR {
					t.Errorf("it sent %v", got)
				}

				for _, file := range []string{filepath.Join(s.data, "postgres", "password"), s.key, s.config} {
					if text, err := os.ReadFile(file); err != nil || string(text) != planted {
						t.Errorf("%s is %q, %v", file, text, err)
					}
				}
			})
		}
	}
}

// Without a sandbox the same attacks succeed. Those that read of all processes are left out: there they would
// read what others wait for.
func TestAttacksWithoutSandbox(t *testing.T) {
	held, err := os.Open(newSecrets(t).key)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()

	names := []string{
		"data folder", "relative", "key file", "configuration", "symbolic links", "hard links", "moves",
		"through a descriptor", "its root", "command lines", "signals",
	}
	if os.Getenv(variable) != "" {
		names = append(names, "environment", "parents")
	}

	for _, name := range names {
		s := newSecrets(t)
		if out := run(t, s.sandbox(sandbox.Off), s.work, attacks[name]+"\n:", strconv.Itoa(os.Getpid()),
			s.top); !strings.Contains(out, planted) {
			t.Errorf("%s: nothing got out:\n%.2000q", name, out)
		}
	}
}

// In the mode processes files are open to a program, but the process that started it is not.
func TestProcesses(t *testing.T) {
	s := newSecrets(t)
	if lacks := (sandbox.Sandbox{Mode: sandbox.Processes}).Lacks(); lacks != "" {
		t.Logf("not here: %s", lacks)
		return
	}

	for _, name := range []string{
		"environment", "all environments", "memory", "open files", "its root", "inherited files", "powers", "signals",
		"kernel memory",
	} {
		if out := run(t, s.sandbox(sandbox.Processes), s.work, attacks[name]+"\n:", strconv.Itoa(os.Getpid()),
			s.top); strings.Contains(out, planted) {
			t.Errorf("%s: it got out:\n%.2000q", name, out)
		}
	}

	if out := run(t, s.sandbox(sandbox.Processes), s.work, "cat $1/keys; echo x > new && cat new", s.top); out != planted+
		"x\n" {
		t.Errorf("files: %q", out)
	}
}

// A program does not read this process by the thread that started it, which is under the same restrictions until it
// ends. Here that takes a second.
func TestThreadThatStarts(t *testing.T) {
	const script = `readlink /proc/$1/task/*/exe`
	pid := strconv.Itoa(os.Getpid())
	if out := run(t, sandbox.Sandbox{Mode: sandbox.Off}, t.TempDir(), script, pid); out == "" {
		t.Error("without a sandbox it read nothing")
	}

	defer sandbox.StartsTake(time.Second)()
	for _, mode := range []sandbox.Mode{sandbox.Processes, sandbox.Landlock} {
		if lacks := (sandbox.Sandbox{Mode: mode}).Lacks(); lacks != "" {
			t.Logf("%s is not here: %s", mode, lacks)
			continue
		}

		if out := run(t, sandbox.Sandbox{Mode: mode}, t.TempDir(), script, pid); out != "" {
			t.Errorf("%s: it read %q", mode, out)
		}
	}
}

// Programs that start at the same time leave the process as it was: its memory can be dumped, unless it has said
// otherwise.
func TestDumpableAgain(t *testing.T) {
	if lacks := (sandbox.Sandbox{Mode: sandbox.Processes}).Lacks(); lacks != "" {
		t.Logf("not here: %s", lacks)
		return
	}

	var starts sync.WaitGroup
	for range 20 {
		starts.Go(func() { run(t, sandbox.Sandbox{Mode: sandbox.Processes}, "/", "true") })
	}
	starts.Wait()

	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || dumpable != 1 {
		t.Errorf("after its programs have started: %d, %v", dumpable, err)
	}
}

// A program can do what tests do.
func TestWork(t *testing.T) {
	for _, mode := range modes(t) {
		t.Run(string(mode), func(t *testing.T) {
			s := newSecrets(t)
			for what, script := range map[string]string{
				"write below its folder": `echo ok > src/new && mkdir src/d && mv src/new src/d/ && cat src/d/new`,
				"temporary files":        `f=$(mktemp) && echo ok > "$f" && cat "$f"`,
				"caches":                 `mkdir -p "$XDG_CACHE_HOME/x" && echo ok > "$XDG_CACHE_HOME/x/y" && cat "$XDG_CACHE_HOME/x/y"`,
				"devices":                `echo x > /dev/null && head -c 1 /dev/zero | wc -c | grep -q 1 && head -c 8 /dev/urandom | wc -c | grep -q 8 && echo ok`,
				"its own output":         `echo ok > /dev/stdout`,
				"its children":           `{ sh -c 'exec sleep 60' & kill $! && wait $!; [ $? = 143 ]; } 2>/dev/null && echo ok`,
				"list its folder":        `ls | grep -q src && echo ok`,
				"names":                  `getent passwd root >/dev/null && getent hosts localhost >/dev/null && echo ok`,
				"git":                    `cd src && git init -q . && git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m x && git log --format=tformat:ok`,
			} {
				if out := run(t, s.sandbox(mode), s.work, script); out != "ok\n" {
					t.Errorf("%s: %q", what, out)
				}
			}

			free := sandbox.Sandbox{Mode: mode} // nothing is hidden in its folder
			if out := run(t, free, s.work, `echo ok > new && cat new`); out != "ok\n" {
				t.Errorf("write in its folder: %q", out)
			}

			more := sandbox.Sandbox{Mode: mode, Read: []string{s.key}, Write: []string{filepath.Join(s.top, "more")}}
			if err := os.Mkdir(more.Write[0], 0o700); err != nil {
				t.Fatal(err)
			}
			if out := run(t, more, filepath.Join(s.work, "src"),
				`cat $1/keys; echo " ok" > $1/more/x; cat $1/more/x; echo no > $1/keys`,
				s.top); !strings.HasPrefix(out, planted+" ok\n") {
				t.Errorf("more paths: %q", out)
			}
		})
	}
}

// A path that leads through a folder of programs grants nothing: they could have put a link there.
func TestPlantedLink(t *testing.T) {
	for _, mode := range modes(t) {
		s := newSecrets(t)
		if err := os.Symlink(s.top, filepath.Join(s.work, "src", "bin")); err != nil {
			t.Fatal(err)
		}

		box := s.sandbox(mode)
		box.Hide = nil
		box.Read, box.Write = []string{filepath.Join(s.work, "src", "bin")}, []string{
			filepath.Join(s.work, "src", "bin", "work"),
		}
		if out := run(t, box, s.work, `cat $1/keys`, s.top); strings.Contains(out, planted) {
			t.Errorf("%s: it got out: %q", mode, out)
		}
	}
}

// What is hidden stays hidden, also from the next program: the folders that it is in cannot be moved.
func TestHiddenIsNotMoved(t *testing.T) {
	for _, mode := range modes(t) {
		for name, script := range map[string]string{
			"parent":      `mv conf moved`,
			"grandparent": `mv a moved`,
			"deep parent": `mv a/b moved`,
			"over it":     `mkdir conf2 && mv -T conf2 conf`,
			"itself":      `mv conf/keys moved; rm -rf conf a`,
			"data folder": `mv data moved`,
			"exchange":    `python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b"conf", -100, b"src", 2)'`,
		} {
			t.Run(string(mode)+" "+name, func(t *testing.T) {
				top := t.TempDir()
				hide := []string{
					filepath.Join(top, "conf", "keys"), filepath.Join(top, "a", "b", "keys"), filepath.Join(top, "data"),
				}

				for _, path := range []string{
					hide[0], hide[1], filepath.Join(hide[2], "password"), filepath.Join(top, "src", "x"),
				} {
					text := planted
					if filepath.Base(path) == "x" {
						text = "x"
					}
					writeFile(t, path, text)
				}

				box := sandbox.Sandbox{Mode: mode, Hide: hide}
				for _, script := range []string{script, `cat * */* */*/* */*/*/*; echo new > src/new && cat src/new`} {
					if out := run(t, box, top, script+"\n:"); strings.Contains(out, planted) || strings.HasPrefix(script, "cat") &&
						!strings.HasSuffix(out, "new\n") {
						t.Errorf("%s: %q", script, out)
					}
				}

				for _, path := range hide {
					if _, err := os.Stat(path); err != nil {
						t.Error(err)
					}
				}
				if out := run(
					t, box, top, `echo beside > conf/other; echo beside > a/b/other; cat conf/other a/b/other`,
				); mode == sandbox.Bubblewrap && out != "beside\nbeside\n" {
					t.Errorf("beside what is hidden: %q", out)
				}
			})
		}
	}
}

// What was hidden and is gone may have another name in the folder: no program runs there, however the sandbox was made.
func TestHiddenIsGone(t *testing.T) {
	for _, mode := range modes(t) {
		for _, seen := range []string{"checked", "started", "link"} {
			top, outside := t.TempDir(), t.TempDir()
			box := sandbox.Sandbox{
				Mode: mode, Hide: []string{
					filepath.Join(top, "conf", "keys"), filepath.Join(top, "not-there"), filepath.Join(outside, "keys"),
				},
			}

			writeFile(t, box.Hide[0], planted)
			writeFile(t, box.Hide[2], planted)
			if seen == "link" {
				link := filepath.Join(outside, "link")
				if err := os.Symlink(filepath.Join(top, "conf"), link); err != nil {
					t.Fatal(err)
				}
				box.Hide = []string{filepath.Join(link, "keys")}
			}

			if seen == "checked" {
				if err := box.Check(); err != nil {
					t.Fatal(err)
				}
			} else if out := run(t, box, top, "echo ok"); out != "ok\n" {
				t.Errorf("%s: %q", mode, out)
			}

			if err := os.Remove(filepath.Join(outside, "keys")); err != nil { // no program could have moved it
				t.Fatal(err)
			}
			if out := run(t, box, top, "echo ok"); out != "ok\n" {
				t.Errorf("%s: %q", mode, out)
			}
			if err := os.Rename(filepath.Join(top, "conf"), filepath.Join(top, "moved")); err != nil {
				t.Fatal(err)
			}

			cmd := exec.CommandContext(t.Context(), "/bin/cat", "moved/keys")
			cmd.Dir = top
			if _, err := box.Start(cmd); err == nil ||
				!strings.Contains(err.Error(), "keys, which programs must not reach, was there and is gone") {
				t.Errorf("mode = %s, %s: %v", mode, seen, err)
			}
		}
	}
}

// A link on the way to what is hidden is not led elsewhere.
func TestHiddenLink(t *testing.T) {
	for _, mode := range modes(t) {
		for name, target := range map[string]string{"keys": "conf/keys", "link/keys": "conf"} {
			top := t.TempDir()
			writeFile(t, filepath.Join(top, "conf", "keys"), planted)
			link, _, _ := strings.Cut(name, "/")
			if err := os.Symlink(filepath.Join(top, target), filepath.Join(top, link)); err != nil {
				t.Fatal(err)
			}

			box := sandbox.Sandbox{Mode: mode, Hide: []string{filepath.Join(top, name)}}
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "rm -f "+link+"; cat conf/keys "+name)
			cmd.Dir = top
			var out bytes.Buffer
			cmd.Stdout = &out

			if end, err := box.Start(cmd); err == nil {
				_ = cmd.Wait() // its output says how it went
				end()
			} else if mode != sandbox.Bubblewrap ||
				!strings.Contains(err.Error(), link+" leads to a file that programs must not reach") {
				t.Errorf("%s %s: %v", mode, name, err)
			}
			if target, err := os.Stat(filepath.Join(top, name)); err != nil || out.Len() > 0 {
				t.Errorf("%s %s: %q %v %v", mode, name, out.String(), target, err)
			}
		}
	}
}

// With bubblewrap a program does not write what makes git run programs, unless it may by name.
func TestRepository(t *testing.T) {
	if !slices.Contains(modes(t), sandbox.Bubblewrap) {
		return
	}

	top := t.TempDir()
	writeFile(t, filepath.Join(top, ".git", "config"), "mine")
	writeFile(t, filepath.Join(top, ".git", "hooks", "sample"), "mine")
	box := sandbox.Sandbox{Mode: sandbox.Bubblewrap, Hide: []string{filepath.Join(top, ".git", "hooks", "sample")}}
	script := `{ echo x > .git/config; echo x > .git/hooks/pre-commit; mv .git moved; mv .git/hooks .git/h; rm -rf .git; } 2>/dev/null; cat .git/config; ls .git/hooks; echo ok > new && cat new`
	if out := run(t, box, top, script); out != "minesample\nok\n" {
		t.Errorf("run(box, top, script) = %q", out)
	}

	box = sandbox.Sandbox{Mode: sandbox.Bubblewrap, Write: []string{filepath.Join(top, ".git") + "/"}}
	if out := run(t, box, top, `echo theirs > .git/config; cat .git/config`); out != "theirs\n" {
		t.Errorf("granted: %q", out)
	}
}

// A program goes on when the thread that called Start ends.
func TestThreadOfStartEnds(t *testing.T) {
	for _, mode := range modes(t) {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "echo ready; read line; echo $line")
		cmd.Dir, cmd.Env = t.TempDir(), sandbox.Environment(nil)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}

		var end func()
		var tid int
		var ready string
		lines, done := bufio.NewReader(out), make(chan struct{})
		go onEndingThread(func() {
			tid = syscall.Gettid()
			if end, err = (sandbox.Sandbox{Mode: mode}).Start(cmd); err == nil {
				ready, err = lines.ReadString('\n')
			}
			close(done)
		})

		<-done
		if err != nil || ready != "ready\n" {
			t.Fatalf("%s: %q %v", mode, ready, err)
		}
		for { // until the thread has ended
			if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid)); err != nil {
				break
			}
			runtime.Gosched()
		}

		_, err = io.WriteString(in, "there\n")
		line, _ := lines.ReadString('\n')
		if waited := cmd.Wait(); err != nil || waited != nil || line != "there\n" {
			t.Errorf("%s: %q %v %v", mode, line, err, waited)
		}
		end()
	}
}

// A server that is killed leaves no program behind that bubblewrap started: this test does not end if it does.
func TestServerIsKilled(t *testing.T) {
	if !slices.Contains(modes(t), sandbox.Bubblewrap) {
		return
	}

	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(sandbox.Environment(nil), beServer+"=1")
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
	if _, err := io.WriteString(in, "there\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "there\n" {
		t.Fatalf("%q %v", line, err)
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 { // its end, as the program had the output open
		t.Errorf("rest = %q %v", rest, err)
	}
	_ = cmd.Wait() // it was killed
}

// onEndingThread calls do on a thread that ends then.
func onEndingThread(do func()) {
	runtime.LockOSThread()
	if syscall.Gettid() != os.Getpid() {
		do() // never unlocked, so the thread ends
		return
	}

	defer runtime.UnlockOSThread() // the first thread of a process cannot end: use another while this one is held
	done := make(chan struct{})
	go func() {
		defer close(done)
		onEndingThread(do)
	}()
	<-done
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A sandbox that cannot be had, or is none, is an error.
func TestCheck(t *testing.T) {
	t.Parallel()
	for want, box := range map[string]sandbox.Sandbox{
		`there is no sandbox "jail"`: {Mode: "jail"}, `"a/b" is not absolute`: {Read: []string{"a/b"}},
		`"w" is not absolute`: {Write: []string{"w"}}, `"h" is not absolute`: {Hide: []string{"h"}},
	} {
		if err := box.Check(); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", box, err, want)
		}
	}

	for _, mode := range []sandbox.Mode{"", sandbox.Auto, sandbox.Processes, sandbox.Off} {
		if err := (sandbox.Sandbox{Mode: mode}).Check(); err != nil {
			t.Errorf("%q: %v", mode, err)
		}
	}

	cmd := exec.CommandContext(t.Context(), "no-such-program-at-all")
	if _, err := (sandbox.Sandbox{}).Start(cmd); err == nil || !strings.Contains(err.Error(), "no-such-program-at-all") {
		t.Errorf("start: %v", err)
	}
}

// No thread of ours stays restricted: the test does not end if one does.
func TestThreads(t *testing.T) {
	dir := t.TempDir()
	for range 20 {
		if out := run(t, sandbox.Sandbox{}, dir, "echo ok"); out != "ok\n" {
			t.Fatalf("run = %q", out)
		}
	}

	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("tasks = %v, %v", tasks, err)
	}
	for _, task := range tasks {
		for { // one that was restricted may be ending still
			status, err := os.ReadFile(task)
			if err != nil || !strings.Contains(string(status), "NoNewPrivs:\t1") ||
				strings.Contains(ownStatus(t), "NoNewPrivs:\t1") {
				break
			}
			runtime.Gosched()
		}
	}
}

func ownStatus(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// S8: a process that hides has its variables, and shows them to nobody: not in /proc, not if they are there
// twice. Other users' programs, and those of its own user, cannot read it at all.
func TestHideProcess(t *testing.T) {
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	cmd.Env = []string{
		beHidden + "=1", variable + "=" + planted, "TWICE=" + planted, "GOOGLE_API_KEY=" + planted,
		"PATH=" + os.Getenv("PATH"),
	}
	cmd.Env = append(cmd.Env, "OPENAI_API_KEY="+planted)

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

	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != planted+" "+planted+" true\n" {
		t.Fatalf("what it has: %q %v", line, err)
	}

	proc := fmt.Sprintf("/proc/%d/", cmd.Process.Pid)
	environ, err := os.ReadFile(proc + "environ")
	switch {
	case os.Geteuid() == 0:
		if err != nil || strings.Contains(string(environ), planted) || !strings.Contains(string(environ), "PATH=") {
			t.Errorf("root reads: %q %v", environ, err)
		}
	case err == nil:
		t.Errorf("its own user reads its environment: %q", environ)
	default:
		for _, name := range []string{"mem", "maps", "fd", "auxv"} {
			f, err := os.Open(proc + name)
			if err == nil {
				n, err := f.Read(make([]byte, 10))
				t.Errorf("its own user opens its %s: %d %v", name, n, err)
				f.Close()
			}
		}
	}
}

// All of this holds for root and for an ordinary user, whose secrets are in the environment and in a file that
// was open when the process started.
func TestUsers(t *testing.T) {
	if os.Getenv(variable) != "" {
		return // this is what runs again below
	}

	users := map[string]*syscall.Credential{"this": nil}
	if os.Geteuid() == 0 {
		users["nobody"] = &syscall.Credential{Uid: 65534, Gid: 65534}
	}

	for name, credential := range users {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("/tmp", "sandbox-test-") //nolint:usetesting // one that others can enter
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			copyTo(t, os.Args[0], filepath.Join(dir, "sandbox.test"))
			home := filepath.Join(dir, "home")
			if err := os.Mkdir(home, 0o700); err != nil {
				t.Fatal(err)
			}

			held, err := os.Create(filepath.Join(dir, "held"))
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			if _, err := held.WriteString(planted); err != nil {
				t.Fatal(err)
			}
			if _, err := held.Seek(0, io.SeekStart); err != nil {
				t.Fatal(err)
			}

			if credential != nil {
				for _, path := range []string{dir, home} {
					if err := os.Chown(path, int(credential.Uid), int(credential.Gid)); err != nil {
						t.Fatal(err)
					}
				}
			}

			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "sandbox.test"), "-test.v",
				"-test.run=^Test(Attacks|AttacksWithoutSandbox|Processes|Work|PlantedLink|Threads|HideProcess)$")
			cmd.Dir = dir
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, variable + "=" + planted}
			cmd.ExtraFiles = []*os.File{held}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("cmd.CombinedOutput() = %v\n%s", err, out)
			}
		})
	}
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(to, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
}
