package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Mode is how a program is kept from the rest of the machine.
type Mode string

const (
	// Auto is Landlock, else Bubblewrap, else Off, whichever the system has.
	Auto Mode = "auto"
	// Landlock lets the kernel refuse files that are not listed, and other processes. Linux has it.
	Landlock Mode = "landlock"
	// Bubblewrap starts the program by bwrap, which gives it a view of its own of files and processes.
	Bubblewrap Mode = "bubblewrap"
	// Processes keeps the program from other processes, this one among them, and leaves it all files. Where
	// the system cannot do that, it is Off.
	Processes Mode = "processes"
	// Off lets the program do what the user of this process may.
	Off Mode = "off"
)

// Modes are all modes.
func Modes() []Mode { return []Mode{Auto, Landlock, Bubblewrap, Processes, Off} }

// Sandbox is what a program can reach. In the modes Landlock and Bubblewrap it reads and executes the
// programs and libraries of the system and of languages, and writes in its folder, a folder for temporary
// files and one for caches. It does not see other processes, and has none of root's powers over the machine.
// The network stays.
type Sandbox struct {
	// Mode is Auto if it is empty.
	Mode Mode `json:"mode,omitempty" yaml:"mode,omitempty"`
	// Read are absolute paths of more files and folders to read and execute.
	Read []string `json:"read,omitempty" yaml:"read,omitempty"`
	// Write are absolute paths of more files and folders to write.
	Write []string `json:"write,omitempty" yaml:"write,omitempty"`
	// Hide are absolute paths that stay out of reach in the modes Landlock and Bubblewrap, also below a
	// folder that the program can reach.
	Hide []string `json:"-" yaml:"-"`
}

// Check returns an error if the sandbox cannot be had here, or is none. From then on Start refuses to run a program
// that could have moved something away that is hidden and was there.
func (s Sandbox) Check() error {
	for _, path := range slices.Concat(s.Read, s.Write, s.Hide) {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%q is not absolute", path)
		}
	}
	for _, path := range s.Hide {
		remember(path)
	}

	_, err := s.chosen()
	return err
}

// Lacks returns what the sandbox does not protect here although one would expect it, or "".
func (s Sandbox) Lacks() string {
	const reach = "the programs reach what the user of this process may: its files and its other processes"
	mode, err := s.chosen()
	switch abi := landlockABI(); {
	case err != nil:
		return err.Error()
	case mode != Off && mode != Bubblewrap && abi < signalABI:
		return fmt.Sprintf("the Landlock of this kernel (version %d) does not keep the programs from sending signals to "+
			"other processes of the user; version %d does (Linux 6.12)", abi, signalABI)

	case mode != Off:
		return ""
	case s.Mode != Off:
		return fmt.Sprintf("there is no sandbox here (%v; %v): %s", errNoLandlock, bubblewrap().err, reach)
	case os.Geteuid() == 0:
		return "the sandbox is off, and the programs run as root: they can read the memory of this process, with all its " +
			"secrets"
	}
	return ""
}

// Within returns what is hidden below a folder that programs write, where that keeps them from making files
// directly in it: Landlock can only grant what is there.
func (s Sandbox) Within(dir string) (hidden []string) {
	if mode, err := s.chosen(); err != nil || mode != Landlock {
		return nil
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}

	for _, path := range realOf(s.Hide) {
		if within(path, dir) && !slices.Contains(hidden, path) {
			hidden = append(hidden, path)
		}
	}
	return hidden
}

// chosen returns the mode that is used: never Auto.
func (s Sandbox) chosen() (Mode, error) {
	abi := landlockABI()
	switch s.Mode {
	case Off:
		return Off, nil
	case Processes:
		if abi < leastABI {
			return Off, nil
		}
		return Processes, nil

	case Landlock:
		if abi < leastABI {
			return "", errNoLandlock
		}
		return Landlock, nil

	case Bubblewrap:
		return Bubblewrap, bubblewrap().err
	case Auto, "":
	default:
		return "", fmt.Errorf("there is no sandbox %q", s.Mode)
	}

	switch {
	case abi >= signalABI:
		return Landlock, nil
	case bubblewrap().err == nil:
		return Bubblewrap, nil
	case abi >= leastABI:
		return Landlock, nil
	}
	return Off, nil
}

// Start starts a program in the sandbox. Its folder, cmd.Dir, must be absolute or empty, and is writable. Files
// that this process was started with are not inherited, whatever the mode. The caller calls end when the
// program has ended.
func (s Sandbox) Start(cmd *exec.Cmd) (end func(), err error) {
	nothing := func() {}
	mode, err := s.chosen()
	switch {
	case err != nil:
		return nil, err
	case cmd.Err != nil:
		return nil, cmd.Err
	}

	keepFiles()
	switch mode {
	case Off:
		return nothing, cmd.Start()
	case Processes:
		return nothing, startIsolated(cmd)
	}

	temporary, err := os.MkdirTemp("", "actlog-run-")
	if err != nil {
		return nil, fmt.Errorf("sandbox: folder for temporary files: %w", err)
	}
	remove := func() { _ = removeAll(temporary) }
	ended, err := s.startReaching(cmd, mode, temporary)
	if err != nil {
		remove()
		return nil, err
	}
	return func() { ended(); remove() }, nil
}

// startReaching starts a program that reaches only some files.
func (s Sandbox) startReaching(cmd *exec.Cmd, mode Mode, temporary string) (end func(), err error) {
	if temporary, err = filepath.EvalSymlinks(temporary); err != nil {
		return nil, err
	}
	reached := reachOf(cmd, temporary, s.Read, s.Write)
	hidden, err := hiddenOf(s.Hide, reached.write)
	if err != nil {
		return nil, err
	}

	if mode == Bubblewrap {
		return startWrapped(cmd, reached, hidden)
	}
	return func() {}, startRestricted(cmd, reached.without(hidden))
}

// removeAll removes a folder, also if a program has made folders in it that cannot be written.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if name := strings.TrimPrefix(strings.TrimPrefix(path, dir), string(filepath.Separator)); name != "" && err == nil &&
			entry.IsDir() {
			_ = root.Chmod(name, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
