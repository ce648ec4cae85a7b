package config

import (
	"maps"
	"slices"

	"github.com/actlog/actlog/agent/tool/tests"
	"github.com/actlog/actlog/internal/runtime/define"
)

// Toolsets are the tools that come with Actlog. Those that are nil are not there.
type Toolsets struct {
	Files  *Folder         `json:"files,omitempty"`
	Git    *Git            `json:"git,omitempty"`
	Code   *Folder         `json:"code,omitempty"`
	Search *Search         `json:"search,omitempty"`
	Tests  map[string]Test `json:"tests,omitempty"` // by the name of their operation
	HTTP   *HTTP           `json:"http,omitempty"`
	DB     *DB             `json:"db,omitempty"`
	Shell  *Shell          `json:"shell,omitempty"`
	Docker *Docker         `json:"docker,omitempty"`
}

// Folder are the tools for the files of a folder, or those that analyse its code.
type Folder struct {
	Root Value `json:"root"` // absolute
	// EnableWrite adds the tools that write. It is true unless the file says otherwise.
	EnableWrite bool `json:"enableWrite"`
	// Allow are patterns of files that the tools may use although they may hold secrets or are hard links.
	Allow []string `json:"allow,omitempty"`
}

// Git are the tools for a git repository.
type Git struct {
	Root        Value    `json:"root"` // absolute; the top folder of the working tree
	EnableWrite bool     `json:"enableWrite"`
	Name        string   `json:"name,omitempty"` // who commits, if not the one of git's own configuration
	Email       string   `json:"email,omitempty"`
	Allow       []string `json:"allow,omitempty"` // see Folder
	// Remotes are the other repositories that git.push and git.pull may use, by name.
	Remotes map[string]GitRemote `json:"remotes,omitempty"`
}

// Search are the tools that search in the texts of a folder.
type Search struct {
	Root Value `json:"root"`
	// MinScore is how near a part must be to count as found by an embedder, from 0 to 1; nil: the default.
	MinScore *float64 `json:"minScore,omitempty"`
	// Patience is how long a call waits for the embedder before it goes on with words only; 0: the default.
	Patience define.Duration `json:"patience,omitempty"`
	Allow    []string        `json:"allow,omitempty"` // see Folder
}

// Test is a command that runs tests.
type Test struct {
	Command []string         `json:"command"`          // the program and its arguments
	Root    Value            `json:"root"`             // absolute; the folder in which it runs
	Format  tests.Format     `json:"format,omitempty"` // of its report; empty: that of the program
	Report  string           `json:"report,omitempty"` // pattern of the files below Root that have it
	Env     map[string]Value `json:"env,omitempty"`
	Sandbox Sandbox          `json:"sandbox,omitzero"`
}

func readToolsets(n node, dir string) (t Toolsets) {
	root := Value{text: &dir}
	folder := func(n node) *Folder {
		f := &Folder{Root: root, EnableWrite: true}
		n.object(fields{
			"root":        func(n node) { f.Root = n.folder(dir) },
			"enableWrite": func(n node) { f.EnableWrite = n.boolean() },
			"allow":       func(n node) { f.Allow = n.words() },
		})
		return f
	}

	n.object(fields{
		"files": func(n node) { t.Files = folder(n) },
		"code":  func(n node) { t.Code = folder(n) },
		"git": func(n node) {
			t.Git = &Git{Root: root, EnableWrite: true}
			g := n.object(fields{
				"root":        func(n node) { t.Git.Root = n.folder(dir) },
				"enableWrite": func(n node) { t.Git.EnableWrite = n.boolean() },
				"allow":       func(n node) { t.Git.Allow = n.words() },
				"name":        func(n node) { t.Git.Name = n.word() },
				"email":       func(n node) { t.Git.Email = n.word() },
				"remotes":     func(n node) { t.Git.Remotes = n.gitRemotes(dir) },
			})
			if g.has("name") != g.has("email") {
				n.problem("who commits needs both a name and an email")
			}
		},
		"search": func(n node) {
			t.Search = &Search{Root: root}
			n.object(fields{
				"root":     func(n node) { t.Search.Root = n.folder(dir) },
				"minScore": func(n node) { t.Search.MinScore = new(n.number(0, 1)) },
				"patience": func(n node) { t.Search.Patience = n.duration() },
				"allow":    func(n node) { t.Search.Allow = n.words() },
			})
		},
		"tests":  func(n node) { t.Tests = n.tests(dir) },
		"http":   func(n node) { t.HTTP = new(readHTTP(n)) },
		"db":     func(n node) { t.DB = new(readDB(n)) },
		"shell":  func(n node) { t.Shell = new(readShell(n, dir)) },
		"docker": func(n node) { t.Docker = new(readDocker(n, dir)) },
	})
	return t
}

// tests returns the commands that run tests, by their names. The key sandbox is the sandbox of all those that
// have none of their own.
func (n node) tests(dir string) map[string]Test {
	commands := map[string]Test{}
	var common Sandbox
	n.entries(func(name string, n node) {
		if name == "sandbox" {
			common = n.sandbox(dir)
		}
	})

	n.entries(func(name string, n node) {
		if name == "sandbox" {
			return
		}
		n.checkName("tests.", name)
		commands[name] = n.test(dir, common)
	})
	return commands
}

// test returns a command that runs tests: a list, or a mapping with more. It runs in dir, and in the sandbox
// that is common to all, unless it says otherwise.
func (n node) test(dir string, common Sandbox) Test {
	t := Test{Root: Value{text: &dir}, Sandbox: common}
	if n.ShortTag() != "!!map" {
		t.Command = n.command()
		return t
	}

	problems := len(n.file.problems)
	n.object(fields{
		"command": func(n node) { t.Command = n.command() },
		"root":    func(n node) { t.Root = n.folder(dir) },
		"format":  func(n node) { t.Format = oneOf(n, tests.Formats()...) },
		"report":  func(n node) { t.Report = n.word() },
		"env":     func(n node) { t.Env = n.values(checkVariable, func(n node) Value { return n.value(true) }) },
		"sandbox": func(n node) { t.Sandbox = n.sandbox(dir) },
	}).require("command")

	if len(n.file.problems) > problems {
		return t
	}

	if err := (tests.Command{Arguments: t.Command, Format: t.Format, Report: t.Report}).Check(); err != nil {
		n.problem("%v", err)
	}
	return t
}

func (t Toolsets) tools() (names []string) {
	if t.Files != nil {
		names = append(names, "files.list_files", "files.read_file", "files.search_in_files", "files.glob", "files.file_info")
		if t.Files.EnableWrite {
			names = append(names, "files.write_file", "files.edit_file", "files.edit_lines", "files.append_file",
				"files.make_folder", "files.move_file", "files.delete_file")
		}
	}

	if t.Git != nil {
		names = append(names, "git.status", "git.diff", "git.log", "git.show", "git.blame", "git.branches", "git.stashes")
		if t.Git.EnableWrite {
			names = append(names, "git.add", "git.commit", "git.branch", "git.checkout", "git.stash")
		}
		if t.Git.EnableWrite && len(t.Git.Remotes) > 0 {
			names = append(names, "git.pull", "git.push")
		}
	}

	if t.Code != nil {
		names = append(names, "code.analyze_code", "code.analyze_complexity", "code.analyze_dependencies",
			"code.detect_code_smells", "code.suggest_refactoring")
		if t.Code.EnableWrite {
			names = append(names, "code.apply_refactoring")
		}
	}

	if t.Search != nil {
		names = append(names, "search.search_code", "search.search_documentation", "search.search_similar_code")
	}
	for _, name := range slices.Sorted(maps.Keys(t.Tests)) {
		names = append(names, "tests."+name)
	}
	return slices.Concat(names, t.HTTP.tools(), t.DB.tools(), t.Shell.tools(), t.Docker.tools())
}
